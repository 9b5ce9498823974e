package scheduletest

import (
	"errors"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

var writeTests = []test{
	{"WriteCreatesOnlyWhatIsNotThere", func(f *fixture) {
		v := f.create(id(1), time.Time{}, "a")
		if again := f.write(schedule.Change{ID: id(1), Data: []byte("b")}); again[0] != 0 {
			f.Fatal("a record was created twice")
		}
		if other := f.write(schedule.Change{ID: id(2), Version: 7, Data: []byte("b")}); other[0] != 0 {
			f.Fatal("a record that does not exist was replaced")
		}
		f.want(id(1), v, "a")
	}},
	{"WriteReplacesTheRightVersionOnly", func(f *fixture) {
		v1 := f.create(id(1), time.Time{}, "a")
		v2 := f.write(schedule.Change{ID: id(1), Version: v1, Data: []byte("b")})[0]
		if v2 <= v1 {
			f.Fatalf("version %d after %d", v2, v1)
		}
		for _, wrong := range []uint64{v1, v2 + 1, 1 << 60} {
			if f.write(schedule.Change{ID: id(1), Version: wrong, Data: []byte("c")})[0] != 0 {
				f.Fatalf("version %d was taken for %d", wrong, v2)
			}
		}
		f.want(id(1), v2, "b")
	}},
	{"WriteKeepsData", func(f *fixture) {
		v := f.create(id(1), time.Time{}, "a\x00\xff")
		due := f.now().Add(time.Hour).Truncate(time.Millisecond)
		v = f.write(schedule.Change{ID: id(1), Version: v, Keep: true, Due: due})[0]
		f.want(id(1), v, "a\x00\xff")
		if r, _ := f.read(id(1)); !r.Due.Equal(due) {
			f.Fatalf("due %v, expected %v", r.Due, due)
		}
		v = f.write(schedule.Change{ID: id(1), Version: v, Data: nil})[0]
		f.want(id(1), v, "")
		if r, _ := f.read(id(1)); !r.Due.IsZero() {
			f.Fatalf("due %v, expected never", r.Due)
		}
	}},
	{"WriteDeletesTheRightVersionOnly", func(f *fixture) {
		v := f.create(id(1), f.now(), "a")
		if f.write(schedule.Change{ID: id(1), Version: v + 1, Delete: true})[0] != 0 {
			f.Fatal("another version was deleted")
		}
		f.want(id(1), v, "a")
		if f.write(schedule.Change{ID: id(1), Version: v, Delete: true})[0] == 0 {
			f.Fatal("the record was not deleted")
		}
		if _, ok := f.read(id(1)); ok {
			f.Fatal("the record is there after it was deleted")
		}
		if got := f.take(10, time.Second); len(got.Records) > 0 || !got.Next.IsZero() {
			f.Fatalf("a deleted record is due: %+v", got)
		}
		if f.write(schedule.Change{ID: id(1), Version: v, Delete: true})[0] != 0 {
			f.Fatal("the record was deleted twice")
		}
	}},
	{"TrapVersionsComeBackAfterDelete", func(f *fixture) { // a server that slept must not write over a schedule made anew
		old := f.create(id(1), time.Time{}, "old")
		f.write(schedule.Change{ID: id(1), Version: old, Delete: true})
		fresh := f.create(id(1), time.Time{}, "new")
		if fresh <= old {
			f.Fatalf("version %d after %d", fresh, old)
		}
		if f.write(schedule.Change{ID: id(1), Version: old, Data: []byte("late")})[0] != 0 {
			f.Fatal("a version from before the deletion was taken for right")
		}
		f.want(id(1), fresh, "new")
	}},
	{"WriteTellsEachChangeApart", func(f *fixture) {
		v1, v3 := f.create(id(1), time.Time{}, "1"), f.create(id(3), time.Time{}, "3")
		got := f.write(
			schedule.Change{ID: id(1), Version: v1, Data: []byte("1b")},
			schedule.Change{ID: id(2), Version: 99, Data: []byte("2")},
			schedule.Change{ID: id(3), Version: v3, Delete: true},
			schedule.Change{ID: id(4), Data: []byte("4")})
		if got[0] == 0 || got[1] != 0 || got[2] == 0 || got[3] == 0 {
			f.Fatalf("got versions %v", got)
		}
		seen := map[uint64]bool{v1: true, v3: true}
		for _, v := range got {
			if v != 0 && seen[v] {
				f.Fatalf("version %d was given twice: %v", v, got)
			}
			seen[v] = true
		}
		f.want(id(1), got[0], "1b")
		f.want(id(4), got[3], "4")
	}},
	{"WriteAppliesChangesInOrder", func(f *fixture) {
		v := f.create(id(1), time.Time{}, "a")
		got := f.write(
			schedule.Change{ID: id(1), Version: v, Data: []byte("b")},
			schedule.Change{ID: id(1), Version: v, Data: []byte("c")},
			schedule.Change{ID: id(2), Data: []byte("d")},
			schedule.Change{ID: id(2), Data: []byte("e")})
		if got[0] == 0 || got[1] != 0 || got[2] == 0 || got[3] != 0 {
			f.Fatalf("got versions %v, expected the first of each", got)
		}
		f.want(id(1), got[0], "b")
		f.want(id(2), got[2], "d")
	}},
	{"WriteHoldsByTheStoresClock", func(f *fixture) {
		before := f.now()
		v := f.write(schedule.Change{ID: id(1), Data: []byte("a"), Hold: time.Minute})[0]
		after := f.now()
		r, _ := f.read(id(1))
		if v == 0 || r.Due.Before(before.Add(time.Minute)) || r.Due.After(after.Add(time.Minute+time.Millisecond)) {
			f.Fatalf("due %v, expected a minute after %v", r.Due, before)
		}
	}},
	{"WriteRefusesTheWholeCall", func(f *fixture) {
		v := f.create(id(1), time.Time{}, "a")
		good := schedule.Change{ID: id(2), Data: []byte("b")}
		for name, bad := range map[string]schedule.Change{
			"an empty name":          {Data: []byte("a")},
			"a name with a colon":    {ID: schedule.ID{Name: "a:b"}},
			"a long name":            {ID: schedule.ID{Name: strings.Repeat("n", schedule.MaxName+1)}},
			"a long tenant":          {ID: schedule.ID{Tenant: strings.Repeat("n", schedule.MaxTenant+1), Name: "a"}},
			"not UTF-8":              {ID: schedule.ID{Name: "a\xff"}},
			"too much data":          {ID: id(1), Version: v, Data: make([]byte, schedule.MaxData+65)},
			"keep and data":          {ID: id(1), Version: v, Keep: true, Data: []byte("x")},
			"keep of nothing":        {ID: id(9), Keep: true},
			"delete of nothing":      {ID: id(9), Delete: true},
			"a negative hold":        {ID: id(1), Version: v, Hold: -time.Second},
			"a long hold":            {ID: id(1), Version: v, Hold: schedule.MaxHold + 1},
			"hold and due":           {ID: id(1), Version: v, Hold: time.Second, Due: f.now()},
			"a due time out of mind": {ID: id(1), Version: v, Due: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
		} {
			if _, err := f.Write(f.Context(), []schedule.Change{good, bad}); !errors.Is(err, core.ErrInvalid) {
				f.Errorf("%s: got %v, expected core.ErrInvalid", name, err)
			}
		}
		if _, err := f.Write(f.Context(), make([]schedule.Change, schedule.MaxBatch+1)); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("too many changes: got %v", err)
		}
		if _, ok := f.read(id(2)); ok {
			f.Error("a part of a refused call was applied")
		}
		f.want(id(1), v, "a")
		if got, err := f.Write(f.Context(), nil); err != nil || len(got) != 0 {
			f.Errorf("no changes: got %v, %v", got, err)
		}
	}},
	{"WriteTakesTheLargestCall", func(f *fixture) {
		var all []schedule.Change
		for i := range schedule.MaxBatch {
			all = append(all, schedule.Change{ID: id(i), Data: make([]byte, 1<<10)})
		}
		all[0].Data = make([]byte, schedule.MaxData)
		all[0].ID = schedule.ID{Tenant: strings.Repeat("ü", schedule.MaxTenant/2), Name: strings.Repeat("{", schedule.MaxName)}
		for i, v := range f.write(all...) {
			if v == 0 {
				f.Fatalf("change %d was refused", i)
			}
		}
		if r, _ := f.read(all[0].ID); len(r.Data) != schedule.MaxData {
			f.Fatalf("%d bytes of data came back", len(r.Data))
		}
	}},
}
