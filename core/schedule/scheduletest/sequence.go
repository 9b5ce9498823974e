package scheduletest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
)

// sequences makes random calls on the subject and on the memory store, and compares what they say.
// Time does not come into it: what is due was due long ago, what is held is held for an hour.
func (s Subject) sequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{T: t, got: s.Open(t), want: memory.New(), versions: map[schedule.ID][][2]uint64{}}
		t.Repeat(map[string]func(*rapid.T){"write": p.write, "take": p.take, "get": p.get, "list": p.list})
	})
}

// pair is two stores that had the same calls. Versions are each store's own.
type pair struct {
	*rapid.T
	got, want schedule.Store
	versions  map[schedule.ID][][2]uint64 // every one that was given
	due       int
}

func (p *pair) anyID() schedule.ID {
	return schedule.ID{Tenant: rapid.SampledFrom([]string{"", "acme"}).Draw(p.T, "tenant"), Name: fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(p.T, "name"))}
}

func (p *pair) write(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "changes")
	var got, want []schedule.Change
	for range n {
		a, b := p.change(t)
		got, want = append(got, a), append(want, b)
	}
	gv, gerr := p.got.Write(context.Background(), got)
	wv, werr := p.want.Write(context.Background(), want)
	if gerr != nil || werr != nil {
		t.Fatalf("write: %v, expected %v", gerr, werr)
	}
	for i := range gv {
		if (gv[i] == 0) != (wv[i] == 0) {
			t.Fatalf("change %d (%+v) gives version %d, expected %d", i, got[i], gv[i], wv[i])
		}
		if gv[i] != 0 {
			p.versions[got[i].ID] = append(p.versions[got[i].ID], [2]uint64{gv[i], wv[i]})
		}
	}
}

// change is one that may be right or out of date.
func (p *pair) change(t *rapid.T) (got, want schedule.Change) {
	c := schedule.Change{ID: p.anyID()}
	var v [2]uint64
	if known := p.versions[c.ID]; len(known) > 0 && rapid.IntRange(0, 9).Draw(t, "new") > 0 {
		back := rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3}).Draw(t, "back")
		v = known[max(0, len(known)-back)]
	}
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && v[0] != 0:
		c.Delete = true
	case kind == 1 && v[0] != 0:
		c.Keep = true
	default:
		c.Data = rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "data")
	}
	switch rapid.IntRange(0, 3).Draw(t, "due") {
	case 0:
		p.due++ // each its own, so that the order is given
		c.Due = time.Date(1999, 1, 1, 0, 0, p.due*rapid.SampledFrom([]int{1, -1}).Draw(t, "sign"), 0, time.UTC)
	case 1:
		c.Hold = time.Hour
	case 2:
		c.Due = time.Date(2190, 1, 1, 0, 0, 0, p.due*int(time.Millisecond), time.UTC)
	}
	got, want = c, c
	got.Version, want.Version = v[0], v[1]
	return got, want
}

func (p *pair) take(t *rapid.T) {
	n := rapid.IntRange(1, 5).Draw(t, "most")
	got, err := p.got.Take(context.Background(), n, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.want.Take(context.Background(), n, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got.More != want.More || got.Next.IsZero() != want.Next.IsZero() {
		t.Fatalf("more %v, next %v; expected %v, %v", got.More, got.Next, want.More, want.Next)
	}
	p.same(t, got.Records, want.Records)
	for i, r := range got.Records {
		p.versions[r.ID] = append(p.versions[r.ID], [2]uint64{r.Version, want.Records[i].Version})
	}
}

func (p *pair) get(t *rapid.T) {
	ids := []schedule.ID{p.anyID(), p.anyID(), p.anyID()}
	got, err := p.got.Get(context.Background(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.want.Get(context.Background(), ids)
	if err != nil {
		t.Fatal(err)
	}
	p.same(t, got.Records, want.Records)
}

func (p *pair) list(t *rapid.T) {
	page := schedule.Page{All: rapid.Bool().Draw(t, "all"), Tenant: "acme", Limit: rapid.IntRange(1, 20).Draw(t, "max")}
	got, want := all(t, p.got, page), all(t, p.want, page)
	if len(got) != len(want) {
		t.Fatalf("lists %d, expected %d", len(got), len(want))
	}
	for id, w := range want {
		p.same(t, []schedule.Record{got[id]}, []schedule.Record{w})
	}
}

func all(t *rapid.T, s schedule.Store, p schedule.Page) map[schedule.ID]schedule.Record {
	out := map[schedule.ID]schedule.Record{}
	for {
		got, err := s.List(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Records {
			out[r.ID] = r
		}
		if got.Next == "" {
			return out
		}
		p.Cursor = got.Next
	}
}

// same compares records, but for the versions, whose order is each store's, and the ends of holds.
func (p *pair) same(t *rapid.T, got, want []schedule.Record) {
	if len(got) != len(want) {
		t.Fatalf("%d records, expected %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		held := g.Due.Year() != 1999 && g.Due.Year() != 1998 && g.Due.Year() != 2190
		if g.ID != w.ID || string(g.Data) != string(w.Data) || g.Due.IsZero() != w.Due.IsZero() || !held && !g.Due.Equal(w.Due) {
			t.Fatalf("record %d is %+v, expected %+v", i, g, w)
		}
		known := p.versions[g.ID]
		if n := len(known); n > 0 && g.Version < known[n-1][0] {
			t.Fatalf("version %d of %s after %d", g.Version, g.ID, known[n-1][0])
		}
	}
}
