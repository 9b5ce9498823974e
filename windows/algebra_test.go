package windows

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Two levels together allow, at every minute, what both of their rules allow.
func TestLevelsCombineAsSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zones := rapid.SliceOfN(rapid.SampledFrom(oddZones()), 2, 2).Draw(t, "zones")
		wide, own := rapid.Custom(drawRule).Draw(t, "wide"), rapid.Custom(drawRule).Draw(t, "own")
		deny, need := rapid.Custom(drawRule).Draw(t, "deny"), rapid.Custom(drawRule).Draw(t, "required")
		text := fmt.Sprintf(`
window_sets:
  required: {timezone: %[1]s, allow: [%[6]s]}
  denied: {timezone: %[1]s, allow: [%[5]s]}
  plain: {timezone: %[1]s, allow: [%[3]s]}
  alone: {timezone: %[2]s, allow: [%[4]s]}
  wide: {scope: {customer: a}, timezone: %[1]s, allow: [%[3]s], deny: [%[5]s], requires: [required]}
`, zones[0], zones[1], wide.yaml("w"), own.yaml("o"), deny.yaml("d"), need.yaml("n"))
		for _, mode := range []Inherit{Intersect, Replace, Extend} {
			text += fmt.Sprintf("  %s: {scope: {customer: a, site: %s}, timezone: %s, inherit: %s, allow: [%s]}\n", mode, mode, zones[1], mode, own.yaml("o"))
		}
		d, err := Parse(Document{"levels.yaml", []byte(text)})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day"))
		sets := d.CompileAll(Ahead(from, 10), "required", "denied", "plain", "alone", "intersect", "replace", "extend")
		open := func(name string, at time.Time) bool {
			start, err := sets[name].Next(at, time.Second)
			return err == nil && start.Equal(at)
		}
		for at := from; at.Before(from.AddDate(0, 0, 9)); at = at.Add(13 * time.Minute) {
			p, a := open("plain", at), open("alone", at)
			rest := open("required", at) && !open("denied", at)
			for mode, allowed := range map[string]bool{"intersect": p && a, "replace": a, "extend": p || a} {
				if got := open(mode, at); got != (allowed && rest) {
					t.Fatalf("%s at %s: open %t, plain %t, alone %t, rest %t\n%s", mode, at, got, p, a, rest, text)
				}
			}
		}
	})
}

// Approval never opens anything: with it, a set is open at most when it is without.
func TestAnApprovalOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Custom(drawRule).Draw(t, "rule")
		base := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		day := func(name string) string {
			return base.AddDate(0, 0, rapid.IntRange(0, 60).Draw(t, name)).Format(time.DateOnly)
		}
		text := fmt.Sprintf(`
window_sets:
  free: {timezone: Europe/Berlin, allow: [%[1]s]}
  bound: {timezone: Europe/Berlin, allow: [%[1]s], approval: {by: cab, at: %s, until: %s, revoked: %s, max_occurrences: %d}}
`, rule.yaml("r"), day("at"), day("until"), day("revoked"), rapid.IntRange(1, 20).Draw(t, "max"))
		d, err := Parse(Document{"approved.yaml", []byte(text)})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		sets := d.CompileAll(Ahead(base, 60), "free", "bound")
		approval := d.Sets["bound"].Approval
		for _, w := range sets["bound"].Occurrences(base, base.AddDate(0, 0, 60)) {
			if _, err := sets["free"].Next(later(w.Open, base), w.Close.Sub(later(w.Open, base))); err != nil {
				t.Fatalf("%v is not a window without approval: %v", w, err)
			}
			held := w.Open.Before(approval.At) || w.Close.After(approval.Until) || w.Close.After(approval.RevokedAt)
			if held && w.Unapproved == "" {
				t.Fatalf("%v is open, approved from %s to %s, revoked %s", w, approval.At, approval.Until, approval.RevokedAt)
			}
		}
	})
}
