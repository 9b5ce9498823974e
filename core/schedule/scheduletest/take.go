package scheduletest

import (
	"errors"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

var takeTests = []test{
	{"TakeGivesWhatIsDueOldestFirst", func(f *fixture) {
		now := f.now()
		f.create(id(1), now.Add(-time.Second), "1")
		f.create(id(2), now.Add(-time.Hour), "2")
		f.create(id(3), now.Add(time.Hour), "3")
		f.create(id(4), time.Time{}, "4")
		f.create(id(5), now.Add(-time.Minute), "5")
		got := f.take(10, time.Minute)
		if len(got.Records) != 3 || got.Records[0].ID != id(2) || got.Records[1].ID != id(5) || got.Records[2].ID != id(1) || got.More {
			f.Fatalf("took %+v", got)
		}
		if string(got.Records[0].Data) != "2" {
			f.Errorf("data %q came with it", got.Records[0].Data)
		}
		if want := time.UnixMilli(schedule.DueMilli(now.Add(time.Hour))); !got.Next.Equal(want) {
			f.Errorf("next is %v, expected %v", got.Next, want)
		}
		if got.Now.Before(now) || got.Now.After(f.now()) {
			f.Errorf("now is %v", got.Now)
		}
	}},
	{"TakeHidesForTheHold", func(f *fixture) {
		v := f.create(id(1), f.now().Add(-time.Second), "a")
		first := f.take(10, 300*time.Millisecond)
		if len(first.Records) != 1 || first.Records[0].Version <= v {
			f.Fatalf("took %+v, expected a version after %d", first, v)
		}
		r, _ := f.read(id(1))
		if r.Version != first.Records[0].Version || !r.Due.Equal(first.Records[0].Due) {
			f.Fatalf("is %+v after %+v was taken", r, first.Records[0])
		}
		if again := f.take(10, time.Minute); len(again.Records) != 0 && again.Now.Before(r.Due) {
			f.Fatalf("taken twice: %+v", again)
		} else if len(again.Records) == 0 && !again.Next.Equal(r.Due) {
			f.Fatalf("next is %v, expected the end of the hold %v", again.Next, r.Due)
		} else if len(again.Records) == 0 {
			f.ok(f.Wait(f.Context(), r.Due))
			if again = f.take(10, time.Minute); len(again.Records) != 1 || again.Records[0].Version <= r.Version || again.Now.Before(r.Due) {
				f.Fatalf("after its hold: %+v", again)
			}
		}
	}},
	{"TakeInvalidatesOlderVersions", func(f *fixture) { // what another decided before must not count
		v := f.create(id(1), f.now().Add(-time.Second), "a")
		taken := f.take(1, time.Minute)
		if f.write(schedule.Change{ID: id(1), Version: v, Data: []byte("b")})[0] != 0 {
			f.Fatal("the version from before was taken for right")
		}
		if f.write(schedule.Change{ID: id(1), Version: taken.Records[0].Version, Data: []byte("b")})[0] == 0 {
			f.Fatal("the version that take gave is not right")
		}
	}},
	{"TakeIsBounded", func(f *fixture) {
		now := f.now()
		var all []schedule.Change
		for i := range 30 {
			all = append(all, schedule.Change{ID: id(i), Due: now.Add(time.Duration(i-100) * time.Second)})
		}
		f.write(all...)
		n := 0
		for _, want := range []int{12, 12, 6} {
			got := f.take(12, time.Minute)
			if len(got.Records) != want || got.More != (n+want < 30) {
				f.Fatalf("took %d with more %v, expected %d", len(got.Records), got.More, want)
			}
			for i, r := range got.Records {
				if r.ID != id(n+i) {
					f.Fatalf("took %s as number %d", r.ID, n+i)
				}
			}
			if n += want; n < 30 && !got.Next.Equal(time.UnixMilli(schedule.DueMilli(now.Add(time.Duration(n-100)*time.Second)))) {
				f.Fatalf("next is %v after %d", got.Next, n)
			}
		}
		if got := f.take(12, time.Minute); len(got.Records) != 0 || got.More {
			f.Fatalf("took %+v after all", got)
		}
	}},
	{"TakeIsNeverEarly", func(f *fixture) {
		due := f.now().Add(50*time.Millisecond + 300*time.Microsecond).Truncate(time.Millisecond).Add(300 * time.Microsecond)
		f.create(id(1), due, "a")
		if r, _ := f.read(id(1)); r.Due.Before(due) || r.Due.Sub(due) >= time.Millisecond {
			f.Fatalf("kept as due %v, expected %v rounded up to the millisecond", r.Due, due)
		}
		until(f.Context(), f, "the record is due", func() bool {
			got := f.take(1, time.Minute)
			if len(got.Records) > 0 && got.Now.Before(due) {
				f.Fatalf("taken at %v, due %v", got.Now, due)
			}
			return len(got.Records) > 0
		})
	}},
	{"TakeOfNothing", func(f *fixture) {
		if got := f.take(1, time.Millisecond); len(got.Records) != 0 || !got.Next.IsZero() || got.More || got.Now.IsZero() {
			f.Fatalf("took %+v of an empty store", got)
		}
		f.create(id(1), time.Time{}, "never")
		if got := f.take(1, time.Millisecond); len(got.Records) != 0 || !got.Next.IsZero() {
			f.Fatalf("took %+v", got)
		}
	}},
	{"TakeRefuses", func(f *fixture) {
		for _, c := range []struct {
			most int
			hold time.Duration
		}{{0, time.Second}, {-1, time.Second}, {schedule.MaxBatch + 1, time.Second}, {1, 0}, {1, -time.Second}, {1, time.Microsecond}, {1, schedule.MaxHold + 1}} {
			if _, err := f.Take(f.Context(), c.most, c.hold); !errors.Is(err, core.ErrInvalid) {
				f.Errorf("take of %d for %v: got %v, expected core.ErrInvalid", c.most, c.hold, err)
			}
		}
	}},
}
