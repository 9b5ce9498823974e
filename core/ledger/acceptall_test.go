package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Requests of one transaction that share an id or a key each get their own answer, and the run that
// is accepted is made of its own material.
func TestRequestsOfOneTransactionThatCollide(t *testing.T) {
	l, err := ledger.Open(t.Context(), ledger.Memory, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx := t.Context()
	request := func(id, key, tenant, what string) ledger.NewRun {
		return ledger.NewRun{
			ID: id, Key: key, Tenant: tenant, Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "h"}},
			Snapshot: []byte("snapshot of " + what), Queue: []byte("queue of " + what), Request: []byte(what),
		}
	}
	var full []ledger.NewRun
	for i := range core.QuotaRuns.Max {
		full = append(full, request(fmt.Sprint("full-", i), "", "full", "x"))
	}
	if _, err := l.AcceptAll(ctx, full...); err != nil {
		t.Fatal(err)
	}
	out, err := l.AcceptAll(ctx,
		request("a", "k", "acme", "one"),
		request("b", "k", "acme", "two"),  // its key is taken by the first
		request("b", "", "acme", "three"), // its id is that of the second, which was not accepted
		request("c", "", "full", "four"),  // over the quota
		request("c", "", "acme", "five"),
		request("a", "k", "acme", "one"),
		request("a", "", "acme", "six"),
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		created bool
		err     error
		what    string
	}{
		{true, nil, "one"}, {false, core.ErrConflict, ""}, {true, nil, "three"}, {false, core.ErrConflict, ""}, {true, nil, "five"}, {false, nil, "one"}, {false, core.ErrConflict, ""},
	} {
		got := out[i]
		if got.Created != want.created || !errors.Is(got.Err, want.err) || (want.err == nil) != (got.Err == nil) {
			t.Errorf("request %d: created %v, %v; expected created %v, %v", i+1, got.Created, got.Err, want.created, want.err)
			continue
		}
		if want.what == "" {
			continue
		}
		m, err := l.Material(ctx, got.Run.ID)
		if err != nil || string(m.Snapshot) != "snapshot of "+want.what || string(m.Queue) != "queue of "+want.what {
			t.Errorf("request %d: run %s is made of %q and %q, %v", i+1, got.Run.ID, m.Snapshot, m.Queue, err)
		}
	}
}

// Requests that were accepted before are found by their keys, in their order, in scope only.
func testAcceptedBefore(t *testing.T, b *backend) {
	l := b.open(t)
	var runs []ledger.NewRun
	for _, id := range []string{"a", "b", "c", "d"} {
		n := newRun(id, "acme", 1)
		n.Key, n.Request = "key of "+id, []byte(id)
		runs = append(runs, n)
	}
	runs[2].Tenant = "globex"
	if _, err := l.AcceptAll(t.Context(), runs...); err != nil {
		t.Fatal(err)
	}
	asked := []ledger.Asked{
		{Key: "key of d", Request: []byte("d")},
		{Key: "key of e", Request: []byte("e")},
		{Key: "key of a", Request: []byte("another")},
		{Key: "key of c", Request: []byte("c")},
		{Key: "key of a", Request: []byte("a")},
	}
	all := ledger.Tenants("acme", "globex")
	for _, c := range []struct {
		scope ledger.Scope
		third error
	}{{ledger.Tenants("acme"), core.ErrNotFound}, {all, nil}} {
		out, err := l.AcceptedBefore(t.Context(), c.scope, asked...)
		if err != nil || len(out) != len(asked) {
			t.Fatalf("%d answers, %v", len(out), err)
		}
		for i, want := range []struct {
			id  string
			err error
		}{{"d", nil}, {"", core.ErrNotFound}, {"", core.ErrConflict}, {"c", c.third}, {"a", nil}} {
			if got := out[i]; !errors.Is(got.Err, want.err) || want.err == nil && (got.Err != nil || got.Run.ID != want.id) {
				t.Errorf("request %d: run %q, %v; expected %q, %v", i, got.Run.ID, got.Err, want.id, want.err)
			}
		}
	}
	if out, err := l.AcceptedBefore(t.Context(), all); err != nil || len(out) != 0 {
		t.Errorf("of no request: %v, %v", out, err)
	}
}
