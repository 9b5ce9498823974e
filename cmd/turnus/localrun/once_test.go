package localrun

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/plugins/host"
)

// One host of 50 in 5 waves calls the step, and all have its result.
func TestOnceOfFiftyHosts(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launch("r1", 50, false))
		run := l.complete("r1")
		l.judge(50)
		for host, n := range l.db.on {
			if n != 1 {
				l.Errorf("%s was called %d times", host, n)
			}
		}
		if run.Outcomes[core.Changed] != 50 {
			l.Errorf("outcomes: %v", run.Outcomes)
		}
	})
}

// The host that came first ended before anybody wrote that down: another one calls the step. The
// first one is of the first wave here, and passes the step.
func TestOnceIsNotLeftToAHostThatHasEnded(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		first, err := snapshot.Once{Job: 0, Host: "h00"}.Encode()
		if err != nil {
			l.Fatal(err)
		}
		if _, err := l.q.Post(context.Background(), snapshot.OnceFirst.Document("r1", 1), first, snapshot.OnceKeep); err != nil {
			l.Fatal(err)
		}
		l.accept(l.launch("r1", 8, false))
		run := l.complete("r1")
		l.judge(8)
		if len(l.db.on) != 1 || run.Outcomes[core.Changed] != 8 {
			l.Errorf("called on %v, outcomes %v, %s", l.db.on, run.Outcomes, run.Reason.Text())
		}
	})
}

// The host that came first ends between the server's question where it is and the election: it is
// passed over as well. It is the one of its wave that has a part in the step.
func TestOnceIsNotLeftToAHostThatEndsMeanwhile(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		dismissed := 0
		l.explained = func() {
			if dismissed > 0 {
				return
			}
			n, err := l.q.Dismiss(context.Background(), "r1", snapshot.OnceEvent(1, snapshot.AwaitElect), "gone")
			if err != nil {
				l.Error(err)
			}
			dismissed += n
		}
		l.accept(l.launch("r1", 10, false))
		run := l.complete("r1")
		l.judge(9) // h04 and later
		if dismissed != 1 || l.db.on["h03"] != 0 || run.Outcomes[core.Changed] != 9 || run.Outcomes[core.Cancelled] != 1 {
			l.Errorf("%d dismissed, called on %v, outcomes %v, %s", dismissed, l.db.on, run.Outcomes, run.Reason.Text())
		}
	})
}

// Another server elected the host that came first, which ended since: it may have called the step,
// so no other host calls it.
func TestOnceIsLeftToTheHostOfAnotherServer(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		elected := false
		l.explained = func() {
			if elected {
				return
			}
			elected = true
			run, err := l.ledger.Run(context.Background(), ledger.AllTenants(), "r1")
			if err == nil {
				_, _, err = l.ledger.ElectOnce(context.Background(), &run, 1, 3)
			}
			if err == nil {
				_, err = l.q.Dismiss(context.Background(), "r1", snapshot.OnceEvent(1, snapshot.AwaitElect), "gone")
			}
			if err != nil {
				l.Error(err)
			}
		}
		l.accept(l.launchOf(onceBook, "r1", 10, false))
		run := l.complete("r1")
		if len(l.db.on) != 0 || run.Outcomes[core.Cancelled] == 0 || run.Reason.Code() != core.OnceFailed {
			l.Errorf("called on %v, outcomes %v, %q %s", l.db.on, run.Outcomes, run.Reason.Code(), run.Reason.Text())
		}
	})
}

// Facts that the step gathers are of the host that called it, and of no other.
func TestOnceGathersFactsOfOneHost(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		book := strings.Replace(onceBook, "uses: file, once: true, when: host.vars.n >= 3, with: {path: /db}", "uses: facts, once: true, when: host.vars.n >= 3", 1)
		l.accept(l.launchOf(book, "r1", 8, false))
		l.complete("r1")
		l.judge(8)
		all, err := l.ledger.AllFacts(context.Background(), ledger.AllTenants(), time.Time{})
		if err != nil {
			l.Fatal(err)
		}
		if len(all) != 1 || l.db.on[all[0].Host] != 1 || all[0].Boot != "boot of "+all[0].Host {
			l.Errorf("called on %v, facts on record of %+v", l.db.on, all)
		}
	})
}

// A host that waits reports the reason, and has no worker and no lock.
func TestOnceIsExplained(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launchOf(strings.Replace(onceBook, "strategy: {waves: [20%, 40%, 60%, 80%, 100%]}\n", "", 1), "r1", 8, false))
		waiting := func() (n int) {
			for job := range 8 {
				why, err := l.q.Explain(context.Background(), core.JobID{Run: "r1", Index: job})
				if err != nil {
					l.Fatal(err)
				}
				if snapshot.WhyWaits(why.Event).Code() == core.AwaitsOnce && why.State == core.Suspended {
					n++
				}
			}
			return n
		}
		l.until("r1", func(ledger.Run) bool {
			l.db.mu.Lock()
			defer l.db.mu.Unlock()
			return len(l.db.on) == 1
		})
		if n := waiting(); n != 4 {
			l.Errorf("%d hosts wait for the result, expected 4", n)
		}
		l.complete("r1")
		l.judge(8)
	})
}

// All items of the step are called on one host, and only that host runs the handler.
func TestOnceWithItemsAndHandlers(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		book := strings.Replace(onceBook, "when: host.vars.n >= 3, with: {path: /db}", "foreach: [1, 2], notify: [restart], with: {path: /db}", 1)
		book = strings.Replace(book, "steps.migrate.outputs.token", "steps.migrate.outputs.items[1].outputs.token", 1)
		l.accept(l.launchOf(book+"handlers: [{name: restart, uses: file, with: {path: /x}}]\n", "r1", 8, false))
		run := l.complete("r1")
		for host, n := range l.db.on {
			if len(l.db.on) != 1 || n != 2 || l.db.restarts[host] != 1 {
				l.Errorf("called on %v, restarted on %v", l.db.on, l.db.restarts)
			}
		}
		if len(l.db.restarts) != 1 || len(l.db.read) != 5 || run.Outcomes[core.Changed] != 8 {
			l.Errorf("restarted on %v, read by %v, outcomes %v", l.db.restarts, l.db.read, run.Outcomes)
		}
	})
}

// The proof sees a step that each host calls: without once, it is one.
func TestOnceNoticesAStepOfEachHost(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launchOf(strings.Replace(onceBook, "once: true, ", "", 1), "r1", 8, false))
		l.complete("r1")
		if bad := l.db.faults(8); len(l.db.on) != 5 || len(bad) == 0 {
			l.Errorf("called on %v: %v", l.db.on, bad)
		}
	})
	d := newDatabase("retry")
	for _, name := range []string{"h03", "h04"} {
		d.effect(host.Call{Step: "migrate", Host: core.Host{Name: name}})
		d.effect(host.Call{Step: "use", Host: core.Host{Name: name}, Params: []byte(`"v7 true"`)})
	}
	if bad := d.faults(5); len(bad) != 1 {
		t.Errorf("%v", bad)
	}
	d.read["h04"] = `"v7 false"`
	if bad := d.faults(6); len(bad) != 3 {
		t.Errorf("%v", bad)
	}
}

// A worker dies at each call to a host in turn, before the call has its effect and after. The host
// that began the step continues with it, and no other calls it.
func TestOnceWithAWorkerKilledAtEachCall(t *testing.T) {
	const hosts = 6
	for _, after := range []bool{false, true} {
		for at, met := 1, true; met; at++ {
			inOnceLab(t, "retry", func(l *onceLab) {
				l.db.at, l.db.after = at, after
				l.accept(l.launch("r1", hosts, false))
				run := l.complete("r1")
				l.judge(hosts)
				if good := run.Outcomes[core.Changed]; good != hosts {
					l.Errorf("call %d, after its effect %v: outcomes %v", at, after, run.Outcomes)
				}
				met = l.db.calls >= at
			})
		}
	}
}

// A step that must not be repeated is not, if its worker dies: the run stops, and no other host
// calls it.
func TestOnceThatMustNotBeRepeated(t *testing.T) {
	inOnceLab(t, "hold", func(l *onceLab) {
		l.db.at, l.db.after = 4+1, true // behind prepare on 4 hosts: the first wave has one with n = 3
		l.accept(l.launch("r1", 20, false))
		run := l.complete("r1")
		if len(l.db.on) != 1 || l.db.migrated != 1 || len(l.db.read) != 0 || run.Outcomes[core.Lost] != 1 {
			l.Errorf("called on %v, %d changes, read by %v, outcomes %v", l.db.on, l.db.migrated, l.db.read, run.Outcomes)
		}
	})
}

// The failure of the step stops the run, and the hosts that wait for it go no further. A retry
// calls it again, on one host.
func TestOnceFails(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.db.fail = true
		l.accept(l.launchOf(strings.Replace(onceBook, "[20%, 40%, ", "[40%, ", 1), "r1", 50, false)) // several hosts wait
		run := l.complete("r1")
		if len(l.db.on) != 1 || len(l.db.read) != 0 || run.Outcomes[core.Failed] != 1 || run.Reason.Code() != core.OnceFailed {
			l.Errorf("called on %v, read by %v, outcomes %v, %q %s", l.db.on, l.db.read, run.Outcomes, run.Reason.Code(), run.Reason)
		}
		l.goesOn(run, 1)
		l.db.fail, l.db.on = false, map[string]int{}
		again := l.launch("r2", 50, false)
		l.keep("r1", again)
		l.accept(again)
		l.complete("r2")
		l.judge(50)
	})
}

// goesOn fails unless each host that was waiting at a step continues there in a retry from the
// failed step.
func (l *onceLab) goesOn(run ledger.Run, step int) {
	l.Helper()
	book := l.launch("again", 1, false).Playbook
	waited := 0
	for i := range run.Total {
		job, detail, err := l.ledger.JobDetail(context.Background(), ledger.AllTenants(), core.JobID{Run: run.ID, Index: i})
		if err != nil {
			l.Fatal(err)
		}
		result, err := launch.DecodeResult(detail)
		if err != nil || result.Outcome != core.Cancelled || len(result.Steps) == 0 {
			continue
		}
		waited++
		resume, err := launch.ResumeOf(book, launch.Past{Run: run.ID, Recorded: job.Recorded, Result: result}, time.Now())
		if err != nil || len(resume.Steps) != step {
			l.Errorf("host %s continues with %+v, %v", result.Host, resume.Steps, err)
		}
	}
	if waited == 0 {
		l.Error("no host had waited")
	}
}

// keep gives a retry what the earlier run has of its steps with once.
func (l *onceLab) keep(from string, again *launch.Launch) {
	l.Helper()
	run := l.complete(from)
	m, err := l.ledger.Material(context.Background(), from)
	if err != nil {
		l.Fatal(err)
	}
	before, err := (&launch.Restorer{Types: l.playbookType}).Restore(m.Snapshot, m.Queue)
	if err != nil {
		l.Fatal(err)
	}
	if err := controller.KeepOnceResults(context.Background(), l.ledger, &run, before, again); err != nil {
		l.Fatal(err)
	}
}

// A retry of a run whose step succeeded, and a retry of that, read its result, and call it on no
// host.
func TestOnceIsNotCalledByARetry(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launch("r1", 10, false))
		l.complete("r1")
		for _, id := range []string{"r2", "r3"} {
			l.db.read = map[string]string{}
			again := l.launch(id, 10, false)
			l.keep(fmt.Sprintf("r%d", id[1]-'1'), again)
			l.accept(again)
			l.complete(id)
			l.judge(10)
			for host, n := range l.db.on {
				if n != 1 {
					l.Errorf("%s: %s was called %d times", id, host, n)
				}
			}
		}
		check := l.launch("r4", 10, true) // the results of a run do not count in a check
		l.keep("r3", check)
		if len(check.Snapshot.Once) != 0 {
			l.Errorf("a check has %v", check.Snapshot.Once)
		}
	})
}

// A step that reads the result may come with the second retry.
func TestOnceIsReadByASecondRetry(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		unread := strings.Replace(onceBook, "${{ steps.migrate.outputs.token }} ${{ steps.migrate.changed }}", "/x", 1)
		l.accept(l.launchOf(unread, "r1", 10, false))
		l.complete("r1")
		again := l.launchOf(unread, "r2", 10, false)
		l.keep("r1", again)
		l.accept(again)
		l.complete("r2")
		l.db.read = map[string]string{}
		again = l.launch("r3", 10, false)
		l.keep("r2", again)
		l.accept(again)
		l.complete("r3")
		l.judge(10)
	})
}

// A run that ends while a retry is prepared changes nothing: failed hosts and results are of one
// run.
func TestARetryIsOfOneRun(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		ctx := context.Background()
		l.accept(l.launch("r1", 10, false))
		l.complete("r1")
		l.accept(l.launch("dry", 10, true)) // is not repeated
		l.complete("dry")
		last, err := controller.LastRun(ctx, l.ledger, ledger.AllTenants(), l.launch("name", 1, false).Playbook.Name)
		if err != nil || last.ID != "r1" {
			l.Fatalf("the last run is %q, %v", last.ID, err)
		}
		l.db.fail = true
		l.accept(l.launch("r2", 10, false))
		l.complete("r2")
		again := l.launch("r3", 10, false)
		if err := controller.KeepOnceOf(ctx, l.ledger, &last, again); err != nil {
			l.Fatal(err)
		}
		m, err := l.ledger.Material(ctx, last.ID)
		if err != nil {
			l.Fatal(err)
		}
		failed, err := controller.HostsOf(ctx, l.ledger, last.ID, m.Jobs, func(o core.Outcome) bool { return !o.Good() })
		if err != nil || len(failed) != 0 || len(again.Snapshot.Once) != 1 {
			l.Errorf("failed hosts %v, results %v, %v; expected no host, and the result of r1", failed, again.Snapshot.Once, err)
		}
	})
}

// In check mode one host is asked, and the database stays as it is.
func TestOnceInCheckMode(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launch("r1", 10, true))
		l.complete("r1")
		if len(l.db.on) != 1 || l.db.migrated != 0 || len(l.db.read) != 7 {
			l.Errorf("called on %v, %d changes, read by %v", l.db.on, l.db.migrated, l.db.read)
		}
	})
}

// A queue that is lost while the step runs, or once its result is on record, changes neither the
// host that calls it nor the result.
func TestOnceOutlivesTheQueue(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("the result is on record: %v", known), func(t *testing.T) {
			inOnceLab(t, "retry", func(l *onceLab) {
				l.accept(l.launch("r1", 50, false))
				run := l.until("r1", func(r ledger.Run) bool {
					all, err := l.ledger.Once(context.Background(), &r)
					return err == nil && len(all) == 1 && all[0].Known == known
				})
				before, err := l.ledger.Once(context.Background(), &run)
				if err != nil {
					l.Fatal(err)
				}
				l.endAll() // the queue, the workers and the server
				l.startAll()
				l.complete("r1")
				l.judge(50)
				name := fmt.Sprintf("h%02d", before[0].Job)
				if n := l.db.on[name]; n == 0 || known && n != 1 {
					l.Errorf("%s was elected, and called %d times: %v", name, n, l.db.on)
				}
			})
		})
	}
}

// A cancelled run calls nothing more, and its retry calls nothing again.
func TestOnceCancelled(t *testing.T) {
	inOnceLab(t, "retry", func(l *onceLab) {
		l.accept(l.launch("r1", 50, false))
		l.until("r1", func(ledger.Run) bool {
			l.db.mu.Lock()
			defer l.db.mu.Unlock()
			return len(l.db.on) == 1
		})
		if _, _, err := l.ctl.Cancel(context.Background(), ledger.AllTenants(), "alice", "r1", "enough"); err != nil {
			l.Fatal(err)
		}
		run := l.complete("r1")
		if len(l.db.on) != 1 || len(l.db.read) != 0 || run.Outcomes[core.Cancelled] == 0 {
			l.Errorf("called on %v, read by %v, outcomes %v", l.db.on, l.db.read, run.Outcomes)
		}
	})
}
