package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testAcceptRecordRead(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	n := newRun("r1", "a", 3)
	n.Created = time.Date(2026, 3, 1, 4, 5, 6, 789000, time.UTC)
	n.Criticality = 7
	r, created, err := l.Accept(ctx, n)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if r.ID != "r1" || r.Tenant != "a" || r.Playbook != "patch" || r.Revision != "4f1a" || r.LaunchedBy != "alice" || !r.Created.Equal(n.Created) ||
		r.Criticality != 7 || r.Phase != ledger.PhaseQueued || r.Total != 3 || r.Version != 1 || len(r.Outcomes) != 0 || r.Complete() {
		t.Errorf("accepted as %+v", r)
	}
	if got := read(t, l, "r1"); !reflect.DeepEqual(got, r) {
		t.Errorf("read as %+v, accepted as %+v", got, r)
	}
	started := time.Date(2026, 3, 1, 4, 6, 0, 0, time.UTC)
	got := record(t, l, "r1",
		ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 2, Worker: "w1", Started: started, Took: 1500 * time.Millisecond, Detail: []byte(`{"steps":[]}`)},
		ledger.Outcome{Index: 0, Count: 3, Outcome: core.Cancelled, Reason: "enough\x00\xff"})
	if got.New != 3 || got.Repeated != 0 || !got.Complete {
		t.Errorf("recorded %+v", got)
	}
	r = read(t, l, "r1")
	if r.Phase != ledger.PhaseFinished || r.Outcomes[core.Changed] != 1 || r.Outcomes[core.Cancelled] != 2 || r.Recorded != 3 || !r.Complete() {
		t.Errorf("ended as %+v", r)
	}
	for i, want := range []core.Outcome{core.Cancelled, core.Changed, core.Cancelled} {
		j, err := l.Job(ctx, ledger.Tenants("a"), core.JobID{Run: "r1", Index: i})
		if err != nil || j.Outcome != want || j.Host != fmt.Sprint("host-", i) || j.Playbook != "patch" || j.Recorded.IsZero() {
			t.Errorf("job %d: %+v, %v", i, j, err)
		}
		if i == 1 && (!j.Started.Equal(started) || j.Took != 1500*time.Millisecond || j.Attempt != 2 || j.Worker != "w1") {
			t.Errorf("job 1: %+v", j)
		}
		if i != 1 && j.Reason != "enough\uFFFD\uFFFD" {
			t.Errorf("reason %q", j.Reason)
		}
	}
	for index := range 3 {
		id := core.JobID{Run: "r1", Index: index}
		job, err1 := l.Job(ctx, ledger.AllTenants(), id)
		detail, err2 := l.Detail(ctx, ledger.AllTenants(), id)
		both, same, err3 := l.JobDetail(ctx, ledger.AllTenants(), id)
		if err1 != nil || err2 != nil || err3 != nil || both != job || !bytes.Equal(detail, same) {
			t.Fatalf("JobDetail of %s is not Job and Detail: %+v %q, %+v %q, %v %v %v", id, both, same, job, detail, err1, err2, err3)
		}
	}
	detail, err := l.Detail(ctx, ledger.AllTenants(), core.JobID{Run: "r1", Index: 1})
	if err != nil || string(detail) != `{"steps":[]}` {
		t.Errorf("detail %q, %v", detail, err)
	}
	if detail, err := l.Detail(ctx, ledger.AllTenants(), core.JobID{Run: "r1", Index: 0}); err != nil || detail != nil {
		t.Errorf("detail of a job without one: %q, %v", detail, err)
	}
	sound(t, l)
}

// A run that is to start paused is never seen in another phase, and is given to queues as paused.
func testAcceptPaused(t *testing.T, b *backend) {
	l := b.open(t)
	n := newRun("r1", "", 2)
	n.Paused = true
	if r := accept(t, l, n); r.Phase != ledger.PhasePaused {
		t.Errorf("%+v", r)
	}
	claims := must[[]ledger.Claim](t)(l.ClaimNext(t.Context(), "s1", "q1", time.Minute, 10, 1000))
	if len(claims) != 1 || claims[0].Run.Phase != ledger.PhasePaused {
		t.Fatalf("%+v", claims)
	}
	if r := must[ledger.Run](t)(enqueued(t.Context(), l, claims[0], "q1")); r.Phase != ledger.PhasePaused {
		t.Errorf("%+v", r)
	}
	n = newRun("r2", "", 2)
	n.Paused, n.Approvals = true, 1
	_, _, err := l.Accept(t.Context(), n)
	wantErr(t, err, core.ErrInvalid, "paused, and waiting for an approval")
}

func testAcceptIsIdempotent(t *testing.T, b *backend) {
	l := b.open(t)
	first := newRun("r1", "a", 2)
	first.Key, first.Request = "key-1", []byte("please")
	accept(t, l, first)
	change := func(f func(*ledger.NewRun)) ledger.NewRun { n := first; f(&n); return n }
	for _, tc := range []struct {
		name string
		n    ledger.NewRun
		want string // id; "" is a conflict
	}{
		{"the same", first, "r1"},
		{"same key and request, another id and snapshot", change(func(n *ledger.NewRun) { n.ID, n.Snapshot = "r2", []byte("later") }), "r1"},
		{"same key, another request", change(func(n *ledger.NewRun) { n.ID, n.Request = "r2", []byte("other") }), ""},
		{"same id, another request", change(func(n *ledger.NewRun) { n.Key, n.Request = "", []byte("other") }), ""},
		{"same id, another tenant", change(func(n *ledger.NewRun) { n.Tenant = "b" }), ""},
		{"same key, another tenant", change(func(n *ledger.NewRun) { n.ID, n.Tenant = "r3", "b" }), "r3"},
		{"no key", change(func(n *ledger.NewRun) { n.ID, n.Key = "r4", "" }), "r4"},
		{"no key again", change(func(n *ledger.NewRun) { n.ID, n.Key = "r5", "" }), "r5"},
	} {
		r, _, err := l.Accept(t.Context(), tc.n)
		if tc.want == "" {
			wantErr(t, err, core.ErrConflict, tc.name)
		} else if err != nil || r.ID != tc.want {
			t.Errorf("%s: %s, %v, expected %s", tc.name, r.ID, err, tc.want)
		}
	}
	// Without Request, all that is stored decides.
	plain := newRun("p", "a", 2)
	accept(t, l, plain)
	accept(t, l, plain)
	plain.Queue = []byte("else")
	_, _, err := l.Accept(t.Context(), plain)
	wantErr(t, err, core.ErrConflict, "another queue run under the same id")
	if m := must[ledger.Material](t)(l.Material(t.Context(), "p")); string(m.Queue) != "queue of p" {
		t.Errorf("a refused run changed %q", m.Queue)
	}
}

// Many ask two servers for the same run at the same time: one run, and everybody gets it.
func testAcceptRaces(t *testing.T, b *backend) {
	url := b.fresh(t)
	servers := []*ledger.Ledger{b.at(t, url), b.at(t, url)}
	const each = 12
	ids := make([]string, each)
	made := make([]bool, each)
	var wg sync.WaitGroup
	for i := range each {
		wg.Go(func() {
			n := newRun(fmt.Sprintf("r%d", i), "a", 3)
			n.Key, n.Request = "same", []byte("please")
			r, created, err := servers[i%2].Accept(t.Context(), n)
			if err != nil {
				t.Error(err)
			}
			ids[i], made[i] = r.ID, created
		})
	}
	wg.Wait()
	count := 0
	for i := range each {
		if made[i] {
			count++
		}
		if ids[i] != ids[0] {
			t.Errorf("runs %s and %s for one key", ids[0], ids[i])
		}
	}
	runs, _, err := servers[0].Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{})
	if count != 1 || err != nil || len(runs) != 1 {
		t.Errorf("%d created, %d listed, %v", count, len(runs), err)
	}
	sound(t, servers[1])
}

func testAcceptRefuses(t *testing.T, b *backend) {
	l := b.open(t)
	for name, f := range map[string]func(*ledger.NewRun){
		"no id":                func(n *ledger.NewRun) { n.ID = "" },
		"long id":              func(n *ledger.NewRun) { n.ID = strings.Repeat("x", 129) },
		"NUL in id":            func(n *ledger.NewRun) { n.ID = "a\x00b" },
		"no UTF-8 in tenant":   func(n *ledger.NewRun) { n.Tenant = "\xff" },
		"no playbook":          func(n *ledger.NewRun) { n.Playbook = "" },
		"nobody":               func(n *ledger.NewRun) { n.LaunchedBy = "" },
		"no jobs":              func(n *ledger.NewRun) { n.Jobs = nil },
		"a job without a host": func(n *ledger.NewRun) { n.Jobs = []ledger.JobHost{{}} },
		"negative criticality": func(n *ledger.NewRun) { n.Criticality = -1 },
		"too many approvals":   func(n *ledger.NewRun) { n.Approvals = 99 },
		"too large a snapshot": func(n *ledger.NewRun) { n.Snapshot = make([]byte, ledger.MaxSnapshot+1) },
	} {
		n := newRun("r1", "a", 1)
		f(&n)
		_, _, err := l.Accept(t.Context(), n)
		wantErr(t, err, core.ErrInvalid, name)
	}
	for _, id := range []string{"none", "a\x00b", "\xff", strings.Repeat("x", 10_000)} {
		_, err := l.Run(t.Context(), ledger.AllTenants(), id)
		wantErr(t, err, core.ErrNotFound, "run that was never accepted")
	}
}

func testMaterial(t *testing.T, b *backend) {
	l := b.open(t)
	n := newRun("r1", "a", 500)
	n.Snapshot, n.Queue = []byte(strings.Repeat("playbook ", 5000)), []byte{0, 1, 2, 255}
	n.Jobs[7] = ledger.JobHost{Host: "größe\n\t7"}
	accept(t, l, n)
	m, err := l.Material(t.Context(), "r1")
	if err != nil || !reflect.DeepEqual(m, ledger.Material{Snapshot: n.Snapshot, Queue: n.Queue, Jobs: n.Jobs}) {
		t.Errorf("%v, %d jobs, %d and %d bytes", err, len(m.Jobs), len(m.Snapshot), len(m.Queue))
	}
	for _, asked := range []bool{true, false} {
		r, err := l.FullRun(t.Context(), ledger.AllTenants(), "r1", asked)
		if err != nil || asked != (string(r.Snapshot) == string(n.Snapshot)) || !asked && r.Snapshot != nil {
			t.Errorf("snapshot %v: %v, %d bytes", asked, err, len(r.Snapshot))
		}
	}
	_, err = l.Material(t.Context(), "r2")
	wantErr(t, err, core.ErrNotFound, "material of no run")
}

// pages reads a list to its end, limit at a time.
func pages[T any](tb testing.TB, limit int, list func(ledger.Page) ([]T, string, error)) (all []T) {
	tb.Helper()
	p := ledger.Page{Limit: limit}
	for range 1000 {
		part, next, err := list(p)
		if err != nil {
			tb.Fatal(err)
		}
		if len(part) > limit {
			tb.Fatalf("a page of %d, asked for %d", len(part), limit)
		}
		all = append(all, part...)
		if next == "" {
			return all
		}
		p.Cursor = next
	}
	tb.Fatal("the list has no end")
	return nil
}

func runIDs(runs []ledger.Run) string {
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func testRunList(t *testing.T, b *backend) {
	l := b.open(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 6 {
		n := newRun(fmt.Sprintf("r%d", i), []string{"a", "b", ""}[i%3], 1)
		n.Created = start.Add(time.Duration(i/2) * time.Hour) // two at each instant
		n.Playbook = []string{"patch", "backup"}[i%2]
		n.Criticality = []int{0, 5, 0, 5, 9, 0}[i]
		n.Jobs[0].Host = fmt.Sprintf("host-%d", i)
		accept(t, l, n)
	}
	record(t, l, "r1", ledger.Outcome{Outcome: core.Failed, Reason: "no"})
	for _, tc := range []struct {
		name  string
		scope ledger.Scope
		f     ledger.RunFilter
		want  string
	}{
		{"all", ledger.AllTenants(), ledger.RunFilter{}, "r5 r4 r3 r2 r1 r0"},
		{"a tenant", ledger.Tenants("a"), ledger.RunFilter{}, "r3 r0"},
		{"the tenant without a name", ledger.Tenants(""), ledger.RunFilter{}, "r5 r2"},
		{"two tenants", ledger.Tenants("a", "b"), ledger.RunFilter{}, "r4 r3 r1 r0"},
		{"the zero scope", ledger.Scope{}, ledger.RunFilter{}, ""},
		{"no tenants", ledger.Tenants(), ledger.RunFilter{}, ""},
		{"a tenant with quotes", ledger.Tenants("a'; --", `"`), ledger.RunFilter{}, ""},
		{"playbook", ledger.AllTenants(), ledger.RunFilter{Playbook: "backup"}, "r5 r3 r1"},
		{"phase", ledger.AllTenants(), ledger.RunFilter{Phase: ledger.PhaseFinished}, "r1"},
		{"phase of others", ledger.AllTenants(), ledger.RunFilter{Phase: ledger.PhaseQueued}, "r5 r4 r3 r2 r0"},
		{"phase in a tenant", ledger.Tenants("a"), ledger.RunFilter{Phase: ledger.PhaseQueued, Host: "host-3"}, ""},
		{"outcome", ledger.AllTenants(), ledger.RunFilter{Outcome: core.Failed}, "r1"},
		{"host", ledger.AllTenants(), ledger.RunFilter{Host: "host-1"}, "r1"},
		{"since", ledger.AllTenants(), ledger.RunFilter{Since: start.Add(time.Hour)}, "r5 r4 r3 r2"},
		{"until", ledger.AllTenants(), ledger.RunFilter{Until: start.Add(time.Hour)}, "r1 r0"},
		{"by", ledger.AllTenants(), ledger.RunFilter{By: "bob"}, ""},
		{"all at once", ledger.Tenants("b"), ledger.RunFilter{Playbook: "backup", Phase: ledger.PhaseFinished, Outcome: core.Failed, Host: "host-1", By: "alice", Since: start, Until: start.Add(time.Hour)}, "r1"},
	} {
		for _, limit := range []int{1, 2, 100} {
			got := pages(t, limit, func(p ledger.Page) ([]ledger.Run, string, error) { return l.Runs(t.Context(), tc.scope, tc.f, p) })
			if runIDs(got) != tc.want {
				t.Errorf("%s by %d: %s, expected %s", tc.name, limit, runIDs(got), tc.want)
			}
		}
	}
	got := pages(t, 2, func(p ledger.Page) ([]ledger.Run, string, error) { return l.Unfinished(t.Context(), p) })
	if runIDs(got) != "r4 r3 r0 r2 r5" {
		t.Errorf("unfinished: %s", runIDs(got))
	}
	_, _, err := l.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{Outcome: "1=1; --"}, ledger.Page{})
	wantErr(t, err, core.ErrInvalid, "an outcome that is none")
}

func testForeignCursors(t *testing.T, b *backend) {
	l := b.open(t)
	for i := range 2 {
		accept(t, l, newRun(fmt.Sprint("r", i), "", 1))
	}
	_, cursor, err := l.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Limit: 1})
	if err != nil || cursor == "" {
		t.Fatal(cursor, err)
	}
	_, _, err = l.AuditLog(t.Context(), ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{Cursor: cursor})
	wantErr(t, err, core.ErrInvalid, "a cursor of another list")
	for _, bad := range []string{"x", "e30", "bnVsbA", strings.Repeat("A", 9999), "\x00"} {
		_, _, err = l.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Cursor: bad})
		wantErr(t, err, core.ErrInvalid, "cursor "+bad)
		_, _, err = l.Tokens(t.Context(), ledger.AllTenants(), ledger.TokenFilter{}, ledger.Page{Cursor: bad})
		wantErr(t, err, core.ErrInvalid, "cursor "+bad)
	}
	if runs, _, err := l.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Limit: -5}); err != nil || len(runs) != 2 {
		t.Errorf("a limit below 1: %d, %v", len(runs), err)
	}
}

// Rows outside a scope are not found, by any method that takes one.
func testScope(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	n := newRun("r1", "provider", 2) // hosts of the customers a and b
	n.Approvals = 1
	accept(t, l, n)
	must[ledger.Run](t)(l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true}))
	record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1}, ledger.Outcome{Index: 1, Outcome: core.Failed, Attempt: 1})
	must[ledger.Output](t)(l.PutOutput(ctx, core.JobID{Run: "r1"}, "out", strings.NewReader("text")))
	_, token, err := l.NewToken(ctx, "root", ledger.Token{Name: "t", Tenant: "provider"})
	if err != nil {
		t.Fatal(err)
	}
	doc := must[ledger.Document](t)(l.PutDocument(ctx, ledger.AllTenants(), "alice", ledger.Document{Kind: "k", Tenant: "provider", Name: "n"}, 0))

	j0, j1 := core.JobID{Run: "r1", Index: 0}, core.JobID{Run: "r1", Index: 1}
	calls := []struct {
		name string
		call func(ledger.Scope) error
		own  bool // customer a may, for job 0 ran on its host
	}{
		{"Run", func(s ledger.Scope) error { _, err := l.Run(ctx, s, "r1"); return err }, false},
		{"Jobs", func(s ledger.Scope) error {
			_, _, err := l.Jobs(ctx, s, "r1", ledger.JobFilter{}, ledger.Page{})
			return err
		}, true},
		{"Job 0", func(s ledger.Scope) error { _, err := l.Job(ctx, s, j0); return err }, true},
		{"Job 1", func(s ledger.Scope) error { _, err := l.Job(ctx, s, j1); return err }, false},
		{"Detail", func(s ledger.Scope) error { _, err := l.Detail(ctx, s, j1); return err }, false},
		{"JobDetail", func(s ledger.Scope) error { _, _, err := l.JobDetail(ctx, s, j1); return err }, false},
		{"Attempts", func(s ledger.Scope) error { _, err := l.Attempts(ctx, s, j1); return err }, false},
		{"Outputs", func(s ledger.Scope) error { _, err := l.Outputs(ctx, s, j0); return err }, true},
		{"Outputs 1", func(s ledger.Scope) error { _, err := l.Outputs(ctx, s, j1); return err }, false},
		{"OpenOutput", func(s ledger.Scope) error {
			r, _, err := l.OpenOutput(ctx, s, j0, "out", 0, -1)
			if err == nil {
				_ = r.Close()
			}
			return err
		}, true},
		{"Decisions", func(s ledger.Scope) error { _, err := l.Decisions(ctx, s, "r1"); return err }, false},
		{"Document", func(s ledger.Scope) error { _, err := l.Document(ctx, s, "k", "provider", "n"); return err }, false},
		{"RevokeToken", func(s ledger.Scope) error { _, err := l.RevokeToken(ctx, s, "x", token.ID); return err }, false},
	}
	for _, c := range calls {
		if c.name != "RevokeToken" {
			if err := c.call(ledger.Tenants("provider")); err != nil {
				t.Errorf("%s in scope: %v", c.name, err)
			}
		}
		for _, s := range []ledger.Scope{{}, ledger.Tenants(), ledger.Tenants("c", ""), ledger.Tenants("c")} {
			wantErr(t, c.call(s), core.ErrNotFound, c.name+" out of scope")
		}
		if err := c.call(ledger.Tenants("a")); (err == nil) != c.own {
			t.Errorf("%s by customer a: %v", c.name, err)
		}
	}
	out := ledger.Tenants("a")
	_, err = l.SetPhase(ctx, out, "eve", "r1", ledger.PhasePaused, "")
	wantErr(t, err, core.ErrNotFound, "SetPhase")
	_, err = l.Cancel(ctx, out, "eve", "r1", "")
	wantErr(t, err, core.ErrNotFound, "Cancel")
	_, err = l.Amend(ctx, out, "eve", "r1", ledger.Amendment{Version: 1, New: n})
	wantErr(t, err, core.ErrNotFound, "Amend")
	_, err = l.Decide(ctx, out, "r1", ledger.Decision{Wave: 0, By: "eve", Approved: true})
	wantErr(t, err, core.ErrNotFound, "Decide")
	_, err = l.PutDocument(ctx, out, "eve", doc, doc.Version)
	wantErr(t, err, core.ErrNotFound, "PutDocument")
	wantErr(t, l.DeleteDocument(ctx, out, "eve", "k", "provider", "n", doc.Version), core.ErrNotFound, "DeleteDocument")

	count := func(scope ledger.Scope) [5]int {
		runs, _, e1 := l.Runs(ctx, scope, ledger.RunFilter{}, ledger.Page{})
		jobs, _, e2 := l.HostHistory(ctx, scope, "host-1", ledger.Page{})
		tokens, _, e3 := l.Tokens(ctx, scope, ledger.TokenFilter{}, ledger.Page{})
		docs, _, e4 := l.Documents(ctx, scope, "k", ledger.Page{})
		entries, _, e5 := l.AuditLog(ctx, scope, ledger.AuditFilter{}, ledger.Page{})
		for _, err := range []error{e1, e2, e3, e4, e5} {
			if err != nil {
				t.Error(err)
			}
		}
		return [5]int{len(runs), len(jobs), len(tokens), len(docs), len(entries)}
	}
	if got := count(ledger.Tenants("c")); got != [5]int{} {
		t.Errorf("another tenant sees %v", got)
	}
	if got := count(ledger.Tenants("b")); got != [5]int{0, 1, 0, 0, 0} {
		t.Errorf("the host's customer sees %v, expected its host's history only", got)
	}
	if got := count(ledger.AllTenants()); got != [5]int{1, 1, 1, 1, 4} {
		t.Errorf("the provider sees %v", got)
	}
}

// A list of runs in a phase reads those alone, in the order of the list. Control: most runs are
// finished, and are read as they were created.
func TestRunsInAPhaseAreReadAlone(t *testing.T) {
	l := open(t, ledger.Memory)
	for _, c := range []struct {
		scope ledger.Scope
		phase ledger.Phase
		want  string
	}{
		{ledger.AllTenants(), ledger.PhaseStopped, "SEARCH runs USING INDEX runs_phase (phase=?)"},
		{ledger.Tenants("a"), ledger.PhaseStopped, "SEARCH runs USING INDEX runs_phase (phase=?)"},
		{ledger.AllTenants(), ledger.PhaseFinished, "SCAN runs USING INDEX runs_created"},
	} {
		plan, err := l.PlanOfRuns(t.Context(), c.scope, ledger.RunFilter{Phase: c.phase})
		if err != nil || !strings.Contains(plan, c.want) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: %s, %v: expected %s", c.phase, plan, err, c.want)
		}
	}
}

// A list of runs with an outcome reads those alone, also for one tenant among many runs of others.
// Control: without an outcome the runs are read as they were created.
func testRunsByOutcome(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "a", 1))
	record(t, l, "r1", ledger.Outcome{Outcome: core.Lost, Attempt: 1})
	if err := l.Raw(t.Context(), `INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, ended, criticality, phase, request, total, recorded, unchanged)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
		SELECT 'x' || i, CASE WHEN i % 3 = 0 THEN 'b' ELSE 'a' END, 'patch', '', 'alice', i, i, 5, 'finished', '', 1, 1, 1 FROM n`); err != nil {
		t.Fatal(err)
	}
	if l.Database() == "postgres" { // elsewhere it does so automatically; SQLite never does
		if err := l.Raw(t.Context(), `ANALYZE runs`); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(s ledger.Scope, f ledger.RunFilter) string {
		t.Helper()
		text, err := l.PlanOfRuns(t.Context(), s, f)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, s := range []ledger.Scope{ledger.AllTenants(), ledger.Tenants("a"), ledger.Tenants("a", "b")} {
		for _, o := range core.Outcomes() {
			if o == core.Unchanged && l.Database() == "postgres" {
				continue // nearly all runs have it: any index will do
			}
			if got, want := plan(s, ledger.RunFilter{Outcome: o}), "runs_"+string(o); !strings.Contains(got, want) || strings.Contains(got, "TEMP B-TREE") {
				t.Errorf("plan of runs with the outcome %s: %s, expected the index %s", o, got, want)
			}
		}
		got, _, err := l.Runs(t.Context(), s, ledger.RunFilter{Outcome: core.Lost}, ledger.Page{})
		if err != nil || len(got) != 1 || got[0].ID != "r1" {
			t.Errorf("runs with a lost job: %v, %v, expected r1", names(got), err)
		}
	}
	if got := plan(ledger.AllTenants(), ledger.RunFilter{}); !strings.Contains(got, "runs_created") {
		t.Errorf("plan of all runs: %s, expected the index runs_created", got)
	}
}
