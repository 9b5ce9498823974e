package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Requests of one transaction that share an id or a key each get their own answer, and the run that is
// accepted is made of its own material.
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
