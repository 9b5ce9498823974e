package controller_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
)

// Creates that share transactions do not share refusals: of one run whose key was used for another,
// the caller hears; the others are accepted once each, also where clients repeat all of them at the
// same time.
func TestOneBadCreateRefusesNoOther(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s", l.queue())
		defer stop()
		defer l.node(l.queue(), 20)()
		good := ids("r", 40)
		if _, _, err := c.Accept(t.Context(), controller.Acceptance{Launch: l.launch(spec{id: "taken", hosts: 1}), By: "alice"}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		created, refused := map[string]int{}, 0
		var wg sync.WaitGroup
		for range 2 { // each client asks twice
			for _, id := range append([]string{"taken"}, good...) {
				hosts := 1
				if id == "taken" { // with other content
					hosts = 2
				}
				one := l.launch(spec{id: id, hosts: hosts})
				wg.Go(func() {
					run, fresh, err := c.Accept(t.Context(), controller.Acceptance{Launch: one, By: "alice"})
					mu.Lock()
					defer mu.Unlock()
					switch {
					case id == "taken" && errors.Is(err, core.ErrConflict):
						refused++
					case err != nil || run.ID != id:
						t.Errorf("%s: %q, %v", id, run.ID, err)
					case fresh:
						created[id]++
					}
				})
			}
		}
		wg.Wait()
		if refused != 2 || len(created) != len(good) {
			t.Errorf("%d creates were refused, expected 2; %d runs were created, expected %d", refused, len(created), len(good))
		}
		l.complete(append(good, "taken")...)
		for _, id := range good {
			if most, sum := l.times(id); created[id] != 1 || most != 1 || sum != 1 {
				t.Errorf("run %s was created %d times, and its job ran %d times", id, created[id], sum)
			}
		}
		l.sound()
	})
}

// Cancels that come at the same time share transactions; of a run that is not there only its caller
// hears.
func TestOneBadCancelRefusesNoOther(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s", l.queue())
		defer stop()
		good := ids("r", 300) // more than one transaction takes
		for _, id := range good {
			if _, _, err := c.Accept(t.Context(), controller.Acceptance{Launch: l.launch(spec{id: id, hosts: 2}), By: "alice"}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for _, id := range append([]string{"nowhere"}, good...) {
			wg.Go(func() {
				run, _, err := c.Cancel(t.Context(), ledger.AllTenants(), "alice", id, "wrong day")
				if id == "nowhere" {
					if !errors.Is(err, core.ErrNotFound) {
						t.Errorf("%s: %v", id, err)
					}
				} else if err != nil || run.ID != id || run.Phase != ledger.PhaseCancelled {
					t.Errorf("%s: %+v, %v", id, run, err)
				}
			})
		}
		wg.Wait()
		l.complete(good...)
		for _, id := range good {
			if r := l.run(id); r.Outcomes[core.Cancelled] != 2 {
				t.Errorf("run %s: %v", id, r.Outcomes)
			}
		}
		l.sound()
	})
}

// A cancel without a reason names who cancelled the run, in the record of the run and of its hosts.
func TestCancelWithoutAReasonNamesThePerson(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s", l.queue())
		defer stop()
		for id, said := range map[string]string{"r-none": "", "r-why": "wrong day"} {
			if _, _, err := c.Accept(t.Context(), controller.Acceptance{Launch: l.launch(spec{id: id, hosts: 2}), By: "alice"}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Cancel(t.Context(), ledger.AllTenants(), "ann@example.net [ann]", id, said); err != nil {
				t.Fatal(err)
			}
		}
		l.complete("r-none", "r-why")
		for id, want := range map[string]string{"r-none": "cancelled by ann@example.net [ann]", "r-why": "wrong day"} {
			if got := l.run(id).Reason.Text(); got != want {
				t.Errorf("run %s: %q, expected %q", id, got, want)
			}
			jobs, _, err := l.ledger.Jobs(l.Context(), ledger.AllTenants(), id, ledger.JobFilter{}, ledger.Page{})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				if j.Reason != want {
					t.Errorf("run %s, job %d: %q, expected %q", id, j.Index, j.Reason, want)
				}
			}
		}
	})
}
