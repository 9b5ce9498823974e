package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// keyedRuns are runs of acme-patch on one host each, with the keys k0, k1, and so on.
func keyedRuns(n int) []api.KeyedRun {
	runs := make([]api.KeyedRun, n)
	for i := range runs {
		runs[i] = api.KeyedRun{Key: fmt.Sprint("k", i), NewRun: api.NewRun{
			Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{fmt.Sprint("acme-", 1+i%3)}},
		}}
	}
	return runs
}

// bulk creates runs, and fails unless each has an answer, in their order.
func (b *bed) bulk(secret string, runs []api.KeyedRun) []api.CreatedRun {
	b.t.Helper()
	answers := want[struct{ Items []api.CreatedRun }](b.t, b.ask(secret, "POST", "/v1/runs/bulk", api.NewRuns{Runs: runs}), http.StatusOK).Items
	if len(answers) != len(runs) {
		b.t.Fatalf("%d answers to %d runs", len(answers), len(runs))
	}
	for i, a := range answers {
		if a.Index != i || (a.Run == nil) == (a.Error == nil) {
			b.t.Fatalf("answer %d: %s", i, asJSON(a))
		}
	}
	return answers
}

// accepts are the audit entries of runs that were accepted.
func (b *bed) accepts() []ledger.Entry {
	b.t.Helper()
	entries, next, err := b.ledger.AuditLog(b.t.Context(), ledger.AllTenants(), ledger.AuditFilter{Action: "run.accept"}, ledger.Page{Limit: 1000})
	must(b.t, err)
	if next != "" {
		b.t.Fatal("more than 1000 runs were accepted")
	}
	return entries
}

// problem returns the refusal of a single create.
func (b *bed) problem(secret string, n any) api.Problem {
	b.t.Helper()
	a := b.ask(secret, "POST", "/v1/runs", n)
	return want[api.Problem](b.t, a, a.status)
}

// 1000 runs take few transactions: the audit entries of a transaction have one time. The same
// request again makes nothing.
func TestBulkOfAThousandRuns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator, runs := b.token("acme", Operator), keyedRuns(api.MaxNewRuns)
	first := b.bulk(operator, runs)
	entries, times := b.accepts(), map[time.Time]bool{}
	for _, e := range entries {
		times[e.At] = true
		if e.Who != "acme/the operator" || e.Tenant != "acme" {
			t.Errorf("audit log: %s", asJSON(e))
		}
	}
	if len(entries) != len(runs) || len(times) > len(runs)/100 {
		t.Errorf("%d runs were accepted at %d times, expected %d in a few transactions", len(entries), len(times), len(runs))
	}
	ids := map[string]bool{}
	for i, a := range b.bulk(operator, runs) {
		if first[i].Run == nil || a.Run == nil || a.Run.ID != first[i].Run.ID {
			t.Fatalf("%d: first %s, then %s", i, asJSON(first[i]), asJSON(a))
		}
		ids[a.Run.ID] = true
	}
	if len(ids) != len(runs) || len(b.accepts()) != len(runs) {
		t.Errorf("%d runs, %d accepted", len(ids), len(b.accepts()))
	}
	// One more is refused as a whole, and makes nothing.
	a := b.ask(operator, "POST", "/v1/runs/bulk", api.NewRuns{Runs: append(runs, keyedRuns(1)...)})
	if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "runs has 1001 items, expected 1 to 1000") {
		t.Errorf("1001 runs: %d %s", a.status, a.body)
	}
}

// A bad run of a bulk is refused with what a single create is refused with, and refuses no other.
func TestBadRunsOfABulkRefuseNoOther(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	runs := keyedRuns(9)
	runs[1].Playbook = "acme-pach"
	runs[3].Limit = []string{"nobody"}
	runs[4].Limit = []string{"globex-1"} // another tenant's
	runs[5].Playbook = "globex-patch"
	runs[6].Criticality = new(1777)
	runs[7].Vars = map[string]any{"v": strings.Repeat("x", 10_000)}
	for range 2 {
		for i, a := range b.bulk(operator, runs) {
			if bad := slices.Contains([]int{1, 3, 4, 5, 6, 7}, i); !bad {
				if a.Run == nil {
					t.Errorf("run %d: %s", i, asJSON(a))
				}
				continue
			}
			if single := b.problem(operator, runs[i].NewRun); a.Error == nil || string(asJSON(a.Error)) != string(asJSON(single)) || single.Status < 400 {
				t.Errorf("run %d: %s, expected %s", i, asJSON(a), asJSON(single))
			}
		}
		if n := len(b.accepts()); n != 3 {
			t.Errorf("%d runs were accepted, expected 3", n)
		}
	}
	// The wrong ones are mended, and sent with the same keys.
	for i, a := range b.bulk(operator, keyedRuns(9)) {
		if a.Run == nil {
			t.Errorf("mended run %d: %s", i, asJSON(a))
		}
	}
	if n := len(b.accepts()); n != 9 {
		t.Errorf("%d runs were accepted, expected 9", n)
	}
}

// A text that is no run, or has no key, is refused alone. A body that is no list of runs is refused
// as a whole.
func TestBulkIsValidated(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	a := b.ask(operator, "POST", "/v1/runs/bulk", `{"runs": [null, {"playbook": "acme-patch"}, {"key": "", "playbook": "acme-patch"},
		{"key": "k", "playbook": "acme-patch", "secret": {"password": "hunter2"}}, {"key": "good", "playbook": "acme-patch"},
		{"key": "k1", "playbook": "acme-patch", "max_in_flight": 1e3}, {"key": "k2", "playbook": "acme-patch", "vars": {"a": 1e400}}]}`)
	for i, item := range want[struct{ Items []api.CreatedRun }](t, a, http.StatusOK).Items {
		if good := i == 4; good != (item.Run != nil) || !good && item.Error.Status != http.StatusUnprocessableEntity {
			t.Errorf("%d: %s", i, asJSON(item))
		}
	}
	if strings.Contains(a.body, "hunter2") {
		t.Errorf("the answer repeats what was sent: %s", a.body)
	}
	for _, body := range []string{`{"runs": []}`, `{}`, `{"runs": {}}`, `{"runs": [{"key": "k", "playbook": "acme-patch"}], "paused": true}`, `{"runs": [`, `[]`} {
		want[any](t, b.ask(operator, "POST", "/v1/runs/bulk", body), http.StatusUnprocessableEntity)
	}
	large := keyedRuns(1)
	large[0].Tags = []string{strings.Repeat("x", smallBody)}
	want[any](t, b.ask(operator, "POST", "/v1/runs/bulk", api.NewRuns{Runs: large}), http.StatusRequestEntityTooLarge)
	if n := len(b.accepts()); n != 1 {
		t.Errorf("%d runs were accepted, expected 1", n)
	}
}

// A key makes one run, within a request, and beside single creates. Another request under it is
// refused, also where the two come together. A key of a run that was refused is free.
func TestKeysOfABulk(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	runs := keyedRuns(6)
	single := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", runs[0].NewRun, "Idempotency-Key", "k0"), http.StatusCreated)
	runs[2] = runs[1]       // the same twice
	runs[3].Key = "k1"      // another request with the key of a run
	runs[4].Playbook = "no" // refused, and
	runs[5].Key = "k4"      // another request with its key
	a := b.bulk(operator, runs)
	if a[0].Run == nil || a[0].Run.ID != single.ID {
		t.Errorf("a single create made %s, the bulk answers %s", single.ID, asJSON(a[0]))
	}
	if a[1].Run == nil || a[2].Run == nil || a[1].Run.ID != a[2].Run.ID {
		t.Errorf("the same run twice: %s and %s", asJSON(a[1]), asJSON(a[2]))
	}
	if a[3].Error == nil || a[3].Error.Status != http.StatusConflict || !strings.Contains(a[3].Error.Detail, "the idempotency key was used for another request") {
		t.Errorf("another request with a key: %s", asJSON(a[3]))
	}
	if a[4].Error == nil || a[4].Error.Status != http.StatusNotFound || a[5].Run == nil {
		t.Errorf("a refused run, and another with its key: %s and %s", asJSON(a[4]), asJSON(a[5]))
	}
	if n := len(b.accepts()); n != 3 {
		t.Errorf("%d runs were accepted, expected 3", n)
	}
	if same := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", runs[1].NewRun, "Idempotency-Key", "k1"), http.StatusCreated); a[1].Run == nil || same.ID != a[1].Run.ID {
		t.Errorf("a single create answers %s, the bulk made %s", same.ID, asJSON(a[1]))
	}
	if other := b.bulk(b.token("acme", Admin), runs[:1]); other[0].Run == nil || other[0].Run.ID == single.ID {
		t.Errorf("another caller with the same key: %s", asJSON(other[0]))
	}
}

// Clients that send the same bulk at the same time get the same runs, one of each.
func TestBulksAtOnceMakeEachRunOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator, runs := b.token("acme", Operator), keyedRuns(400)
	mixed := slices.Clone(runs)
	slices.Reverse(mixed)
	answers := make([]answer, 6)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() {
			answers[i] = b.ask(operator, "POST", "/v1/runs/bulk", api.NewRuns{Runs: [][]api.KeyedRun{runs, mixed}[i%2]})
		})
	}
	asking.Wait()
	made := map[string]string{} // by key
	for i, a := range answers {
		for k, item := range want[struct{ Items []api.CreatedRun }](t, a, http.StatusOK).Items {
			key := [][]api.KeyedRun{runs, mixed}[i%2][k].Key
			if item.Run == nil || made[key] != "" && made[key] != item.Run.ID {
				t.Fatalf("client %d, key %s: %s, and another client got %s", i, key, asJSON(item), made[key])
			}
			made[key] = item.Run.ID
		}
	}
	if n := len(b.accepts()); n != len(runs) || len(made) != len(runs) {
		t.Errorf("%d runs were accepted, expected %d", n, len(runs))
	}
}
