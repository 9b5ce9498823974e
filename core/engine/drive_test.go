package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

// bed is a queue, a node that works on it as a test sets, and the events of Drive.
type bed struct {
	t           *testing.T
	q           *memory.Queue
	concurrency int
	outcome     func(l queue.Lease) core.Outcome
	took        time.Duration

	results []core.Result
	events  []engine.Event
	status  []queue.Status
}

func inBed(t *testing.T, f func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, q: memory.New(memory.Options{}), concurrency: 10, took: time.Second}
		defer b.q.Shutdown()
		f(b)
	})
}

// work leases and acknowledges until ctx ends, in lock step: a job takes took, and one that is
// asked to stop ends as cancelled.
func (b *bed) work(ctx context.Context) {
	s, err := b.q.Open(context.Background(), "node")
	if err != nil {
		b.t.Error(err)
		return
	}
	var acks []queue.Ack
	for {
		res, err := b.q.Turn(context.Background(), queue.Turn{Session: s, Acks: acks, Want: b.concurrency})
		if err != nil {
			b.t.Error(err)
			return
		}
		acks = nil
		end := time.Now().Add(b.took)
		if len(res.Leases) == 0 { // it came before the run did
			end = time.Now().Add(min(b.took, time.Second))
		}
		stop := res.Stop
		for time.Now().Before(end) && len(stop) == 0 {
			select {
			case <-ctx.Done():
				_ = b.q.Close(context.Background(), s)
				return
			case <-time.After(min(b.took, time.Second)):
			}
			beat, err := b.q.Beat(context.Background(), s)
			if err != nil {
				b.t.Error(err)
				return
			}
			stop = beat.Stop
		}
		for _, l := range res.Leases {
			o := core.Changed
			if b.outcome != nil {
				o = b.outcome(l)
			}
			if slices.Contains(stop, l.Job) {
				o = core.Cancelled
			}
			detail, _ := json.Marshal(core.Result{Job: l.Job, Host: l.Host, Outcome: o, Worker: "node", Attempt: l.Attempt})
			acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: o, Detail: detail})
		}
	}
}

func (b *bed) options() queuetest.DriveOptions {
	return queuetest.DriveOptions{
		OnRecord: func(r core.Result) { b.results = append(b.results, r) },
		OnStatus: func(s queue.Status) { b.status = append(b.status, s) },
		OnEvent:  func(e engine.Event) { b.events = append(b.events, e) },
	}
}

func (b *bed) prepare(n int, body string) *launch.Launch {
	b.t.Helper()
	l, err := launch.Prepare(parse(b.t, "targets: true\n"+body+command), fleet(n), launch.Options{RunID: "r", Types: types})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// drive works and drives to the end.
func (b *bed) drive(ctx context.Context, d queuetest.DriveQueue, l *launch.Launch, o queuetest.DriveOptions) (queue.Status, error) {
	b.t.Helper()
	working, stop := context.WithCancel(context.Background())
	var node sync.WaitGroup
	node.Go(func() { b.work(working) })
	s, err := queuetest.Drive(ctx, d, l, o)
	stop()
	node.Wait()
	b.once(l)
	return s, err
}

// once fails unless every job has one result, with its host and, if it is bad, a reason.
func (b *bed) once(l *launch.Launch) {
	b.t.Helper()
	seen := make([]int, len(l.Hosts))
	for _, r := range b.results {
		seen[r.Job.Index]++
		if r.Host != l.Hosts[r.Job.Index].Name || r.Customer != "acme" {
			b.t.Errorf("result of job %d: %+v", r.Job.Index, r)
		}
		if !r.Outcome.Good() && r.Reason == "" {
			b.t.Errorf("%s without a reason: %+v", r.Outcome, r)
		}
	}
	for i, n := range seen {
		if n != 1 {
			b.t.Errorf("job %d has %d results", i, n)
		}
	}
}

func (b *bed) said() string {
	var out []string
	for _, e := range b.events {
		text := string(e.Kind)
		if e.Wave > 0 {
			text = fmt.Sprint(text, " ", e.Wave)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestDriveThroughWaves(t *testing.T) {
	inBed(t, func(b *bed) {
		l := b.prepare(100, "strategy: {waves: [1, 5%, 100%]}\n")
		s, err := b.drive(b.t.Context(), b.q, l, b.options())
		if err != nil || !s.Complete || s.Phase != queue.Finished || s.Outcomes[core.Changed] != 100 {
			t.Errorf("%+v, %v", s, err)
		}
		if got := b.said(); got != "released 1, released 2" {
			t.Errorf("reported %s", got)
		}
		for _, s := range b.status {
			if done := s.Outcomes[core.Changed]; s.Limit == 5 && done < 1 || s.Limit == 100 && done < 5 {
				t.Errorf("a wave was released too early: %+v", s)
			}
		}
		if b.results[0].Worker != "node" {
			t.Errorf("%+v", b.results[0])
		}
	})
}

func TestDriveStopsWhenTheThresholdIsSpent(t *testing.T) {
	inBed(t, func(b *bed) {
		b.outcome = func(l queue.Lease) core.Outcome { return core.Failed }
		l := b.prepare(3000, "strategy: {waves: [1, 10], stop_after: 1}\n")
		s, err := b.drive(b.t.Context(), b.q, l, b.options())
		if err != nil || s.Phase != queue.Stopped || s.Outcomes[core.Failed] != 1 || s.Outcomes[core.Cancelled] != 2999 {
			t.Errorf("%+v, %v", s, err)
		}
		if got := b.said(); got != "stopped" {
			t.Errorf("reported %s", got)
		}
	})
}

// Behind a wave of which no host succeeded no other host is touched.
func TestFaultW8FailedWaveStopsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		outcome core.Outcome // of the first three hosts
		touched int
		reason  string
	}{
		"unreachable canary":     {"strategy: {waves: [1, 3]}\n", core.Unreachable, 1, "no host of wave 1 of 3 succeeded (1 unreachable)"},
		"failed canary":          {"strategy: {waves: [1, 3]}\n", core.Failed, 1, "no host of wave 1 of 3 succeeded (1 failed)"},
		"wave of three":          {"strategy: {waves: [3]}\n", core.Unreachable, 3, "no host of wave 1 of 2 succeeded (3 unreachable)"},
		"one of four succeeded":  {"strategy: {waves: [4]}\n", core.Failed, 9, ""},
		"skipped canary":         {"strategy: {waves: [1, 3]}\n", core.Skipped, 9, ""},
		"unchanged canary":       {"strategy: {waves: [1, 3]}\n", core.Unchanged, 9, ""},
		"the playbook continues": {"strategy: {waves: [1, 3], on_failed_wave: continue}\n", core.Unreachable, 9, ""},
		"one wave":               {"", core.Unreachable, 9, ""},
		"approvals between":      {"strategy: {waves: [1, 3], pause_between: approve}\n", core.Unreachable, 1, "no host of wave 1 of 3 succeeded (1 unreachable)"},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				touched := 0
				b.outcome = func(l queue.Lease) core.Outcome {
					if touched++; l.Job.Index < 3 {
						return c.outcome
					}
					return core.Changed
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				s, err := b.drive(ctx, b.q, b.prepare(9, c.body), b.options())
				if err != nil || !s.Complete || touched != c.touched || len(b.results) != 9 {
					t.Errorf("%d hosts were touched, expected %d; %d results; %+v, %v", touched, c.touched, len(b.results), s, err)
				}
				if stopped := s.Phase == queue.Stopped; stopped != (c.reason != "") || !strings.Contains(s.Reason.Text(), c.reason) {
					t.Errorf("%s: %q, expected %q", s.Phase, s.Reason, c.reason)
				}
				for _, r := range b.results {
					if r.Outcome == core.Cancelled && !strings.Contains(r.Reason, c.reason) {
						t.Errorf("%s: %q", r.Host, r.Reason)
					}
				}
			})
		})
	}
}

func TestDriveAsksForApproval(t *testing.T) {
	body := "strategy: {waves: [1, 2, 3], pause_between: approve}\n"
	t.Run("given", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var asked []int
			o := b.options()
			o.Approve = func(wave int) error {
				asked = append(asked, wave)
				<-time.After(time.Hour)
				return nil
			}
			s, err := b.drive(b.t.Context(), b.q, b.prepare(3, body), o)
			if err != nil || s.Outcomes[core.Changed] != 3 || !slices.Equal(asked, []int{1, 2}) {
				t.Errorf("%+v, %v, asked %v", s, err, asked)
			}
			if got := b.said(); got != "ask 1, released 1, ask 2, released 2" {
				t.Errorf("reported %s", got)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		inBed(t, func(b *bed) {
			o := b.options()
			no := errors.New("looks bad")
			o.Approve = func(wave int) error { return no }
			s, err := b.drive(b.t.Context(), b.q, b.prepare(3, body), o)
			if err != nil || !strings.Contains(s.Reason.Text(), "looks bad") || s.Outcomes[core.Changed] != 1 || s.Outcomes[core.Cancelled] != 2 || s.Phase != queue.Cancelled {
				t.Errorf("%+v, %v", s, err)
			}
		})
	})
	t.Run("by somebody else", func(t *testing.T) {
		inBed(t, func(b *bed) {
			l := b.prepare(3, body)
			all := 0
			go func() {
				<-time.After(time.Minute)
				_ = queue.AdjustOne(context.Background(), b.q, "r", queue.Adjust{Limit: &all})
			}()
			s, err := b.drive(b.t.Context(), b.q, l, b.options())
			if err != nil || s.Outcomes[core.Changed] != 3 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	})
}

func TestDrivePausesBetweenWaves(t *testing.T) {
	inBed(t, func(b *bed) {
		start := time.Now()
		s, err := b.drive(b.t.Context(), b.q, b.prepare(3, "strategy: {waves: [1, 3], pause_between: 30m}\n"), b.options())
		if took := time.Since(start); err != nil || s.Outcomes[core.Changed] != 3 || took < 30*time.Minute || took > 31*time.Minute {
			t.Errorf("%+v, %v, took %v", s, err, took)
		}
		if got := b.said(); got != "pause 1, released 1" {
			t.Errorf("reported %s", got)
		}
	})
}

func TestDriveTakesUpARunThatIsUnderWay(t *testing.T) {
	inBed(t, func(b *bed) {
		l := b.prepare(50, "strategy: {waves: [10, 100%]}\n")
		if _, err := b.drive(b.t.Context(), b.q, l, b.options()); err != nil {
			t.Fatal(err)
		}
		b.results = nil
		s, err := queuetest.Drive(b.t.Context(), b.q, l, b.options()) // as after a restart
		if err != nil || s.Outcomes[core.Changed] != 50 {
			t.Errorf("%+v, %v", s, err)
		}
		b.once(l)
	})
}
