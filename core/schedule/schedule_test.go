package schedule

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		change func(*Definition)
		want   string // "" is valid
	}{
		{func(*Definition) {}, ""},
		{func(d *Definition) { d.ID.Tenant = "" }, ""},
		{func(d *Definition) { d.ID.Name = "Nächtlich_{1}.2" }, ""},
		{func(d *Definition) { d.Timezone = "" }, ""},
		{func(d *Definition) { d.Cron = "0 22 * * fri-sun,7" }, ""},
		{func(d *Definition) { d.ID.Name = "" }, "name is empty"},
		{func(d *Definition) { d.ID.Name = "a:b" }, "name"},
		{func(d *Definition) { d.ID.Name = "a/b" }, "slash"},
		{func(d *Definition) { d.ID.Name = "a b" }, "blank"},
		{func(d *Definition) { d.ID.Name = "a\nb" }, "name"},
		{func(d *Definition) { d.ID.Name = "a\xff" }, "not UTF-8"},
		{func(d *Definition) { d.ID.Name = strings.Repeat("n", MaxName+1) }, "at most 56"},
		{func(d *Definition) { d.ID.Tenant = strings.Repeat("n", MaxTenant+1) }, "tenant"},
		{func(d *Definition) { d.Cron = "61 * * * *" }, "minute field"},
		{func(d *Definition) { d.Cron = "" }, "cron"},
		{func(d *Definition) { d.Cron = "TZ=0" }, "zone"},
		{func(d *Definition) { d.Cron = strings.Repeat("1,", 200) + "1 * * * *" }, "cron"},
		{func(d *Definition) { d.Timezone = "Europe/Berlln" }, "timezone"},
		{func(d *Definition) { d.Timezone = "Local" }, "timezone"},
		{func(d *Definition) { d.CatchUp = "twice" }, `catch_up is "twice"`},
		{func(d *Definition) { d.Overlap = "allow" }, `overlap is "allow"`},
		{func(d *Definition) { d.StartWithin = -time.Second }, "start_within"},
		{func(d *Definition) { d.StartWithin = time.Millisecond }, "start_within"},
		{func(d *Definition) { d.StartWithin = MaxStartWithin + time.Second }, "start_within"},
		{func(d *Definition) { d.Jitter = -time.Second }, "jitter"},
		{func(d *Definition) { d.Jitter = MaxJitter + time.Second }, "jitter"},
		{func(d *Definition) { d.Jitter, d.StartWithin = time.Hour, time.Minute }, "jitter is 1h0m0s, expected no more than start_within, 1m0s"},
		{func(d *Definition) { d.Payload = make([]byte, MaxPayload+1) }, "payload"},
	} {
		d := Definition{ID: ID{"acme", "nightly"}, Cron: "0 1 * * *", Timezone: "Europe/Berlin"}
		c.change(&d)
		err := d.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", d, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, core.ErrInvalid)):
			t.Errorf("%.200q: expected %q and core.ErrInvalid", err, c.want)
		}
	}
}

// The ids of any two fire times or triggers of any two schedules differ.
func TestRunIDsDiffer(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("a-tT0Z2é")), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (key [3]string, run string) {
			id := ID{Tenant: rapid.OneOf(rapid.Just(""), text).Draw(t, label+" tenant"), Name: rapid.OneOf(text, rapid.Just("a-20260303T0100Z"), rapid.Just("a")).Draw(t, label+" name")}
			if err := id.Validate(); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, label+" trigger") {
				k := text.Draw(t, label+" key")
				return [3]string{id.Tenant, id.Name, "t" + k}, TriggerRunID(id, k)
			}
			at := clock("03 01:00").Add(time.Duration(rapid.IntRange(0, 3).Draw(t, label+" at")) * time.Minute)
			return [3]string{id.Tenant, id.Name, at.String()}, RunID(id, at)
		}
		a, runA := draw("a")
		b, runB := draw("b")
		if (a == b) != (runA == runB) {
			t.Fatalf("%q and %q have the runs %q and %q", a, b, runA, runB)
		}
	})
}

func TestRunIDsAreReadableAndShort(t *testing.T) {
	if got := RunID(ID{"acme", "nightly"}, clock("03 04:05").In(time.FixedZone("", 3600))); got != "acme:nightly-20260303T0405Z" {
		t.Errorf("got %s", got)
	}
	long := ID{strings.Repeat("t", MaxTenant), strings.Repeat("n", MaxName)}
	for _, run := range []string{RunID(long, clock("03 04:05")), TriggerRunID(long, "k")} {
		if len(run) > 128 || strings.ContainsAny(run, "/ ") {
			t.Errorf("%s is %d bytes", run, len(run))
		}
	}
}

func TestCheckRecurrenceNamesBothFigures(t *testing.T) {
	d := Definition{ID: ID{"acme", "nightly"}, Cron: "30 2 * * *", Timezone: "Europe/Berlin"}
	retries := core.Backoff{Interval: time.Hour, Jitter: 0.5}
	for n, ok := range map[int]bool{3: true, 4: true, 5: false} { // 1.5 h · (2^n - 1)
		worst := retries.Worst(n)
		err := d.CheckRecurrence(worst, clock("03 00:00"))
		if (err == nil) != ok {
			t.Errorf("%v: %v", worst, err)
		}
		if !ok && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "23h30m0s") || !strings.Contains(err.Error(), worst.String()) || !strings.Contains(err.Error(), "2026-03-28 02:30")) {
			t.Errorf("got %v", err)
		}
	}
	if err := d.CheckRecurrence(23*time.Hour+30*time.Minute, clock("03 00:00")); err != nil {
		t.Errorf("what fits exactly: %v", err)
	}
	d.Timezone = "UTC"
	if err := d.CheckRecurrence(24*time.Hour, clock("03 00:00")); err != nil {
		t.Errorf("without clock changes: %v", err)
	}
}

func TestNextListsNominalTimes(t *testing.T) {
	d := Definition{ID: ID{Name: "n"}, Cron: "0 1 * * *", Jitter: time.Hour}
	got, err := d.Next(clock("03 01:00"), 2)
	if want := []time.Time{clock("04 01:00"), clock("05 01:00")}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	d.Cron = "0 0 30 2 *"
	if got, err := d.Next(clock("03 01:00"), 2); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func sample() (Definition, State) {
	id := ID{"acme", "nightly"}
	d := Definition{ID: id, Cron: "17 3 1 */3 *", Timezone: "Europe/Zurich", CatchUp: CatchUpOnce, Overlap: OverlapCancel, StartWithin: 6 * time.Hour, Jitter: 30 * time.Minute,
		Payload: []byte{0, 255, 'p'}, Paused: true}
	at := clock("03 01:00")
	return d, State{Since: at, Paused: true, Reason: "CHG7", Triggered: 1 << 40, Skipped: 3, Active: []Run{{RunID(id, at), ByCron, at}, {"an old id", ByTrigger, at}},
		Claimed: []Claim{{RunID: RunID(id, at), Nominal: at, Cause: ByCatchUp, Decided: at, Cancel: []string{"x"}, Attempts: 3, After: at.Add(time.Second), Err: "away"}},
		Waiting: &Waiting{at, ByCron}, Backfill: []Span{{at, at.Add(time.Hour)}}, Last: []Result{{RunID: RunID(id, at), Nominal: at, Count: 1, Cause: ByCron, Triggered: true, At: at}, {Nominal: at, Count: 7, Cause: ByBackfill, At: at.Add(time.Millisecond), Reason: "missed"}}}
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	d, s := sample()
	for range 2 {
		gotD, gotS, err := Decode(d.ID, Encode(d, s))
		if err != nil || !reflect.DeepEqual(gotD, d) || !reflect.DeepEqual(gotS, s) {
			t.Fatalf("got %+v\n%+v\n%v", gotD, gotS, err)
		}
		d, s = Definition{ID: d.ID, Cron: "* * * * *"}, State{}
	}
}

// The state that an earlier version kept in Redis, and mirrored in the ledger, is read, except its
// triggers: those were launched.
func TestDecodeReadsFormat1(t *testing.T) {
	d, s := sample()
	gotD, gotS, err := Decode(d.ID, sampleV1(t))
	if err != nil || !reflect.DeepEqual(gotD, d) || !reflect.DeepEqual(gotS, s) {
		t.Fatalf("got %+v\n%+v\n%v", gotD, gotS, err)
	}
}

// sampleV1 is the sample, with a trigger, as that version wrote it.
func sampleV1(tb testing.TB) []byte {
	tb.Helper()
	data, err := base64.StdEncoding.DecodeString("ARwxNyAzIDEgKi8zICodRXVyb3BlL1p1cmljaAIFwNECkBwTAP9wAYLq9KyqCwEUQ0hHN4CAgICAQAYEAriFjAMGgur0rKoLABlhbiBvbGQgaWQJgur0rKoLAgK4hYwDgur0rKoLB4Lq9KyqCwIAEXgG0vn0rKoLFGF3YXkBgur0rKoLBgKC6vSsqguCpKywqgsCASYtdDgyNTRjMzI5YTkyODUwZjZkNTM5gur0rKoLBAK4hYwDgur0rKoLAgYBgur0rKoLAAAAgur0rKoLDggAhOr0rKoLFm1pc3NlZA==")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// A million idle schedules are kept: what is written of each counts.
func TestIdleSchedulesAreSmall(t *testing.T) {
	d := Definition{ID: ID{"acme", "nightly-backup-1"}, Cron: "17 3 * * 1-5", Timezone: "Europe/Zurich", CatchUp: CatchUpOnce, Overlap: OverlapSkip, StartWithin: 6 * time.Hour, Jitter: 30 * time.Minute,
		Payload: []byte("backup@4f2a9c1")}
	if n := len(Encode(d, State{Since: clock("03 01:00")})); n > 80 {
		t.Errorf("%d bytes, expected at most 80", n)
	}
}

// The largest state that rules allow fits a row.
func TestTheLargestStateFits(t *testing.T) {
	long := ID{strings.Repeat("t", MaxTenant), strings.Repeat("n", MaxName)}
	d, _ := sample()
	d.ID, d.Payload, d.Cron = long, make([]byte, MaxPayload), strings.Repeat("1,", 120)+"1 * * * *"
	text, at := strings.Repeat("e", MaxReason), clock("03 01:00")
	s := State{Since: at, Reason: text, Waiting: &Waiting{at, ByCron}}
	run := TriggerRunID(long, "k")
	for range MaxActive + 1 {
		s.Active = append(s.Active, Run{run, ByCron, at})
		s.Claimed = append(s.Claimed, Claim{RunID: run, Nominal: at, Cause: ByCron, Decided: at, Attempts: 1 << 20, After: at, Err: text})
		s.Claimed[0].Cancel = append(s.Claimed[0].Cancel, run)
	}
	for range MaxBackfills {
		s.Backfill = append(s.Backfill, Span{at, at})
	}
	for range MaxLast {
		s.note(Result{RunID: run, Nominal: at, Count: 1 << 30, Cause: ByCron, At: at, Reason: core.Reason(text)})
	}
	if n := len(Encode(d, s)); n > ledger.MaxSchedule {
		t.Errorf("%d bytes, a row holds %d", n, ledger.MaxSchedule)
	}
}

func FuzzDecode(f *testing.F) {
	d, s := sample()
	f.Add(Encode(d, s))
	f.Add(Encode(Definition{Cron: "* * * * *"}, State{}))
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add(sampleV1(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, s, err := Decode(ID{"acme", "nightly"}, data)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("%v is not core.ErrInvalid", err)
			}
			return
		}
		again, kept, err := Decode(d.ID, Encode(d, s))
		if err != nil || !reflect.DeepEqual(again, d) || !reflect.DeepEqual(kept, s) {
			t.Fatalf("%+v %+v came back as %+v %+v, %v", d, s, again, kept, err)
		}
		if p, err := newPlanner().plan(d); err == nil && d.Validate() == nil {
			p.decide(s, clock("03 01:00"), func(string) bool { return false }) // no panic, no hang
		}
	})
}
