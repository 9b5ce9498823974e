package forecast

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/windows"
)

// bulk is 3000 hosts of 100 customers with a window set each, in three waves, some in pairs.
func bulk(tb testing.TB, hosts int) Input {
	tb.Helper()
	text := "window_sets:\n"
	for i := range 100 {
		text += fmt.Sprintf("  c%d: {timezone: %s, allow: [{id: n, rrule: \"FREQ=WEEKLY;BYDAY=%s\", from: \"%02d:00\", to: \"+1d %02d:00\"}], deny: [{use: freeze/xmas}]}\n",
			i, []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"}[i%4], []string{"SA", "SU", "TU,TH", "MO,TU,WE,TH,FR"}[i%4], 20+i%4, 2+i%5)
	}
	text += "freezes:\n  xmas: {timezone: Europe/Berlin, from: \"2026-12-20\", to: \"2027-01-07\"}\n"
	defs, err := windows.Parse(windows.Document{File: "bulk.yaml", Data: []byte(text)})
	if err != nil {
		tb.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	sets := defs.CompileAll(windows.Ahead(at, windows.DefaultDays), names...)
	long, err := Assumed(15*time.Minute, 35*time.Minute)
	if err != nil {
		tb.Fatal(err)
	}
	short, err := Assumed(20*time.Second, time.Minute)
	if err != nil {
		tb.Fatal(err)
	}
	work := &Work{Stages: []Stage{
		{Steps: []Step{{Took: short}}},
		{Windowed: true, Need: 40 * time.Minute, Steps: []Step{{Took: long}, {Took: short, Attempts: 5, Fails: 0.02}}},
	}}
	in := Input{At: at, Concurrency: 256, MaxInFlight: 200, PerGroup: 20, HAGroups: true, Seed: 1}
	for i := range hosts {
		h := Host{Name: fmt.Sprintf("fw-%d", i), Windows: sets[fmt.Sprintf("c%d", i%100)], Work: work, Group: fmt.Sprintf("c%d", i%100)}
		if i%3 == 0 {
			h.HAGroup = fmt.Sprintf("ha-%d", i/6)
		}
		switch {
		case i >= hosts/20:
			h.Wave = 2
		case i >= 1:
			h.Wave = 1
		}
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

// BenchmarkForecast is 200 samples of 3000 hosts, with all that binds them found.
func BenchmarkForecast(b *testing.B) {
	in := bulk(b, 3000)
	for b.Loop() {
		r, err := Make(in)
		if err != nil {
			b.Fatal(err)
		}
		if r.Samples != DefaultSamples || r.FinishP50.IsZero() {
			b.Fatalf("%d samples, done at %s", r.Samples, r.FinishP50)
		}
	}
}
