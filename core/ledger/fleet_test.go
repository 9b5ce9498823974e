package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testLastJobs(t *testing.T, b *backend) {
	l := b.open(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.SetClock(func() time.Time { return at })
	accept(t, l, newRun("r0", "", 5)) // even hosts are customer a's, odd ones b's
	record(t, l, "r0", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1}, ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 1}, ledger.Outcome{Index: 2, Outcome: core.Lost, Attempt: 1})
	accept(t, l, newRun("r1", "", 5)) // at the same instant: the later run counts
	record(t, l, "r1", ledger.Outcome{Index: 1, Outcome: core.Failed, Attempt: 1})
	at = at.Add(time.Hour)
	accept(t, l, newRun("r2", "", 5))
	record(t, l, "r2", ledger.Outcome{Index: 2, Outcome: core.Unchanged, Attempt: 1}, ledger.Outcome{Index: 3, Count: 2, Outcome: core.Cancelled}) // never started
	accept(t, l, newRun("r3", "", 5))                                                                                                              // no outcome yet
	dry := newRun("r4", "", 5)
	dry.Check = true // what it reports did not happen
	accept(t, l, dry)
	record(t, l, "r4", ledger.Outcome{Index: 0, Outcome: core.Failed, Attempt: 1}, ledger.Outcome{Index: 3, Outcome: core.Changed, Attempt: 1})
	hosts := []string{"host-0", "host-1", "host-2", "host-3", "host-77", "host-0"}
	for _, tc := range []struct {
		name  string
		scope ledger.Scope
		want  string
	}{
		{"all", ledger.AllTenants(), "host-0:r0:changed host-1:r1:failed host-2:r2:unchanged "},
		{"a customer", ledger.Tenants("a"), "host-0:r0:changed host-2:r2:unchanged "},
		{"two customers", ledger.Tenants("a", "b"), "host-0:r0:changed host-1:r1:failed host-2:r2:unchanged "},
		{"another customer", ledger.Tenants("c"), ""},
		{"nobody", ledger.Scope{}, ""},
	} {
		last := must[map[string]ledger.Job](t)(l.LastJobs(t.Context(), tc.scope, hosts))
		got := ""
		for _, h := range hosts[:5] {
			if j, ok := last[h]; ok {
				got += fmt.Sprintf("%s:%s:%s ", j.Host, j.Run, j.Outcome)
				if j.Playbook != "patch" || j.Recorded.IsZero() {
					t.Errorf("%+v", j)
				}
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, expected %s", tc.name, got, tc.want)
		}
	}
	if last := must[map[string]ledger.Job](t)(l.LastJobs(t.Context(), ledger.AllTenants(), nil)); len(last) != 0 {
		t.Errorf("of no host: %v", last)
	}
	_, err := l.LastJobs(t.Context(), ledger.AllTenants(), make([]string, ledger.MaxPage+1))
	wantErr(t, err, core.ErrInvalid, "more hosts than a page")
}
