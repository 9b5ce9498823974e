package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/plugins/host"
)

// Two files and two services: web reads both files, log reads one.
const siteBook = `
steps:
  - {name: a, uses: file, with: {path: /a}, notify: [web]}
  - {flush: handlers}
  - {name: b, uses: file, with: {path: /b}, notify: [web, log]}
  - {name: end, uses: file, with: {path: /c}}
handlers:
  - {name: web, uses: file, with: {path: /x}}
  - {name: log, uses: file, with: {path: /x}}
`

// site is a host that keeps a log of what was changed and restarted on it, and that meets one
// fault.
type site struct {
	fault string // what happens at call at: see hit
	at    int
	after bool // the call has had its effect when it happens

	n     int // calls of host services so far
	files map[string]bool
	log   []string
	met   bool
	die   chan struct{}
}

var errSite = errors.New("the call did not end")

// call is one host service call of the job type.
func (s *site) call(ctx context.Context, c host.Call, changes bool, effect func()) error {
	if changes && c.BeforeChange != nil {
		if err := c.BeforeChange(ctx); err != nil {
			return err
		}
	}
	s.n++
	hit := s.n == s.at && !s.met
	if hit && !s.after {
		return s.hit(ctx)
	}
	effect()
	if hit {
		return s.hit(ctx)
	}
	return nil
}

func (s *site) hit(ctx context.Context) error {
	s.met = true
	switch s.fault {
	case "plugin":
		return core.ErrPluginFailed
	case "unreachable":
		return core.ErrUnreachable
	case "failure":
		return core.ErrInvalid
	}
	close(s.die)
	<-ctx.Done()
	return errSite
}

// run is the job type of every step and handler.
func (s *site) run(ctx context.Context, c host.Call) (host.Outcome, error) {
	changed := false
	var err error
	switch c.Step {
	case "web", "log":
		changed = true
		err = s.call(ctx, c, true, func() { s.log = append(s.log, "restart "+c.Step) })
	default:
		found := false
		if err = s.call(ctx, c, false, func() { found = s.files[c.Step] }); err == nil && !found {
			changed = true
			err = s.call(ctx, c, true, func() {
				s.files[c.Step] = true
				s.log = append(s.log, "change "+c.Step)
			})
		}
	}
	switch {
	case errors.Is(err, core.ErrPluginFailed):
		return host.Outcome{Failed: true, Effects: host.EffectsUnknown}, err
	case errors.Is(err, core.ErrUnreachable):
		return host.Outcome{Failed: true, Unreachable: true, Reason: "gone"}, nil
	case errors.Is(err, errSite), ctx.Err() != nil:
		return host.Outcome{Cancelled: true}, nil //nolint:nilerr // the outcome says it
	case err != nil:
		return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
	}
	return host.Outcome{Changed: changed}, nil
}

// owes lists the services that were not restarted after the last change of what they read.
func (s *site) owes() []string {
	var bad []string
	for service, reads := range map[string][]string{"web": {"change a", "change b"}, "log": {"change b"}} {
		last := -1
		for i, what := range s.log {
			if slices.Contains(reads, what) {
				last = i
			}
		}
		if last >= 0 && !slices.Contains(s.log[last:], "restart "+service) {
			bad = append(bad, service)
		}
	}
	return bad
}

// play runs the playbook until it ends well, as an operator would.
func (s *site) play(l *lab, wrap func(queue.Worker) queue.Worker) {
	l.t.Helper()
	s.files, s.die = map[string]bool{}, make(chan struct{})
	l.plugins.do = s.run
	for i := 1; i <= 3; i++ {
		la := l.submit(fmt.Sprintf("r%d", i), 1, siteBook, func(_ *launch.Options, r *queue.Run) {
			if s.fault == "held" {
				r.OnLost = queue.LostHold
			}
		})
		f := &flaky{Worker: wrap(l.q)}
		c := l.config()
		c.Queue, c.Name = f, "first"
		first := l.start(c)
		rest := s.meet(l, la, f)
		res := l.results(la)[0]
		first.Kill()
		first.stop()
		<-first.done
		if rest != nil {
			rest.drain()
		}
		var left []string
		if res.Handlers != nil {
			left = res.Handlers.Pending
		}
		if res.Outcome.Good() {
			if len(left) > 0 {
				l.t.Errorf("ended %s, and owes %v", res.Outcome, left)
			}
			return
		}
		l.pending = map[string]core.Handlers{}
		if len(left) > 0 {
			l.pending[res.Host] = core.Handlers{From: []string{la.Run.ID}, Pending: left}
		}
	}
	l.t.Fatal("three runs did not end well")
}

// meet brings about what befalls the node or the queue, once the call is reached where that is to
// happen.
func (s *site) meet(l *lab, la *launch.Launch, f *flaky) (rest *node) {
	for {
		select {
		case <-s.die:
			s.die = nil
		default:
			if status, err := l.q.Status(context.Background(), la.Run.ID); err != nil || status.Complete {
				return nil
			}
			pass(100 * time.Millisecond)
			continue
		}
		break
	}
	switch s.fault {
	case "cancel":
		if err := l.q.Cancel(context.Background(), la.Run.ID, "enough"); err != nil {
			l.t.Fatal(err)
		}
		return nil
	case "queue": // what it knew is gone: the ledger has the run, and counts all steps of hosts without an outcome as changed
		l.q.Shutdown()
		l.q = memory.New(memory.Options{})
		if err := la.SetPending(map[string]core.Handlers{la.Hosts[0].Name: {From: []string{la.Run.ID}, Pending: la.Playbook.Notifiable()}}); err != nil {
			l.t.Fatal(err)
		}
		if _, err := queue.SubmitOne(context.Background(), l.q, la.Run); err != nil {
			l.t.Fatal(err)
		}
	}
	f.set(away)
	return l.start(l.config())
}

// A restart follows the last change, whatever ends at whichever call to the host, before the call
// has its effect and after.
func TestFaultW1ARestartFollowsTheLastChange(t *testing.T) {
	for _, fault := range []string{"worker", "held", "plugin", "queue", "cancel", "unreachable", "failure"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the effect %v", fault, after), func(t *testing.T) {
				for at := 1; ; at++ {
					s := &site{fault: fault, at: at, after: after}
					inLab(t, func(l *lab) {
						s.play(l, sound)
						l.q.Shutdown()
					})
					if owes := s.owes(); len(owes) > 0 {
						t.Errorf("call %d: not restarted after the last change: %v; %v", at, owes, s.log)
					}
					if !s.met {
						if at < 8 {
							t.Fatalf("only %d calls", at)
						}
						return
					}
				}
			})
		}
	}
}

// The control: with a queue that forgets what is written ahead, a change is left without its
// restart.
func TestFaultW1NoticesAMissingWriteAhead(t *testing.T) {
	bad := 0
	for at := 1; at <= 9; at++ {
		s := &site{fault: "worker", at: at, after: true}
		inLab(t, func(l *lab) {
			s.play(l, func(q queue.Worker) queue.Worker { return forgetful{q} })
			l.q.Shutdown()
		})
		if len(s.owes()) > 0 {
			bad++
		}
	}
	if bad == 0 {
		t.Error("nothing is noticed without the write-ahead")
	}
}
