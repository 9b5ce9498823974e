package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testAudit(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	accept(t, l, newRun("r1", "a", 2))
	must[ledger.Run](t)(l.SetPhase(ctx, ledger.AllTenants(), "bob", "r1", ledger.PhasePaused, "look"))
	must[ledger.Run](t)(l.SetPhase(ctx, ledger.AllTenants(), "", "r1", ledger.PhaseActive, "")) // the service: no entry
	must[ledger.Run](t)(l.Cancel(ctx, ledger.AllTenants(), "bob", "r1", "enough"))
	e := must[ledger.Entry](t)(l.AppendAudit(ctx, ledger.Entry{Who: "carol", Tenant: "b", Action: "worker.drain", Kind: "worker", Subject: "w1", Before: json.RawMessage(`{"drain":false}`), After: json.RawMessage(`{"drain":true}`)}))
	if e.Seq != 4 || len(e.Hash) != 32 || e.At.IsZero() {
		t.Errorf("%+v", e)
	}
	actions := func(s ledger.Scope, f ledger.AuditFilter) string {
		t.Helper()
		all := pages(t, 2, func(p ledger.Page) ([]ledger.Entry, string, error) { return l.AuditLog(ctx, s, f, p) })
		var names []string
		for _, e := range all {
			names = append(names, e.Action)
		}
		return strings.Join(names, " ")
	}
	for _, tc := range []struct {
		scope ledger.Scope
		f     ledger.AuditFilter
		want  string
	}{
		{ledger.AllTenants(), ledger.AuditFilter{}, "worker.drain run.cancel run.paused run.accept"},
		{ledger.Tenants("a"), ledger.AuditFilter{}, "run.cancel run.paused run.accept"},
		{ledger.Tenants("b"), ledger.AuditFilter{}, "worker.drain"},
		{ledger.AllTenants(), ledger.AuditFilter{Who: "bob", Kind: "run", Subject: "r1", Action: "run.cancel", Since: e.At.Add(-1e12), Until: e.At.Add(1e12)}, "run.cancel"},
		{ledger.AllTenants(), ledger.AuditFilter{Since: e.At.Add(1)}, ""},
	} {
		if got := actions(tc.scope, tc.f); got != tc.want {
			t.Errorf("%+v: %q, expected %q", tc.f, got, tc.want)
		}
	}
	entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{Action: "run.cancel"}, ledger.Page{})
	if err != nil || string(entries[0].Before) != `{"phase":"active"}` || string(entries[0].After) != `{"phase":"cancelled","reason":"enough"}` {
		t.Errorf("%s → %s, %v", entries[0].Before, entries[0].After, err)
	}
	for name, bad := range map[string]ledger.Entry{
		"nobody":      {Action: "x", Kind: "x"},
		"no JSON":     {Who: "x", Action: "x", Kind: "x", After: json.RawMessage(`{`)},
		"much JSON":   {Who: "x", Action: "x", Kind: "x", After: json.RawMessage(`"` + strings.Repeat("x", ledger.MaxAuditJSON) + `"`)},
		"NUL in text": {Who: "x\x00", Action: "x", Kind: "x"},
	} {
		_, err := l.AppendAudit(ctx, bad)
		wantErr(t, err, core.ErrInvalid, name)
	}
	if a, err := l.VerifyAudit(ctx, ledger.Anchor{Seq: 2, Hash: hashOf(t, l, 2)}); err != nil || a.Seq != 4 {
		t.Errorf("%+v, %v", a, err)
	}
}

func hashOf(t *testing.T, l *ledger.Ledger, seq int64) []byte {
	t.Helper()
	all := pages(t, 100, func(p ledger.Page) ([]ledger.Entry, string, error) {
		return l.AuditLog(t.Context(), ledger.AllTenants(), ledger.AuditFilter{}, p)
	})
	for _, e := range all {
		if e.Seq == seq {
			return e.Hash
		}
	}
	t.Fatalf("no entry %d", seq)
	return nil
}

func entries(tb testing.TB, l *ledger.Ledger, n int) {
	tb.Helper()
	for i := range n {
		if _, err := l.AppendAudit(tb.Context(), ledger.Entry{Who: "bob", Action: "test", Kind: "test", Subject: fmt.Sprint(i)}); err != nil {
			tb.Fatal(err)
		}
	}
}

// Plain SQL cannot change the log, by whatever statement.
func testAuditOnlyGrows(t *testing.T, b *backend) {
	url := b.fresh(t)
	l := b.at(t, url)
	entries(t, l, 3)
	statements := []string{
		`UPDATE audit SET who = 'eve' WHERE seq = 2`,
		`UPDATE audit SET seq = 9 WHERE seq = 3`,
		`DELETE FROM audit WHERE seq = 3`,
		`DELETE FROM audit`,
		`UPDATE audit_head SET seq = 1`,
		`UPDATE audit_head SET seq = seq`,
		`DELETE FROM audit_head`,
	}
	insert := `INTO audit (seq, at, who, tenant, action, kind, subject, before, after, hash) SELECT 2, at, 'eve', tenant, action, kind, subject, before, after, hash FROM audit WHERE seq = 2`
	if strings.HasPrefix(url, "sqlite:") {
		statements = append(statements, `INSERT OR REPLACE `+insert, `REPLACE `+insert, `INSERT OR IGNORE `+strings.Replace(insert, "SELECT 2", "SELECT 7", 1),
			`INSERT OR REPLACE INTO audit_head VALUES (1, 0, zeroblob(32))`)
	} else {
		statements = append(statements, `TRUNCATE audit`, `TRUNCATE audit, audit_head`,
			`INSERT `+insert+` ON CONFLICT (seq) DO UPDATE SET who = 'eve'`)
	}
	for _, s := range statements {
		err := l.Raw(t.Context(), s)
		wantErr(t, ledger.Translate("x", err), core.ErrConflict, s)
	}
	if a, err := l.VerifyAudit(t.Context()); err != nil || a.Seq != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The negative control: without the triggers the same statements work, and then the chain shows it.
func testAuditShowsTampering(t *testing.T, b *backend) {
	for _, tc := range []struct {
		name, sql string
	}{
		{"a changed entry", `UPDATE audit SET who = 'eve' WHERE seq = 2`},
		{"a changed last entry", `UPDATE audit SET subject = 'x' WHERE seq = 4`},
		{"a removed entry", `DELETE FROM audit WHERE seq = 2`},
		{"the last removed", `DELETE FROM audit WHERE seq = 4`},
		{"all removed", `DELETE FROM audit`},
		{"text moved between fields", `UPDATE audit SET who = 'bo', tenant = 'b' WHERE seq = 1`},
		{"the head put back", `DELETE FROM audit WHERE seq = 4; UPDATE audit_head SET seq = 3, hash = (SELECT hash FROM audit WHERE seq = 3)`},
	} {
		url := b.fresh(t)
		l := b.at(t, url)
		entries(t, l, 4)
		anchor, err := l.VerifyAudit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		drop := `DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; DROP TRIGGER audit_head_forward`
		if !strings.HasPrefix(url, "sqlite:") {
			drop = `DROP TRIGGER audit_only_grows ON audit; DROP TRIGGER audit_head_forward ON audit_head`
		}
		for _, s := range []string{drop, tc.sql} {
			if err := l.Raw(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		_, err = l.VerifyAudit(t.Context(), anchor)
		wantErr(t, err, ledger.ErrTampered, tc.name)
	}
}

// Two servers write at the same time: one chain without gaps.
func testAuditRace(t *testing.T, b *backend) {
	url := b.fresh(t)
	servers := []*ledger.Ledger{b.at(t, url), b.at(t, url)}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { entries(t, servers[i%2], 10) })
	}
	wg.Wait()
	if a, err := servers[0].VerifyAudit(t.Context()); err != nil || a.Seq != 40 {
		t.Errorf("%+v, %v", a, err)
	}
}
