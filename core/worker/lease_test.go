package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/host"
)

const twoSteps = `
steps:
  - {name: a, uses: file, with: {path: /x}}
  - {name: b, uses: file, with: {path: /x}}
`

// A machine that was suspended for longer than its lease, between two steps: no timer has ended
// yet, and the queue has given the job to others. The control: a worker that does not count the
// suspended time begins the next step.
func TestFaultR1NoStepBeginsOnAnExpiredLease(t *testing.T) {
	for _, counts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var suspended atomic.Int64
			stop := func() { suspended.Add(int64(queue.SessionTTL + 1500*time.Millisecond)) }
			l := &lab{t: t, plugins: &script{}}
			l.q = memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(suspended.Load())) }})
			defer l.q.Shutdown()
			ends := map[uint64]bool{} // fences whose leases ended while their node did not look
			begun := 0                // on them
			l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
				if c.Step == "a" && len(ends) == 0 {
					stop()
					ends[c.Fence] = true
				} else if ends[c.Fence] {
					begun++
				}
				return host.Outcome{Changed: true}, nil
			}
			la := l.submit("r", 1, twoSteps)
			n := l.startWith(l.config(), func(w *Worker) {
				w.suspended = func() time.Duration {
					if !counts {
						return 0
					}
					return time.Duration(suspended.Load())
				}
			})
			res := l.results(la)
			n.drain()
			if (begun == 0) != counts {
				t.Errorf("the worker counts suspended time: %t; %d steps began on a lease that had ended", counts, begun)
			}
			if !counts {
				return
			}
			l.exactlyOnce(la, res)
			if !res[0].Outcome.Good() || len(ends) != 1 {
				t.Errorf("%+v, %d stops", res[0], len(ends))
			}
			if got := l.said(SessionLost); len(got) != 1 {
				t.Errorf("reported %v, expected once that the lease was not trusted", got)
			}
		})
	}
}

// The guard that the host services ask: it fences before the queue is asked, and an answer that is
// older than the stop does not lift the fence.
func TestFaultR1TheLeaseIsComparedBeforeEachHostCall(t *testing.T) {
	inLab(t, func(l *lab) {
		var suspended atomic.Int64
		var late, after error
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if err := c.Live(); err != nil {
				t.Errorf("refused at the beginning: %v", err)
			}
			pass(time.Minute) // beats renew
			if err := c.Live(); err != nil {
				t.Errorf("refused on a lease that beats keep: %v", err)
			}
			suspended.Add(int64(queue.SessionTTL))
			late = c.Live()
			pass(queue.BeatEvery + time.Second) // the session lives after all, its stopped jobs do not
			after = c.Live()
			return host.Outcome{Cancelled: true}, nil
		}
		l.submit("r", 1, oneStep)
		n := l.startWith(l.config(), func(w *Worker) { w.suspended = func() time.Duration { return time.Duration(suspended.Load()) } })
		pass(2 * time.Minute)
		n.drain()
		if late == nil || after == nil {
			t.Errorf("allowed after the lease: %v, and once the queue answered again: %v", late, after)
		}
	})
}

func TestFaultR1AnAnswerFromBeforeTheStopRenewsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New((&lab{t: t, q: memory.New(memory.Options{}), plugins: &script{}}).config())
		if err != nil {
			t.Fatal(err)
		}
		s := &session{w: w, id: "s", renewed: w.moment(), good: time.Second}
		sent := w.moment()
		pass(queue.SessionTTL) // the answer was in a buffer
		if s.renew(sent, queue.SessionTTL) || s.trusted() {
			t.Error("a session whose lease has run out since the beat was sent is trusted")
		}
		if !s.renew(w.moment(), queue.SessionTTL) || !s.trusted() {
			t.Error("a session whose beat was answered is not trusted")
		}
	})
}

// stoppableEnv is set for a process that stoppable is all of.
const stoppableEnv = "TURNUS_TEST_STOPPABLE"

// stoppable is a worker in a process of its own. It prints what begins on hosts, and the reports of
// its worker. Step a ends when stdin does, whatever it is asked.
func stoppable(addr string) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, Username: servers.RedisUser, Password: servers.Password})
	q, err := redis.New(client, redis.Options{})
	if err != nil {
		panic(err)
	}
	released := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(released)
	}()
	do := func(_ context.Context, c host.Call) (host.Outcome, error) {
		fmt.Println("begin", c.Step, c.Host.Name)
		if c.Step == "a" {
			<-released
		}
		return host.Outcome{Changed: true}, nil
	}
	w, err := New(Config{Queue: q, Payload: q.Payload, Plugins: &script{do: do}, Events: func(e Event) { fmt.Println("said", e.Kind, e.Host) }})
	if err != nil {
		panic(err)
	}
	fmt.Println("ended", w.Run(context.Background()))
}

// A worker's process is stopped between two steps, for longer than its lease; when it continues
// Redis does not answer. The test judges by what its hosts see. Red where between does not ask
// live, and beat asks the queue before it fences: b begins on all hosts.
func TestFaultR1AProcessThatWasStoppedBeginsNothing(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTCP(t)
	proxy := servers.NewRedisProxy(t, server)
	q, err := redis.New(server.User(t), redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queue.SubmitOne(t.Context(), q, (&lab{t: t}).prepare("r", 3, twoSteps).Run); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), stoppableEnv+"="+proxy.Addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	await := func(n int, what string) {
		t.Helper()
		for n > 0 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), "begin b") {
				t.Fatalf("a second step began on an expired lease: %s", lines.Text())
			}
			if strings.HasPrefix(lines.Text(), what) {
				n--
			}
		}
		if n > 0 {
			t.Fatalf("the worker ended before it printed %q", what)
		}
	}
	await(3, "begin a")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	proxy.Silent.Store(1 << 30)
	other, err := q.Open(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "the queue to take the stopped worker's jobs back", func() bool {
		if _, err := q.Turn(t.Context(), queue.Turn{Session: other}); err != nil {
			t.Fatal(err)
		}
		s, err := q.Status(t.Context(), "r")
		return err == nil && s.InFlight == 0
	})
	_ = in.Close() // steps a are at their end
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(3, "said "+string(JobSuspended))
}

// rolledBack is a queue whose leases, while on is set, have tokens that it gave before.
type rolledBack struct {
	queue.Worker
	on   atomic.Bool
	back atomic.Int64 // leases that were given back
}

func (q *rolledBack) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	for _, a := range t.Acks {
		if a.Kind == queue.AckReturn {
			q.back.Add(1)
		}
	}
	res, err := q.Worker.Turn(ctx, t)
	for i := range res.Leases {
		if q.on.Load() {
			res.Leases[i].Token = 1
		}
	}
	return res, err
}

// A queue that was set back holds leases of jobs that ended here, and the worker's session with
// them. They are given back, and not begun a second time: after a turn whose end is unknown, and
// after one that did not arrive. Red with start in the place of startNew in adopt, and with
// turnFailed treating a turn that did not arrive as another case.
func TestFaultR4LeasesThatEndedHereAreGivenBack(t *testing.T) {
	for name, lost := range map[string]error{"unknown": core.ErrUnknown, "unavailable": core.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				q := &heldAgain{Worker: l.q}
				c := l.config()
				c.Queue = q
				n := l.start(c)
				l.results(l.submit("first", 2, oneStep))
				calls := len(l.plugins.seen())
				q.lost.Store(&lost)
				pass(5 * time.Second)
				if got := len(l.plugins.seen()); got != calls || !q.back.Load() {
					t.Errorf("%d calls, %d before; the lease was given back: %v", got, calls, q.back.Load())
				}
				l.results(l.submit("second", 2, oneStep))
				n.drain()
			})
		})
	}
}

// heldAgain is a queue that fails one turn when lost is set, and holds a lease from then on that it
// gave before, until it is given back.
type heldAgain struct {
	queue.Worker
	lost  atomic.Pointer[error]
	held  atomic.Bool
	back  atomic.Bool
	first atomic.Pointer[queue.Lease]
}

func (q *heldAgain) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if lost := q.lost.Swap(nil); lost != nil {
		q.held.Store(true)
		return queue.TurnResult{}, *lost
	}
	for i, a := range t.Acks {
		if first := q.first.Load(); q.held.Load() && first != nil && a.Token == first.Token && a.Kind == queue.AckReturn {
			q.held.Store(false)
			q.back.Store(true)
			t.Acks = slices.Delete(slices.Clone(t.Acks), i, i+1) // the queue behind does not have it
			break
		}
	}
	res, err := q.Worker.Turn(ctx, t)
	if len(res.Leases) > 0 {
		q.first.CompareAndSwap(nil, &res.Leases[0])
	}
	return res, err
}

func (q *heldAgain) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	leases, err := q.Worker.Adopt(ctx, session)
	if q.held.Load() {
		leases = append(leases, *q.first.Load())
	}
	return leases, err
}

// amnesic is a queue that, while on is set, has forgotten the leases of its sessions, and reports
// that.
type amnesic struct {
	queue.Worker
	on atomic.Bool
}

func (q *amnesic) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := q.Worker.Turn(ctx, t)
	res.Doubt = q.on.Load()
	return res, err
}

func (q *amnesic) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	if q.on.Load() {
		return nil, nil
	}
	return q.Worker.Adopt(ctx, session)
}

// A queue that was set back has forgotten the lease of a job that runs here: the job is stopped,
// because the queue leases its host again. Red without stopJobs in adopt.
func TestFaultR4AJobWhoseLeaseIsForgottenIsStopped(t *testing.T) {
	inLab(t, func(l *lab) {
		var ended atomic.Int64
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			out, err := sleep(time.Hour)(ctx, c)
			ended.Add(1)
			return out, err
		}
		q := &amnesic{Worker: l.q}
		c := l.config()
		c.Queue = q
		n := l.start(c)
		l.submit("r", 2, oneStep)
		pass(2 * time.Second)
		if calls := len(l.plugins.seen()); calls != 2 || ended.Load() != 0 {
			t.Fatalf("%d calls, of which %d have ended", calls, ended.Load())
		}
		q.on.Store(true)
		pass(2 * time.Second)
		if ended.Load() != 2 {
			t.Errorf("%d of 2 jobs were stopped", ended.Load())
		}
		q.on.Store(false)
		n.Kill()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		n.stop()
	})
}

// A queue that was set back leases a job with a token that this node has seen pass: it may have
// ended since. Red with start in the place of startNew.
func TestFaultR4ALeaseOfTheQueuesPastIsRefused(t *testing.T) {
	inLab(t, func(l *lab) {
		q := &rolledBack{Worker: l.q}
		c := l.config()
		c.Queue = q
		first := l.submit("first", 2, oneStep)
		n := l.start(c)
		l.results(first)
		calls := len(l.plugins.seen())
		q.on.Store(true)
		l.submit("again", 1, oneStep)
		pass(2 * time.Second)
		if got := len(l.plugins.seen()); got != calls || q.back.Load() == 0 {
			t.Errorf("%d calls, %d before; %d leases were given back", got, calls, q.back.Load())
		}
		q.on.Store(false)
		n.Kill()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		n.stop()
	})
}
