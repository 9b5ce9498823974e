package ledger_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// A reader that learns from results gets the newest runs of a playbook in scope, the first hosts of
// each, and what succeeded.
func testRecentDetails(t *testing.T, b *backend) {
	l := b.open(t)
	long := make([]byte, 70<<10) // nothing that can be packed
	if _, err := rand.Read(long); err != nil {
		t.Fatal(err)
	}
	for r := range 22 {
		n := newRun(fmt.Sprintf("r%02d", r), "acme", 30)
		accept(t, l, n)
		var all []ledger.Outcome
		for i := range 30 {
			o := ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Detail: []byte(n.ID)}
			switch i {
			case 1:
				o.Outcome = core.Failed
			case 2:
				o.Detail = long
			}
			all = append(all, o)
		}
		record(t, l, n.ID, all...)
	}
	accept(t, l, newRun("later", "acme", 1)) // without a result
	dry := newRun("dry", "acme", 1)
	dry.Check = true
	accept(t, l, dry)
	record(t, l, "dry", ledger.Outcome{Outcome: core.Changed, Attempt: 1, Detail: []byte("dry")})
	playbook := newRun("x", "acme", 1).Playbook
	got, err := l.RecentDetails(t.Context(), ledger.Tenants("acme"), playbook)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, d := range got {
		if runs[d.Run]++; string(d.Detail) != d.Run || d.Index >= 25 || d.Index == 1 || d.Index == 2 {
			t.Errorf("job %s, %.20q", d.JobID, d.Detail)
		}
	}
	if len(runs) != 20 || runs["r21"] != 23 || runs["dry"] != 0 || runs["r01"] != 0 {
		t.Errorf("runs %v", runs)
	}
	if err := l.Raw(t.Context(), `UPDATE attempts SET detail = $1 WHERE idx = 5`, []byte{255, 1}); err != nil {
		t.Fatal(err)
	}
	damaged, err := l.RecentDetails(t.Context(), ledger.Tenants("acme"), playbook)
	if read := slices.DeleteFunc(damaged, func(d ledger.RecentDetail) bool { return d.Detail == nil }); err != nil || len(read) != len(got)-20 {
		t.Errorf("%d of %d are read beside damaged ones, %v", len(read), len(got), err)
	}
	for _, s := range []ledger.Scope{ledger.Tenants("globex"), ledger.Tenants()} {
		if got, err := l.RecentDetails(t.Context(), s, playbook); err != nil || len(got) != 0 {
			t.Errorf("another tenant reads %v, %v", got, err)
		}
	}
	if got, err := l.RecentDetails(t.Context(), ledger.AllTenants(), "another"); err != nil || len(got) != 0 {
		t.Errorf("another playbook: %v, %v", got, err)
	}
}
