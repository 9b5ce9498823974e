package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Each fault is found, mended, and then gone. A service at work has none.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(l *lab)
		want  string // of a finding
	}{
		{"nothing", func(*lab) {}, ""},
		{"the queue was emptied", func(l *lab) { l.newQueue() }, "no server has taken notice"},
		{"a run was never put into the queue", func(l *lab) {
			c, err := controller.New(controller.Config{Name: "dead", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
			if err != nil {
				l.Fatal(err)
			}
			l.accept(c, spec{id: "r2", hosts: 2})
		}, "no server has put it into the queue"},
		{"outcomes are not recorded", func(l *lab) {
			stop := l.node(l.queue(), 3)
			l.until("some have ended", func() bool { _, sum := l.times("r1"); return sum >= 6 })
			stop()
		}, "are not recorded"},
		{"phases differ", func(l *lab) {
			yes := true
			if err := queue.AdjustOne(l.Context(), l.queue(), "r1", queue.Adjust{Paused: &yes}); err != nil {
				l.Fatal(err)
			}
		}, "it is active in the ledger, paused in the queue"},
		{"a cancel did not arrive", func(l *lab) {
			if _, err := l.ledger.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "no"); err != nil {
				l.Fatal(err)
			}
		}, "it is cancelled in the ledger, active in the queue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake(t, func(l *lab) {
				c, stop := l.server("s1", l.queue())
				l.accept(c, spec{id: "r1", hosts: 20})
				l.until("it is queued", func() bool { return l.run("r1").Phase == ledger.PhaseActive })
				<-time.After(time.Second)
				stop()
				tc.spoil(l)
				if found, err := l.doctor().Check(l.Context(), false); err != nil || len(found) > 0 != (tc.want != "") || tc.want != "" && found[0].Repaired {
					t.Errorf("without repair: %+v, %v", found, err)
				}
				found, err := l.doctor().Check(l.Context(), true)
				if err != nil {
					t.Fatal(err)
				}
				named := tc.want == ""
				for _, f := range found {
					named = named || strings.Contains(f.What, tc.want)
					if !f.Repaired {
						t.Errorf("not repaired: %+v", f)
					}
				}
				if !named {
					t.Errorf("found %+v, expected %q", found, tc.want)
				}
				if found, err = l.doctor().Check(l.Context(), false); err != nil || len(found) > 0 {
					t.Errorf("after the repair: %+v, %v", found, err)
				}
			})
		})
	}
}

func (l *lab) doctor() *controller.Controller {
	l.Helper()
	c, err := controller.New(controller.Config{Name: "doctor", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
	if err != nil {
		l.Fatal(err)
	}
	return c
}
