package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

var readTests = []test{
	{"GetKeepsTheOrderAsked", func(f *fixture) {
		for i := range 4 {
			f.create(id(i), time.Time{}, fmt.Sprint(i))
		}
		read, err := f.Get(f.Context(), []schedule.ID{id(3), id(9), id(1), id(3), {Name: "s-1"}})
		f.ok(err)
		var got strings.Builder
		for _, r := range read.Records {
			got.Write(r.Data)
		}
		if got.String() != "313" {
			f.Fatalf("got %q, expected 3, 1, 3", got.String())
		}
		f.want(id(1), read.Records[1].Version, "1") // reading changes no version
		if _, err := f.Get(f.Context(), make([]schedule.ID, schedule.MaxBatch+1)); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("too many: %v", err)
		}
		if _, err := f.Get(f.Context(), []schedule.ID{{Name: "a/b"}}); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("a wrong name: %v", err)
		}
	}},
	{"NamesDoNotMix", func(f *fixture) { // whatever a store makes keys of
		names := []schedule.ID{{Name: "a"}, {Tenant: "a", Name: "a"}, {Tenant: "b", Name: "a"}, {Tenant: "a", Name: "b"}, {Name: "{a}"}, {Name: "a}{b"}, {Name: "a*"},
			{Name: "a%3Ab"}, {Name: "ä"}, {Name: "a\u0308"}, {Tenant: "a-a", Name: "a"}, {Tenant: "a", Name: "a-a"}, {Name: "A"}, {Name: `a\x00`}}
		for i, n := range names {
			f.create(n, time.Time{}, fmt.Sprint(i))
		}
		for i, n := range names {
			if r, ok := f.read(n); !ok || r.ID != n || string(r.Data) != fmt.Sprint(i) {
				f.Errorf("%q holds %+v", n, r)
			}
		}
	}},
	{"ListGivesEachOnce", func(f *fixture) {
		const n = 500
		tenants := []string{"", "acme", "beta"}
		for i := 0; i < n; i += 100 {
			var all []schedule.Change
			for k := i; k < i+100; k++ {
				all = append(all, schedule.Change{ID: schedule.ID{Tenant: tenants[k%3], Name: fmt.Sprintf("s%d", k)}, Data: []byte("x")})
			}
			f.write(all...)
		}
		for _, size := range []int{1, 7, schedule.MaxBatch} {
			if got := f.list(schedule.Page{All: true, Limit: size}); len(got) != n {
				f.Fatalf("pages of %d list %d of %d", size, len(got), n)
			}
		}
		for i, tenant := range tenants {
			got := f.list(schedule.Page{Tenant: tenant, Limit: 50})
			if want := (n - i + 2) / 3; len(got) != want {
				f.Errorf("tenant %q lists %d, expected %d", tenant, len(got), want)
			}
			for id := range got {
				if id.Tenant != tenant {
					f.Errorf("tenant %q lists %s", tenant, id)
				}
			}
		}
		if got := f.list(schedule.Page{Tenant: "nobody", Limit: 5}); len(got) != 0 {
			f.Errorf("a tenant without any lists %v", got)
		}
	}},
	{"ListWhileOthersWrite", func(f *fixture) {
		const n = 300
		var versions []uint64
		for i := range n {
			versions = append(versions, f.create(id(i), time.Time{}, "stays"))
		}
		p := schedule.Page{All: true, Limit: 10}
		seen := map[schedule.ID]int{}
		for page := 0; ; page++ {
			got, err := f.List(f.Context(), p)
			f.ok(err)
			for _, r := range got.Records {
				seen[r.ID]++
			}
			if got.Next == "" {
				break
			}
			p.Cursor = got.Next
			f.create(id(1000+page), time.Time{}, "new")
			if page < n/2 { // of those that are deleted nothing is promised
				f.write(schedule.Change{ID: id(page * 2), Version: versions[page*2], Delete: true})
				f.write(schedule.Change{ID: id(page*2 + 1), Version: versions[page*2+1], Data: []byte("changed")})
			}
			if page > 10*n {
				f.Fatal("the listing does not end")
			}
		}
		for i := 1; i < n; i += 2 {
			if seen[id(i)] != 1 {
				f.Fatalf("%s was listed %d times", id(i), seen[id(i)])
			}
		}
	}},
	{"ListRefuses", func(f *fixture) {
		for _, p := range []schedule.Page{{Limit: 0}, {Limit: schedule.MaxBatch + 1}, {Limit: -1}, {All: true, Limit: 1, Cursor: "what is this?"}} {
			if _, err := f.List(f.Context(), p); !errors.Is(err, core.ErrInvalid) {
				f.Errorf("page %+v: got %v, expected core.ErrInvalid", p, err)
			}
		}
	}},
	{"AnEndedContextEndsCalls", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		_, take := f.Take(ctx, 1, time.Second)
		_, write := f.Write(ctx, []schedule.Change{{ID: id(1)}})
		_, get := f.Get(ctx, []schedule.ID{id(1)})
		_, list := f.List(ctx, schedule.Page{All: true, Limit: 1})
		for name, err := range map[string]error{"take": take, "write": write, "get": get, "list": list, "wait": f.Wait(ctx, f.now().Add(time.Hour))} {
			if err == nil {
				f.Errorf("%s gives no error", name)
			}
		}
	}},
}

// list reads all pages, and fails if one record comes twice.
func (f *fixture) list(p schedule.Page) map[schedule.ID]bool {
	f.Helper()
	out := map[schedule.ID]bool{}
	for pages := 0; ; pages++ {
		got, err := f.List(f.Context(), p)
		f.ok(err)
		if len(got.Records) > p.Limit || pages > 10_000 {
			f.Fatalf("page %d has %d records, expected at most %d", pages, len(got.Records), p.Limit)
		}
		for _, r := range got.Records {
			if out[r.ID] {
				f.Fatalf("%s is listed twice", r.ID)
			}
			if out[r.ID] = true; r.Version == 0 || len(r.Data) == 0 {
				f.Fatalf("listed as %+v", r)
			}
		}
		if got.Next == "" {
			return out
		}
		p.Cursor = got.Next
	}
}
