package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// call is one call of a job type, as the tests of this file see it.
type call struct {
	host, step string
	from, to   time.Time
}

// diary records which calls were made, and when.
type diary struct {
	mu    sync.Mutex
	calls []call
	took  func(host, step string) time.Duration
	bad   map[string]core.Outcome // by HOST/STEP
}

func (d *diary) do(ctx context.Context, c host.Call) (host.Outcome, error) {
	one := call{host: c.Host.Name, step: c.Step, from: time.Now()}
	took := time.Second
	if d.took != nil {
		took = d.took(one.host, one.step)
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return host.Outcome{Cancelled: true}, nil
	}
	one.to = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, one)
	switch d.bad[one.host+"/"+one.step] {
	case core.RolledBack:
		return host.Outcome{Failed: true, RolledBack: true, Reason: "taken back"}, nil
	case core.Failed:
		return host.Outcome{Failed: true, Reason: "no"}, nil
	}
	return host.Outcome{Changed: true}, nil
}

// first is when somebody first began the step, last when the last one ended it.
func (d *diary) span(step string) (first, last time.Time, n int) {
	for _, c := range d.calls {
		if c.step != step {
			continue
		}
		if n++; first.IsZero() || c.from.Before(first) {
			first = c.from
		}
		if c.to.After(last) {
			last = c.to
		}
	}
	return first, last, n
}

func (d *diary) of(host, step string) (c call, ok bool) {
	i := slices.IndexFunc(d.calls, func(c call) bool { return c.host == host && c.step == step })
	if i < 0 {
		return call{}, false
	}
	return d.calls[i], true
}

// mixed returns what is wrong with a barrier between the steps, or "".
func (d *diary) mixed(before, after string) string {
	_, last, _ := d.span(before)
	first, _, n := d.span(after)
	if n > 0 && first.Before(last) {
		return fmt.Sprintf("%s began %v before the last %s had ended", after, last.Sub(first), before)
	}
	return ""
}

const twoPhases = `steps:
  - {name: widen, uses: file, with: {path: /x}}
  - {name: narrow, uses: file, with: {path: /x}, after: all_hosts}
`

// disruptive has an order of its hosts, as any run that disrupts.
const disruptive = `steps: [{name: push, uses: reboot}]
`

func (l *lab) prepareTurns(hosts []core.Host, body string) *launch.Launch {
	l.t.Helper()
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\n"+body), playbooks.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	la, err := launch.Prepare(p, hosts, launch.Options{RunID: "r", Types: func(name string) (playbooks.Type, bool) {
		t, ok := scriptTypes[name]
		return playbooks.Type{Name: t.Name, Check: t.Check, Idempotent: t.Idempotent, Disruptive: t.Disruptive, OnLost: t.OnLost}, ok
	}})
	if err != nil {
		l.t.Fatal(err)
	}
	return la
}

// drive drives a launch to its end on a node of its own.
func (l *lab) drive(la *launch.Launch, d *diary) map[string]core.Result {
	l.t.Helper()
	l.plugins.do = d.do
	n := l.start(l.config())
	defer n.drain()
	results := map[string]core.Result{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	_, err := queuetest.Drive(ctx, l.q, la, queuetest.DriveOptions{OnRecord: func(r core.Result) {
		if _, twice := results[r.Host]; twice {
			l.t.Errorf("%s has two results", r.Host)
		}
		results[r.Host] = r
	}})
	if err != nil {
		l.t.Error(err)
	}
	if len(results) != len(la.Hosts) {
		l.t.Errorf("%d results, expected %d", len(results), len(la.Hosts))
	}
	return results
}

func uneven(host, step string) time.Duration {
	return time.Duration(1+int(host[len(host)-1])%5) * time.Second
}

func TestBarrierHoldsEveryHost(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: uneven}
		la := l.prepareTurns(hosts(24), "strategy: {waves: [1, 25%, 100%]}\n"+twoPhases)
		for _, r := range l.drive(la, d) {
			if r.Outcome != core.Changed || len(r.Steps) != 2 {
				t.Fatalf("%+v", r)
			}
		}
		if why := d.mixed("widen", "narrow"); why != "" {
			t.Error(why)
		}
		// Behind the barrier the waves begin again.
		canary, _ := d.of(la.Hosts[0].Name, "narrow")
		for i, h := range la.Hosts[1:] {
			c, _ := d.of(h.Name, "narrow")
			if c.from.Before(canary.to) {
				t.Errorf("host %d was narrowed before the first wave was done", i+1)
			}
		}
		if l.plugins.most > 4 {
			t.Errorf("%d at the same time", l.plugins.most)
		}
	})
}

// The test above notices a run that knows no barrier.
func TestNoticesAMissingBarrier(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: uneven}
		la := l.prepareTurns(hosts(24), "strategy: {waves: [1, 25%, 100%]}\n"+twoPhases)
		la.Snapshot.Turns = nil
		la.Run.Payload, _ = la.Snapshot.Encode()
		l.drive(la, d)
		if d.mixed("widen", "narrow") == "" {
			t.Error("without the barrier nothing was mixed")
		}
	})
}

func TestWhoWaitsAtABarrierHoldsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: func(host, step string) time.Duration {
			if host == "h00000" && step == "widen" {
				return time.Minute
			}
			return time.Second
		}}
		la := l.prepareTurns(hosts(12), twoPhases)
		other := l.submit("other", 12, "steps: [{name: bulk, uses: file, with: {path: /x}}]") // the same hosts: their locks are free
		l.drive(la, d)
		_, last, n := d.span("bulk")
		narrow, _, _ := d.span("narrow")
		if n != 12 || !last.Before(narrow) {
			t.Errorf("%d jobs of another run came by, the last at %v, narrow began at %v", n, last, narrow)
		}
		_ = other
	})
}

func TestBarrierStaysClosedWhenAHostFailed(t *testing.T) {
	for _, c := range []struct {
		name, after, strategy string
		narrowed              int
		reason                string
	}{
		{"all_hosts", "all_hosts", "", 0, "step narrow begins after all hosts, and not all came to it: h00003 (rolled_back); "},
		{"remaining_hosts", "remaining_hosts", "", 11, ""},
		{"the failure threshold is reached", "remaining_hosts", "strategy: {stop_after: 1}\n", 0, "the failure threshold is reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				d := &diary{bad: map[string]core.Outcome{"h00003/widen": core.RolledBack}}
				la := l.prepareTurns(hosts(12), c.strategy+strings.Replace(twoPhases, "all_hosts", c.after, 1))
				res := l.drive(la, d)
				if _, _, n := d.span("narrow"); n != c.narrowed {
					t.Errorf("%d hosts were narrowed, expected %d", n, c.narrowed)
				}
				if r := res["h00001"]; c.reason != "" && (r.Outcome != core.Cancelled || !strings.Contains(r.Reason, c.reason)) {
					t.Errorf("a host that waited: %s, %q", r.Outcome, r.Reason)
				}
			})
		})
	}
}

// A host that fails behind the barrier is a matter of the threshold.
func TestFailureBehindTheBarrierSpendsTheThresholdOnly(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{bad: map[string]core.Outcome{"h00003/narrow": core.Failed}}
		la := l.prepareTurns(hosts(12), "strategy: {waves: [2, 6, 100%], stop_after: 2}\n"+twoPhases)
		res := l.drive(la, d)
		if _, _, n := d.span("narrow"); n != 12 || res["h00003"].Outcome != core.Failed {
			t.Errorf("%d hosts were narrowed, expected all: %+v", n, res["h00003"])
		}
	})
}

// Servers come and go, two of them at the same time, while hosts come to the barrier: it opens
// once, for all.
func TestBarrierIsOpenedByWhoeverDrives(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: uneven}
		l.plugins.do = d.do
		la := l.prepareTurns(hosts(40), "strategy: {waves: [1, 5, 100%]}\n"+twoPhases)
		if _, err := queue.SubmitOne(context.Background(), l.q, la.Run); err != nil {
			t.Fatal(err)
		}
		n := l.start(l.config())
		var servers sync.WaitGroup
		for k := range 2 {
			servers.Go(func() {
				for turn := 0; ; turn++ {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(700+300*k+170*(turn%5))*time.Millisecond)
					_, err := queuetest.Drive(ctx, l.q, la, queuetest.DriveOptions{Joins: true})
					cancel()
					if err == nil {
						return
					}
					if !errors.Is(err, context.DeadlineExceeded) || turn > 1000 {
						t.Error(err)
						return
					}
				}
			})
		}
		servers.Wait()
		n.drain()
		if why := d.mixed("widen", "narrow"); why != "" {
			t.Error(why)
		}
		for _, h := range la.Hosts {
			times := 0
			for _, c := range d.calls {
				if c.host == h.Name {
					times++
				}
			}
			if times != 2 {
				t.Errorf("%s: %d calls, expected 2", h.Name, times)
			}
		}
	})
}

// A worker dies while hosts wait at the barrier, and while they are behind it.
func TestBarrierOverWorkerDeaths(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: uneven}
		l.plugins.do = d.do
		la := l.prepareTurns(hosts(30), twoPhases)
		var nodes sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		nodes.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				c := l.config()
				c.Name = fmt.Sprintf("node-%d", k)
				n := l.start(c)
				select {
				case <-ctx.Done():
				case <-time.After(7 * time.Second):
				}
				n.Kill()
				<-n.done
			}
		})
		status, err := queuetest.Drive(context.Background(), l.q, la, queuetest.DriveOptions{})
		stop()
		nodes.Wait()
		if err != nil || status.Outcomes[core.Changed] != 30 {
			t.Errorf("%+v, %v", status, err)
		}
		if why := d.mixed("widen", "narrow"); why != "" {
			t.Error(why)
		}
	})
}

// pairs are n HA groups of two, the active one first in the inventory.
func pairs(n int) []core.Host {
	all := hosts(2 * n)
	for i := range all {
		all[i].HAGroup = fmt.Sprintf("pair-%d", i/2)
		if i%2 == 1 {
			all[i].Labels["ha_role"] = "standby"
		}
	}
	return all
}

func TestStandbyEndsWellBeforeTheActiveBegins(t *testing.T) {
	for _, body := range []string{disruptive, "strategy: {waves: [1, 100%]}\n" + disruptive, strings.ReplaceAll(twoPhases, "file, with: {path: /x}", "reboot")} {
		inLab(t, func(l *lab) {
			d := &diary{took: uneven}
			l.drive(l.prepareTurns(pairs(10), body), d)
			for i := 0; i < 20; i += 2 {
				for _, step := range []string{"push", "widen", "narrow"} {
					active, ran := d.of(fmt.Sprintf("h%05d", i), step)
					standby, _ := d.of(fmt.Sprintf("h%05d", i+1), step)
					if ran && active.from.Before(standby.to) {
						t.Errorf("%s: pair %d: the active one began before the standby had ended", step, i/2)
					}
				}
			}
			if len(d.calls) < 20 {
				t.Errorf("%d calls", len(d.calls))
			}
		})
	}
}

// A step that waits for a window never runs on both hosts of an HA group at the same time.
func TestFaultW6WindowedStepTakesOneHostOfAPair(t *testing.T) {
	for body, atOnce := range map[string]bool{
		"steps: [{name: push, uses: command, window: service, needs: 1m, with: {run: x}}]":                    false,
		"window: service\nsteps: [{name: push, uses: command, disruptive: true, needs: 1m, with: {run: x}}]":  false,
		"steps: [{name: push, uses: command, window: service, disruptive: false, needs: 1m, with: {run: x}}]": true,
		"steps: [{name: push, uses: command, with: {run: x}}]":                                                true,
	} {
		inLab(t, func(l *lab) {
			d := &diary{}
			l.drive(l.prepareTurns(pairs(1), body), d)
			a, ranA := d.of("h00000", "push")
			b, ranB := d.of("h00001", "push")
			if !ranA || !ranB || (a.from.Before(b.to) && b.from.Before(a.to)) != atOnce {
				t.Errorf("%s: %v to %v and %v to %v, at the same time expected %t", body, a.from, a.to, b.from, b.to, atOnce)
			}
		})
	}
}

func TestFirstFailureFreezesThePair(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{bad: map[string]core.Outcome{"h00003/push": core.Failed}}
		res := l.drive(l.prepareTurns(pairs(4), disruptive), d)
		if r := res["h00002"]; r.Outcome != core.Cancelled || !strings.Contains(r.Reason, "it comes after h00003, which ended as failed") {
			t.Errorf("its partner: %s %q", r.Outcome, r.Reason)
		}
		if _, ran := d.of("h00002", "push"); ran {
			t.Error("the partner of a host that failed was touched")
		}
		for _, name := range []string{"h00000", "h00004", "h00006"} {
			if res[name].Outcome != core.Changed {
				t.Errorf("another pair: %+v", res[name])
			}
		}
	})
}

// behind is a fleet of n hosts behind each of two bastions, of which the first is itself behind a
// third host.
func behind(n int) []core.Host {
	all := hosts(2 * n)
	for i := range all {
		all[i].SSH.ProxyJump = []string{fmt.Sprintf("bastion-%d", i%2)}
	}
	one, two, barrier := hosts(1)[0], hosts(1)[0], hosts(1)[0]
	one.Name, two.Name, barrier.Name, barrier.Address = "bastion-0", "bastion-1", "gate", "192.0.2.1"
	one.SSH.ProxyJump = []string{"root@192.0.2.1:2222"}
	return append(all, one, two, barrier)
}

// together names a host that was worked on at the same time as one of its bastions, or "".
func (d *diary) together() string {
	for _, a := range d.calls {
		for _, b := range d.calls {
			bastion := b.host == "bastion-0" && a.host[0] == 'h' && (a.host[5]-'0')%2 == 0 || b.host == "bastion-1" && a.host[0] == 'h' && (a.host[5]-'0')%2 == 1 ||
				b.host == "gate" && (a.host == "bastion-0" || a.host[0] == 'h' && (a.host[5]-'0')%2 == 0)
			if bastion && a.step == b.step && a.from.Before(b.to) {
				return a.host + " and " + b.host
			}
		}
	}
	return ""
}

func TestBastionsApartAndFirst(t *testing.T) {
	for _, body := range []string{disruptive, "strategy: {waves: [1, 3, 50%, 100%]}\n" + disruptive, strings.ReplaceAll(twoPhases, "file, with: {path: /x}", "reboot")} {
		inLab(t, func(l *lab) {
			d := &diary{took: uneven}
			for _, r := range l.drive(l.prepareTurns(behind(10), body), d) {
				if r.Outcome != core.Changed {
					t.Errorf("%+v", r)
				}
			}
			if who := d.together(); who != "" {
				t.Errorf("%s: two jobs worked on it at the same time", who)
			}
		})
	}
}

func TestNoticesABastionAmongItsHosts(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{took: uneven}
		la := l.prepareTurns(behind(10), disruptive)
		la.Snapshot.Turns = nil
		la.Run.Payload, _ = la.Snapshot.Encode()
		l.drive(la, d)
		if d.together() == "" {
			t.Error("without the order nobody was worked on beside a bastion")
		}
	})
}

func TestHostsBehindABastionThatFailedAreLeftAlone(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{bad: map[string]core.Outcome{"bastion-1/push": core.RolledBack}}
		res := l.drive(l.prepareTurns(behind(3), disruptive), d)
		for i := range 6 {
			name, want := fmt.Sprintf("h%05d", i), core.Changed
			if i%2 == 1 {
				want = core.Cancelled
			}
			if _, ran := d.of(name, "push"); res[name].Outcome != want || ran != (want == core.Changed) {
				t.Errorf("%s: %s %q", name, res[name].Outcome, res[name].Reason)
			}
		}
	})
}

// A job type cannot take the worker's own word.
func TestJobTypeCannotWaitForATurn(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
			return host.Outcome{Suspended: true, Signal: snapshot.TurnEvent(1, 0)}, nil
		}
		if r := l.one(oneStep); r.Outcome != core.Failed || !strings.Contains(r.Reason, "the worker's own") {
			t.Errorf("%+v", r)
		}
	})
}

// The queue is lost, before the barrier and behind it; what the ledger had recorded is all that the
// new one knows.
func TestBarrierOverALostQueue(t *testing.T) {
	for name, lost := range map[string]time.Duration{"before it": 9 * time.Second, "behind it": 34 * time.Second, "near its opening": 24 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				d := &diary{took: uneven}
				l.plugins.do = d.do
				la := l.prepareTurns(hosts(24), "strategy: {waves: [4, 100%]}\n"+twoPhases)
				n := l.start(l.config())
				ctx, cancel := context.WithTimeout(context.Background(), lost)
				var finished []queue.FinishedJobs
				_, err := queuetest.Drive(ctx, l.q, la, queuetest.DriveOptions{OnRecord: func(r core.Result) {
					finished = append(finished, queue.FinishedJobs{Index: r.Job.Index, Count: 1, Outcome: r.Outcome})
				}})
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("the run is over already: %v", err)
				}
				n.Kill()
				<-n.done
				before := len(d.calls)
				narrowed := false
				for _, c := range d.calls {
					narrowed = narrowed || c.step == "narrow"
				}
				slices.SortFunc(finished, func(a, b queue.FinishedJobs) int { return a.Index - b.Index })

				fresh := memory.New(memory.Options{})
				defer fresh.Shutdown()
				l.q.Shutdown()
				l.q = fresh
				la.Run.FinishedJobs = finished
				if _, err := queue.SubmitOne(context.Background(), fresh, la.Run); err != nil {
					t.Fatal(err)
				}
				n = l.start(l.config())
				defer n.drain()
				status, err := queuetest.Drive(context.Background(), fresh, la, queuetest.DriveOptions{Joins: true, Recorded: finished})
				if err != nil || status.Outcomes[core.Changed] != 24 {
					t.Fatalf("%+v, %v", status, err)
				}
				whole := d.calls
				if !narrowed { // nobody was behind it: it opens when all that are left have done their steps again
					d.calls = whole[before:]
				}
				first, _, _ := d.span("narrow")
				for _, h := range la.Hosts {
					if c, ok := d.of(h.Name, "widen"); ok && first.Before(c.to) {
						t.Errorf("%s was widened after the first was narrowed", h.Name)
					}
				}
				t.Logf("%d recorded, narrowed before: %v", len(finished), narrowed)
			})
		})
	}
}

// The order within a pair is noticed when it is taken out.
func TestNoticesAPairWithoutOrder(t *testing.T) {
	inLab(t, func(l *lab) {
		d := &diary{bad: map[string]core.Outcome{"h00001/push": core.Failed, "h00003/push": core.Failed}}
		la := l.prepareTurns(pairs(2), disruptive)
		la.Snapshot.Turns = nil
		la.Run.Payload, _ = la.Snapshot.Encode()
		res := l.drive(la, d)
		if res["h00000"].Outcome != core.Changed || res["h00002"].Outcome != core.Changed {
			t.Error("without the order the partner of a host that failed was left alone")
		}
	})
}
