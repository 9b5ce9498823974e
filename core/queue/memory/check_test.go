package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// broken gives a queue with one job in each of several states.
func broken(t *testing.T) (*Queue, *run) {
	t.Helper()
	q := New(Options{})
	spec := queue.Run{
		ID: "a", Targets: []queue.Target{{Host: "h"}, {Host: "h"}, {Host: "x"}, {Host: "y"}, {Host: "w"}, {Host: "late"}},
		Segments: []queue.Segment{{Count: 5}, {Due: time.Now().Add(time.Hour), Count: 1}},
	}
	if _, err := queue.SubmitOne(t.Context(), q, spec); err != nil {
		t.Fatal(err)
	}
	s, err := q.Open(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 4})
	if err != nil {
		t.Fatal(err)
	}
	l := res.Leases
	if _, err := q.Turn(t.Context(), queue.Turn{Session: s, Acks: []queue.Ack{
		{Job: l[2].Job, Token: l[2].Token, Kind: queue.AckReturn}, // so that the run has a job ready
		{Job: l[3].Job, Token: l[3].Token, Kind: queue.AckSuspend, Event: queue.EventWindow},
	}}); err != nil {
		t.Fatal(err)
	}
	if st, err := q.Status(t.Context(), "a"); err != nil || st.Deferred != 2 || st.InFlight != 2 || st.Blocked != 1 {
		t.Fatalf("to begin with: %+v, %v", st, err)
	}
	if f, err := q.Check(t.Context(), false); err != nil || len(f) > 0 {
		t.Fatalf("the queue is not sound to begin with: %v, %v", f, err)
	}
	return q, q.runs["a"]
}

// TestCheckSeesDamage is the negative control of every "Check is clean" of the suite.
func TestCheckSeesDamage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(q *Queue, r *run)
		mended bool
	}{
		{"leased count", func(_ *Queue, r *run) { r.count.leased++ }, true},
		{"blocked count", func(_ *Queue, r *run) { r.count.blocked-- }, true},
		{"queue's count", func(q *Queue, _ *run) { q.inFlight = 9 }, true},
		{"tenant's count", func(_ *Queue, r *run) { r.tenant.inFlight = 9 }, true},
		{"ended count", func(_ *Queue, r *run) { r.ended++ }, true},
		{"pending count", func(_ *Queue, r *run) { r.left-- }, true},
		{"deferred count", func(_ *Queue, r *run) { r.late++ }, true},
		{"job not listed for its event", func(_ *Queue, r *run) { delete(r.events, queue.EventWindow) }, false},
		{"job listed for an event it does not wait for", func(_ *Queue, r *run) { r.events[queue.EventWindow][r.jobs[0]] = struct{}{} }, false},
		{"lost job", func(_ *Queue, r *run) { delete(r.jobs, 0) }, false},
		{"lock of nobody", func(q *Queue, _ *run) { q.hosts["z"] = &lock{table: q.hosts, kind: "host", name: "z", places: 1} }, false},
		{"lock held by a stranger", func(q *Queue, r *run) { q.hosts["h"].held[0] = r.jobs[2] }, false},
		{"free lock with a waiter", func(q *Queue, _ *run) { q.hosts["h"].held = nil }, false},
		{"session without its job", func(_ *Queue, r *run) { r.jobs[0].session.remove(r.jobs[0]) }, false},
		{"ready run that is not listed", func(_ *Queue, r *run) { r.tenant.flows.remove(r.place) }, false},
		{"event that is not allowed", func(q *Queue, r *run) { q.move(r.jobs[0], core.EvDue) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, r := broken(t)
			tc.damage(q, r)
			findings, err := q.Check(t.Context(), true)
			if err != nil || len(findings) == 0 {
				t.Fatalf("Check found %v, %v", findings, err)
			}
			if again, _ := q.Check(t.Context(), false); tc.mended != (len(again) == 0) {
				t.Errorf("after the repair Check finds %v", again)
			}
		})
	}
}

// Random pushes, changes and removals leave a heap that gives its items in order.
func TestHeapKeepsOrder(t *testing.T) {
	type item struct{ key, place int }
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*item]{less: func(a, b *item) bool { return a.key < b.key }, place: func(i *item, at int) { i.place = at }}
		keys := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 40).Draw(t, "built")
		items := make([]*item, len(keys))
		for i, k := range keys {
			items[i] = &item{key: k}
		}
		h.build(slices.Clone(items))
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			switch op := rapid.IntRange(0, 2).Draw(t, "op"); {
			case op == 0 || len(items) == 0:
				it := &item{key: rapid.IntRange(0, 50).Draw(t, "key")}
				h.push(it)
				items = append(items, it)
			case op == 1:
				it := items[rand.IntN(len(items))]
				it.key = rapid.IntRange(0, 50).Draw(t, "key")
				h.fix(it.place)
			default:
				i := rapid.IntRange(0, len(items)-1).Draw(t, "remove")
				if got := h.remove(items[i].place); got != items[i] || got.place != -1 {
					t.Fatalf("removed %+v, expected %+v", got, items[i])
				}
				items = slices.Delete(items, i, i+1)
			}
		}
		slices.SortFunc(items, func(a, b *item) int { return a.key - b.key })
		for _, want := range items {
			if got := h.pop(); got.key != want.key {
				t.Fatalf("popped %d, expected %d", got.key, want.key)
			}
		}
	})
}
