package catalog

import (
	"testing"
	"time"

	"github.com/turnus/turnus/windows"
)

// A revocation of a set ends the approvals of its rules: they count for no quota any more. A
// revocation of a rule ends none of the set.
func TestWhatARevocationMakesObsolete(t *testing.T) {
	d, err := windows.Parse(windows.Document{File: "w.yaml", Data: []byte(
		`window_sets: {s: {timezone: UTC, allow: [{id: r, cron: "0 1 * * *", duration: 1h, approval: {by: cab}}, {id: q, cron: "0 3 * * *", duration: 1h}]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	word := func(rule string, revoked bool, at time.Time) Approval {
		a := Approval{Set: "s", Rule: rule, Revoked: revoked, At: at}
		if !revoked {
			a.Window = d.HashOf(d.Sets["s"])
		}
		return a
	}
	for _, c := range []struct {
		a, by Approval
		want  bool
	}{
		{word("r", false, at), word("", true, at.Add(time.Hour)), true},
		{word("r", true, at), word("", true, at.Add(time.Hour)), true},
		{word("r", false, at.Add(time.Hour)), word("", true, at), false},
		{word("r", false, at), word("", false, at.Add(time.Hour)), false},
		{word("", false, at), word("r", true, at.Add(time.Hour)), false},
		{word("", true, at), word("r", true, at.Add(time.Hour)), false},
		{word("q", false, at), word("r", true, at.Add(time.Hour)), false},
	} {
		if got := obsolete(&c.a, []Approval{c.a, c.by}, d, at.Add(2*time.Hour)); got != c.want {
			t.Errorf("rule %q, revoked %t, then rule %q, revoked %t: obsolete %t", c.a.Rule, c.a.Revoked, c.by.Rule, c.by.Revoked, got)
		}
	}
}
