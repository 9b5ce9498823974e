package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
)

// pages checks what a store has in Redis, and returns how many pages there are.
func pages(t *testing.T, c *goredis.Client, space string) int {
	t.Helper()
	ctx := t.Context()
	name := func(s string) string { return "{schedules/0}:" + space + ":" + s }
	index, err := c.ZRange(ctx, name("index"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	var firsts, numbers []string
	for _, m := range index {
		first, no, _ := strings.Cut(m, "\x00")
		firsts, numbers = append(firsts, first), append(numbers, no)
	}
	known := map[string]bool{name("clock"): true, name("index"): true, name("heads"): true, name("wake"): true}
	for i, no := range numbers {
		known[name("p"+no)], known[name("d"+no)] = true, true
		dues := c.ZRangeWithScores(ctx, name("d"+no), 0, -1).Val()
		records := c.LRange(ctx, name("p"+no), 0, -1).Val()
		if len(dues) == 0 || len(dues) > 64 || len(records) > 64 {
			t.Errorf("page %s has %d records at %d places", no, len(dues), len(records))
		}
		slots, head := map[int64]bool{}, int64(1<<43)
		for _, z := range dues {
			key := z.Member.(string)
			if key < firsts[i] || i+1 < len(firsts) && key >= firsts[i+1] {
				t.Errorf("%q is in page %s, which begins at %q", key, no, firsts[i])
			}
			slot := int64(z.Score) % 64
			if slots[slot] || slot >= int64(len(records)) || len(records[slot]) < 7 {
				t.Errorf("%q is at place %d of %d of page %s, which is taken or empty", key, slot, len(records), no)
			}
			slots[slot], head = true, min(head, int64(z.Score)/64)
		}
		if got, err := c.ZScore(ctx, name("heads"), no).Result(); (err == nil) != (head < 1<<43) || err == nil && int64(got) != head {
			t.Errorf("page %s is due at %v (%v), its earliest record at %d", no, got, err, head)
		}
	}
	for _, k := range c.Keys(ctx, name("*")).Val() {
		if !known[k] {
			t.Errorf("%s belongs to no page", k)
		}
	}
	return len(numbers)
}

// TestPages: random records come, change and go, of ids in order and in none; the store says what
// the model does, and its pages are sound.
func TestPages(t *testing.T) {
	t.Parallel()
	user, c := startClients(t)
	real, model := newStore(t, user, "x"), memory.New()
	rnd := rand.New(rand.NewPCG(1, 2))
	versions := map[schedule.ID][2]uint64{} // real, model
	var ids []schedule.ID
	for i := range 1500 {
		ids = append(ids, schedule.ID{Tenant: fmt.Sprintf("t%d", i%7/3), Name: fmt.Sprintf("n-%04d", i)})
	}
	ids = append(ids, schedule.ID{Name: "Ä"}, schedule.ID{Name: "~"}, schedule.ID{Name: "!"}, schedule.ID{Tenant: strings.Repeat("ü", 24), Name: strings.Repeat("z", 56)})
	write := func(batch []schedule.ID, remove bool) {
		t.Helper()
		var got [2][]uint64
		var changes [2][]schedule.Change
		for _, id := range batch {
			ch := schedule.Change{ID: id, Data: fmt.Appendf(nil, "%s %d", id, rnd.IntN(1000)), Delete: remove}
			if rnd.IntN(4) > 0 {
				ch.Due = time.Now().Add(time.Hour + time.Duration(rnd.IntN(1000))*time.Second)
			}
			for k := range 2 {
				ch.Version = versions[id][k]
				changes[k] = append(changes[k], ch)
			}
		}
		for k, s := range []schedule.Store{real, model} {
			v, err := s.Write(t.Context(), changes[k])
			if err != nil || slices.Contains(v, 0) {
				t.Fatal(v, err)
			}
			got[k] = v
		}
		for i, id := range batch {
			if versions[id] = [2]uint64{got[0][i], got[1][i]}; remove {
				delete(versions, id)
			}
		}
	}
	compare := func() {
		t.Helper()
		if a, b := listed(t, real, 50), listed(t, model, 256); !slices.Equal(a, b) {
			t.Fatalf("%d records, the model has %d, or they differ", len(a), len(b))
		}
	}
	for part := range slices.Chunk(ids[:500], 100) { // in order
		write(part, false)
	}
	t.Logf("%d pages of 500 records in order", pages(t, c, "x"))
	rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for part := range slices.Chunk(ids, 37) { // creates and changes
		write(part, false)
	}
	t.Logf("%d pages of %d records", pages(t, c, "x"), len(ids))
	compare()
	for round := range 4 {
		gone := ids[round*300 : (round+1)*300]
		for part := range slices.Chunk(gone, 50) {
			write(part, true)
		}
		pages(t, c, "x")
		compare()
		write(gone[:200], false)
		pages(t, c, "x")
		compare()
		write(gone[:200], true)
	}
	for part := range slices.Chunk(ids[1200:], 50) {
		write(part, true)
	}
	if n := pages(t, c, "x"); n != 0 {
		t.Errorf("%d pages are left of nothing", n)
	}
}

// listed is every record, with its due time.
func listed(t *testing.T, s schedule.Store, most int) []string {
	t.Helper()
	var all []string
	for cursor, n := "", 0; ; n++ {
		l, err := s.List(t.Context(), schedule.Page{All: true, Limit: most, Cursor: cursor})
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
		for _, r := range l.Records {
			all = append(all, fmt.Sprint(r.ID, r.Due.UnixMilli(), string(r.Data)))
		}
		if cursor = l.Next; cursor == "" {
			slices.Sort(all)
			return all
		}
	}
}

// TestManyDue: a backlog of all pages comes out oldest first, each record once, with the next due
// time right at every step.
func TestManyDue(t *testing.T) {
	t.Parallel()
	user, c := startClients(t)
	s := newStore(t, user, "x")
	const n = 1000
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	due := map[schedule.ID]time.Time{}
	var changes []schedule.Change
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		id := schedule.ID{Tenant: "t", Name: fmt.Sprint(i)}
		due[id] = start.Add(time.Duration(rnd.IntN(300)) * time.Second)
		changes = append(changes, schedule.Change{ID: id, Due: due[id]})
	}
	for part := range slices.Chunk(changes, schedule.MaxBatch) {
		if _, err := s.Write(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	last, left := start, n
	for left > 0 {
		most := 1 + rnd.IntN(100)
		got, err := s.Take(t.Context(), most, time.Hour)
		if err != nil || len(got.Records) != min(most, left) {
			t.Fatalf("%d of at most %d, %d left, %v", len(got.Records), most, left, err)
		}
		for _, r := range got.Records {
			was := due[r.ID]
			if was.IsZero() || was.Before(last) {
				t.Fatalf("%s was due at %v, after one of %v", r.ID, was, last)
			}
			last = was
			delete(due, r.ID)
			left--
		}
		next := got.Records[0].Due // of those that were taken before
		for _, d := range due {
			if d.Before(next) {
				next = d
			}
		}
		if got.More != (left > 0) || left > 0 && !got.Next.Equal(next) {
			t.Fatalf("next is %v, more %v, expected %v with %d left", got.Next, got.More, next, left)
		}
	}
	if n := pages(t, c, "x"); n < n/64 {
		t.Errorf("%d pages", n)
	}
}

// TestSmall: what is kept is small as long as Redis keeps pages as listpacks, which it does by its defaults.
func TestSmall(t *testing.T) {
	t.Parallel()
	user, c := startClients(t)
	s := newStore(t, user, "x")
	var changes []schedule.Change
	for i := range 200 {
		changes = append(changes, schedule.Change{ID: schedule.ID{Tenant: "customer", Name: fmt.Sprintf("backup-%08d", i)}, Due: time.Now().Add(time.Hour), Data: make([]byte, 150)})
	}
	if _, err := s.Write(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		if e, err := c.ObjectEncoding(t.Context(), fmt.Sprintf("{schedules/0}:x:d%d", i)).Result(); err != nil || e != "listpack" {
			t.Errorf("due times of page %d are a %s (%v)", i, e, err)
		}
	}
}
