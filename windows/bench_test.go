package windows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// benchSets are a number of sets such as customers have: Saturdays, patch days and a cron line,
// less holidays and a freeze, within the hours of somebody on call.
func benchSets(b *testing.B, n int) *Definitions {
	zones := oddZones()
	var text strings.Builder
	text.WriteString("freezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07}}\nwindow_sets:\n")
	text.WriteString("  oncall: {timezone: Europe/Berlin, allow: [{rrule: FREQ=DAILY, from: \"18:00\", to: \"+1d 08:00\"}]}\n")
	for i := range n {
		fmt.Fprintf(&text, `  set%d:
    timezone: %s
    allow:
      - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}
      - {id: patch, rrule: "FREQ=MONTHLY;BYDAY=2TU", offset: 2d, from: "01:00", to: "05:00"}
      - {id: legacy, cron: "0 22 * * SUN", duration: 4h}
    requires: [oncall]
    deny: [{use: freeze/xmas}, {use: holidays/DE-HE}]
    cutoff: 30m
`, i, zones[i%len(zones)])
	}
	return load(b, text.String())
}

var benchFrom = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)

func BenchmarkCompile400Days(b *testing.B) {
	d := benchSets(b, 1)
	for b.Loop() {
		d.Compile("set0", Ahead(benchFrom, 400))
	}
}

func BenchmarkCompileDaily400Days(b *testing.B) {
	d := one(b, `allow: [{rrule: FREQ=DAILY, from: "22:00", to: "+1d 05:00"}, {cron: "0 12 * * *", duration: 1h}]`)
	for b.Loop() {
		d.Compile("s", Ahead(benchFrom, 400))
	}
}

func BenchmarkNext(b *testing.B) {
	c := benchSets(b, 1).Compile("set0", Ahead(benchFrom, 400))
	at := benchFrom
	for b.Loop() {
		if _, err := c.Next(at, 2*time.Hour); err != nil {
			b.Fatal(err)
		}
		if at = at.Add(37 * time.Minute); at.After(benchFrom.AddDate(0, 10, 0)) {
			at = benchFrom
		}
	}
}

// The case for the index: thousands of windows of which a late one fits.
func BenchmarkNextOfManyThatDoNotFit(b *testing.B) {
	c := one(b, `allow: [{cron: "0 * * * *", duration: 30m}, {at: 2027-05-20T00:00, to: 2027-05-21T00:00}]`).Compile("s", Ahead(benchFrom, 400))
	for b.Loop() {
		if _, err := c.Next(benchFrom, 2*time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlan3000HostsIn100Sets(b *testing.B) {
	d := benchSets(b, 100)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("set%d", i))
	}
	for b.Loop() {
		compiled := d.CompileAll(Ahead(benchFrom, 400), names...)
		for host := range 3000 {
			if _, err := compiled[names[host%len(names)]].Next(benchFrom, 2*time.Hour); err != nil && !errors.Is(err, ErrClosed) {
				b.Fatal(err)
			}
		}
	}
}
