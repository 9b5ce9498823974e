package schedulebench

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
)

// TestFill: schedules are made as said, are not due for two hours, and get a history that can be read.
func TestFill(t *testing.T) {
	t.Parallel()
	store := memory.New()
	began, err := store.Get(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fill, err := Put(t.Context(), store, 2*tenants, nil)
	if err != nil || fill.Schedules != 2*tenants || fill.PerSecond <= 0 {
		t.Fatal(fill, err)
	}
	taken, err := store.Take(t.Context(), 1, time.Second)
	if err != nil || len(taken.Records) > 0 || taken.Next.Before(began.Now.Add(nearest-time.Minute)) || taken.Next.After(taken.Now.Add(farthest)) {
		t.Errorf("the first is due at %v, it is %v (%v)", taken.Next, taken.Now, err)
	}
	aged, err := Age(t.Context(), store, 2*tenants)
	if err != nil || aged != 2*tenants/10 {
		t.Fatal(aged, err)
	}
	n := 0
	for cursor := ""; ; {
		l, err := store.List(t.Context(), schedule.Page{All: true, Limit: schedule.MaxBatch, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.Records {
			if len(r.ID.String()) != 24 {
				t.Fatalf("id %s has %d bytes", r.ID, len(r.ID.String()))
			}
			d, s, err := schedule.Decode(r.ID, r.Data)
			if err != nil || len(d.Payload) < 40 {
				t.Fatal(d, err)
			}
			if len(s.Last) == schedule.MaxLast && len(s.Active) == 1 {
				n++
			}
		}
		if cursor = l.Next; cursor == "" {
			break
		}
	}
	if n != aged {
		t.Errorf("%d have a history, expected %d", n, aged)
	}
}
