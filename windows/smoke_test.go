package windows

import (
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	d, err := Parse(Document{"x.yaml", []byte(`
window_sets:
  oncall-hours: {timezone: Europe/Berlin, allow: [{rrule: "FREQ=DAILY", from: "00:00", to: "24:00"}]}
  acme-fra:
    scope: {customer: acme, site: fra}
    timezone: Europe/Berlin
    inherit: intersect            # or replace | extend (allows only)
    allow:
      - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00", valid: [2026-01-01, 2026-12-31]}
      - {id: patch, rrule: "FREQ=MONTHLY;BYDAY=2TU", offset: 2d, from: "01:00", to: "05:00"}
      - {id: legacy, cron: "0 22 * * SUN", duration: 4h}
      - {id: CHG0041, at: "2026-10-24T22:00", to: "2026-10-25T04:00"}
    requires: [oncall-hours]      # intersected
    deny: [{use: freeze/xmas}, {use: holidays/DE-HE, effect: clip}]   # or cancel
    cutoff: 30m
    overrun: finish               # or stop_at_checkpoint
    approval: {by: acme-cab, until: 2026-12-15, max_occurrences: 40}
    carry_over: {max: 3, deadline: 2026-12-15}
freezes:
  xmas: {timezone: Europe/Berlin, from: "2026-12-20", to: "2027-01-07"}   # half-open
`)})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 9, 20, 0, 0, 0, 0, time.UTC)
	c := d.Compile("acme-fra", Ahead(from, 400))
	t.Log(c.Reason())
	for _, w := range c.Occurrences(from, from.AddDate(0, 4, 0)) {
		t.Log(w.Open.In(c.Zone), w.Close.In(c.Zone), w.Rules, w.Notes, w.Unapproved)
	}
	for _, f := range d.Lint(c, time.Hour) {
		t.Log(f)
	}
	for _, at := range []string{"2026-12-19T22:00:00Z", "2026-12-26T22:00:00Z", "2026-10-24T21:00:00Z", "2026-10-03T21:00:00Z", "2026-10-06T21:00:00Z"} {
		x, _ := time.Parse(time.RFC3339, at)
		e, _ := c.Explain(x, time.Hour)
		t.Logf("%s %+v", at, e)
	}
}
func BenchmarkCompile(b *testing.B) {
}
