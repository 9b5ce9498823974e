package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func change(tb testing.TB, l *ledger.Ledger, changes ...ledger.ScheduleChange) []ledger.ScheduleChanged {
	tb.Helper()
	out, err := l.ChangeSchedules(tb.Context(), changes)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func scheduled(tenant, name string, version int64, due time.Time, data string) ledger.ScheduleChange {
	return ledger.ScheduleChange{Schedule: ledger.Schedule{Tenant: tenant, Name: name, Version: version, Due: due, Data: []byte(data)}}
}

func testSchedules(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	now, err := l.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	made := scheduled("a", "one", 0, now.Add(-time.Minute), "first")
	made.Put, made.By = true, "ann"
	v := change(t, l, made, scheduled("a", "two", 0, now.Add(-time.Hour), "second"), scheduled("b", "one", 0, now.Add(time.Hour), "third"), scheduled("b", "never", 0, time.Time{}, "fourth"))
	due, err := l.DueSchedules(ctx, 10)
	if err != nil || len(due.Rows) != 2 || due.Rows[0].Name != "two" || string(due.Rows[1].Data) != "first" || due.Rows[1].By != "ann" || due.Rows[1].Edition != v[0].Version || due.Rows[0].Edition != 0 {
		t.Fatalf("%+v, %v", due, err)
	}
	if due.Now.Before(now) || !due.Next.IsZero() {
		t.Errorf("%+v", due)
	}
	if one, err := l.DueSchedules(ctx, 1); err != nil || len(one.Rows) != 1 || one.Rows[0].Name != "two" {
		t.Errorf("the one due longest: %+v, %v", one, err)
	}
	// A version that is not there changes nothing; what is there already is not made; of one row one
	// change counts.
	again := scheduled("a", "one", v[0].Version, now.Add(2*time.Hour), "newer")
	got := change(t, l, scheduled("a", "one", v[0].Version+7, now, "x"), scheduled("a", "two", 0, now, "x"), scheduled("a", "gone", 5, now, "x"), again, again)
	if got[0].Version != 0 || got[1].Version != 0 || got[2].Version != 0 || got[3].Version != v[0].Version+1 || got[4].Version != 0 {
		t.Errorf("%+v", got)
	}
	if err := l.PostponeSchedule(ctx, due.Rows[0], now.Add(30*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if due, err = l.DueSchedules(ctx, 10); err != nil || len(due.Rows) != 0 || !due.Next.Equal(now.Add(30*time.Minute)) {
		t.Errorf("%+v, %v", due, err)
	}
	// Only one that waits becomes due.
	waits := scheduled("b", "one", v[2].Version, now.Add(time.Hour), "third")
	waits.Waits = true
	change(t, l, waits)
	for _, name := range []string{"two", "one"} {
		made, err := l.MakeSchedulesDue(ctx, [][2]string{{"b", name}, {"a", name}})
		if due, _ = l.DueSchedules(ctx, 10); err != nil || made != (name == "one") || len(due.Rows) > 0 != made {
			t.Errorf("%s: made due %v, %v, %+v", name, made, err, due)
		}
	}
	list := func(s ledger.Scope) (names []string) {
		for page := (ledger.Page{Limit: 1}); ; {
			all, next, err := l.Schedules(ctx, s, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				names = append(names, one.Tenant+"/"+one.Name)
			}
			if page.Cursor = next; next == "" {
				return names
			}
		}
	}
	if all, own := list(ledger.AllTenants()), list(ledger.Tenants("b")); !slices.Equal(all, []string{"a/one", "a/two", "b/never", "b/one"}) || !slices.Equal(own, []string{"b/never", "b/one"}) {
		t.Errorf("%v, %v", all, own)
	}
	if _, err := l.Schedule(ctx, ledger.Tenants("b"), "a", "one"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	// A version never comes again.
	last := got[3].Version
	gone := scheduled("a", "one", last, now, "")
	gone.Delete = true
	change(t, l, gone)
	if v := change(t, l, scheduled("a", "one", 0, now, "anew")); v[0].Version <= last {
		t.Errorf("version %d comes after %d", v[0].Version, last)
	}
	// On a basis.
	doc, err := l.PutDocument(ctx, ledger.AllTenants(), "ann", ledger.Document{Kind: "k", Name: "n", Data: []byte("d")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{doc.Version + 1, doc.Version} {
		_, err := l.ChangeSchedules(ctx, []ledger.ScheduleChange{scheduled("c", "one", 0, now, "x")}, ledger.Basis{Kind: "k", Name: "n", Version: version})
		if _, missing := l.Schedule(ctx, ledger.AllTenants(), "c", "one"); errors.Is(err, core.ErrConflict) != (version != doc.Version) || (missing == nil) != (err == nil) {
			t.Errorf("basis %d of %d: %v, %v", version, doc.Version, err, missing)
		}
	}
	if _, err := l.ChangeSchedules(ctx, []ledger.ScheduleChange{scheduled("a", "big", 0, now, strings.Repeat("x", ledger.MaxSchedule+1))}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

// Runs are accepted with the changes that win, each with its own answer; the row is made of the
// answers.
func testSchedulesAccept(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	accept(t, l, newRun("taken", "a", 1))
	accept(t, l, newRun("old", "a", 2))
	accept(t, l, newRun("stays", "a", 1))
	v := change(t, l, scheduled("a", "s0", 0, time.Time{}, ""), scheduled("a", "s1", 0, time.Time{}, ""), scheduled("a", "s2", 0, time.Time{}, ""))
	bad, other := newRun("bad", "a", 1), newRun("taken", "a", 3)
	bad.Playbook = ""
	var changes []ledger.ScheduleChange
	for i, runs := range [][]ledger.NewRun{{newRun("new", "a", 1), bad, other, newRun("new", "a", 1)}, {newRun("never", "a", 1)}, {newRun("new", "a", 1), newRun("waits", "a", 1)}} {
		c := scheduled("a", fmt.Sprint("s", i), v[i].Version, time.Time{}, "")
		c.Runs, c.Cancel, c.Reason = runs, []string{"old", "nobody"}, "because"
		c.Finish = func(answers []ledger.Accepted) ledger.Schedule {
			var text []string
			for _, a := range answers {
				text = append(text, fmt.Sprint(a.Run.ID, a.Created, errors.Is(a.Err, core.ErrInvalid), errors.Is(a.Err, core.ErrConflict)))
			}
			return ledger.Schedule{Data: []byte(strings.Join(text, " "))}
		}
		changes = append(changes, c)
	}
	changes[0].Note = &ledger.Entry{Who: "bob", Tenant: "a", Action: "schedule.trigger", Kind: "schedule", Subject: "s0"}
	changes[0].Cancel = []string{"stays"} // two of its runs are refused
	changes[1].Version++
	changes[2].Runs[1].Approvals = 1
	got := change(t, l, changes...)
	if len(got[0].Runs) != 4 || got[1].Version != 0 || len(got[2].Runs) != 2 || got[2].Runs[1].Run.Phase != ledger.PhaseAwaiting {
		t.Fatalf("%+v", got)
	}
	for name, want := range map[string]string{"s0": "newtrue false false false true false false false true newfalse false false", "s1": "", "s2": "newfalse false false waitstrue false false"} {
		if s, err := l.Schedule(ctx, ledger.AllTenants(), "a", name); err != nil || string(s.Data) != want {
			t.Errorf("%s is %q, expected %q, %v", name, s.Data, want, err)
		}
	}
	if _, err := l.Run(ctx, ledger.AllTenants(), "never"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("the run of a change that lost: %v", err)
	}
	if old, err := l.Run(ctx, ledger.AllTenants(), "old"); err != nil || old.Phase != ledger.PhaseCancelled || old.Reason.Text() != "because" || !old.Complete() {
		t.Errorf("%+v, %v", old, err)
	}
	if open, err := l.Open(ctx, []string{"old", "stays", "new", "never", "waits"}); err != nil || len(open) != 3 || !open["stays"] || !open["new"] || !open["waits"] {
		t.Errorf("%v, %v", open, err)
	}
	if m, err := l.Material(ctx, "new"); err != nil || len(m.Jobs) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{Limit: 3})
	if err != nil || entries[2].Action != "schedule.trigger" || entries[1].Subject != "new" || entries[0].Subject != "waits" {
		t.Errorf("the audit log ends with %+v, %v", entries, err)
	}
	if _, err := l.VerifyAudit(ctx); err != nil {
		t.Error(err)
	}
}

// Servers that change the same rows at the same time, in any order, lose no change and make none
// twice.
func testSchedulesRace(t *testing.T, b *backend) {
	l := b.open(t)
	const rows, rounds = 20, 15
	var made []ledger.ScheduleChange
	for i := range rows {
		made = append(made, scheduled("a", fmt.Sprint("s", i), 0, time.Time{}, "0"))
	}
	first := map[string]int64{}
	for i, m := range change(t, l, made...) {
		first[made[i].Name] = m.Version
	}
	var mu sync.Mutex
	var servers sync.WaitGroup
	won := map[string]int{}
	for n := range 4 {
		servers.Go(func() {
			for round := range rounds {
				all, _, err := l.Schedules(t.Context(), ledger.AllTenants(), ledger.Page{})
				if err != nil {
					t.Error(err)
					return
				}
				if n%2 == 0 {
					slices.Reverse(all)
				}
				var changes []ledger.ScheduleChange
				for _, s := range all {
					s.Data = fmt.Appendf(nil, "%d of %d", round, n)
					changes = append(changes, ledger.ScheduleChange{Schedule: s, Runs: []ledger.NewRun{newRun(fmt.Sprint(s.Name, "-", s.Version), "a", 1)}})
				}
				out, err := l.ChangeSchedules(t.Context(), changes)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range out {
					if out[i].Version == 0 {
						continue
					}
					if won[all[i].Name]++; !out[i].Runs[0].Created || out[i].Runs[0].Err != nil {
						t.Errorf("%+v", out[i])
					}
				}
				mu.Unlock()
			}
		})
	}
	servers.Wait()
	all, _, err := l.Schedules(t.Context(), ledger.AllTenants(), ledger.Page{})
	if err != nil || len(all) != rows {
		t.Fatal(len(all), err)
	}
	total := 0
	for _, s := range all {
		n := won[s.Name]
		total += n
		if s.Version-int64(n) != first[s.Name] || n == 0 {
			t.Errorf("%s has version %d after %d changes, and had %d", s.Name, s.Version, n, first[s.Name])
		}
	}
	if runs, _, err := l.Unfinished(t.Context(), ledger.Page{Limit: ledger.MaxPage}); err != nil || len(runs) != min(total, ledger.MaxPage) {
		t.Errorf("%d runs of %d changes, %v", len(runs), total, err)
	}
}

// Two servers cancel the same runs at the same time, in opposite orders: no deadlock.
func testSchedulesCancel(t *testing.T, b *backend) {
	l := b.open(t)
	const rounds, runs = 2, 30
	for round := range rounds {
		var cancels []string
		for i := range runs {
			id := fmt.Sprintf("r%d-%d", round, i)
			accept(t, l, newRun(id, "a", 1))
			cancels = append(cancels, id)
		}
		var servers sync.WaitGroup
		for n := range 2 {
			var changes []ledger.ScheduleChange
			for _, id := range cancels {
				c := scheduled("a", fmt.Sprint("s", n, "-", id), 0, time.Time{}, "")
				c.Cancel, c.Reason = []string{id}, "because"
				changes = append(changes, c)
			}
			slices.Reverse(cancels)
			servers.Go(func() {
				if _, err := l.ChangeSchedules(t.Context(), changes); err != nil {
					t.Error(err)
				}
			})
		}
		servers.Wait()
		if open, err := l.Open(t.Context(), cancels); err != nil || len(open) > 0 {
			t.Errorf("%d of %d runs are not cancelled, %v", len(open), runs, err)
		}
	}
}
