package windows

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lintDays is how far ahead opportunities are counted.
const lintDays = 60

// Severity of a finding.
type Severity string

// An error means that nothing can run; a warning, that something is probably not meant.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one remark of Lint.
type Finding struct {
	Set      string   `json:"set"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}

// Lint checks a set for work of this need, from its horizon's begin on. It reports the
// opportunities of 60 days, the longest window, rules that never fit, freezes that cover every
// occurrence, and approvals that do not hold. need 0 asks for windows of any length.
func (d *Definitions) Lint(c *Compiled, need time.Duration) []Finding {
	var out []Finding
	add := func(s Severity, format string, args ...any) {
		out = append(out, Finding{c.Name, s, fmt.Sprintf(format, args...)})
	}
	if c.closed != "" {
		add(Error, "closed: %s", c.closed)
		return out
	}
	from := c.Horizon.From
	need = max(need, c.Cutoff, time.Nanosecond)
	soon := c.Occurrences(from, from.AddDate(0, 0, lintDays))
	fitting, longest := 0, time.Duration(0)
	for _, w := range soon {
		if w.Unapproved == "" {
			longest = max(longest, w.Close.Sub(later(w.Open, from)))
			if w.Close.Sub(later(w.Open, from)) >= need {
				fitting++
			}
		}
	}
	switch {
	case len(c.windows) == 0 && d.isBase(d.Sets[c.Name]):
		add(Info, "it opens nothing itself; sets of narrower scope inherit from it")
	case len(c.windows) == 0 && len(c.unapproved) > 0:
		add(Warning, "it does not open within %d days%s", c.days(), c.whyEmpty())
	case len(c.windows) == 0:
		add(Error, "it does not open within %d days%s", c.days(), c.whyEmpty())
	case need > c.longest:
		add(Error, "no window of the next %d days fits: the longest lasts %s, needed are %s", c.days(), FormatDuration(c.longest), FormatDuration(need))
	case fitting == 0:
		add(Warning, "nothing fits within the next %d days; the longest window of that time lasts %s", lintDays, longest)
	default:
		add(Info, "%d windows fit within the next %d days; the longest lasts %s", fitting, lintDays, FormatDuration(longest))
	}
	if s := d.Sets[c.Name]; s != nil {
		d.lintRules(c, s, need, add)
		d.lintApprovals(c, s, add)
		if s.Inherit != Replace && s.Scope != nil && s.Allow == nil && len(d.wider(s)) == 0 {
			add(Warning, "it has no allow of its own, and there is no window set of a wider scope")
		}
	}
	for i, dropped := range c.Dropped {
		if i == 5 {
			add(Info, "%d more occurrences come to nothing", len(c.Dropped)-i)
			break
		}
		add(Info, "%s: %s of %s comes to nothing: %s", dropped.Start.Format(time.DateOnly), dropped.Rule, dropped.Start.Format("15:04"), dropped.Reason)
	}
	return out
}

// isBase reports whether a set is only there for others: it has no allow, and others inherit from
// it.
func (d *Definitions) isBase(s *Set) bool {
	if s == nil || s.Allow != nil || s.Scope == nil {
		return false
	}
	for _, other := range d.Sets {
		if slices.Contains(d.wider(other), s) {
			return true
		}
	}
	return false
}

func (c *Compiled) days() int { return int(c.Horizon.To.Sub(c.Horizon.From).Hours()) / 24 }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// whyEmpty returns what takes every occurrence.
func (c *Compiled) whyEmpty() string {
	counts := map[string]int{}
	for _, d := range c.Dropped {
		counts[d.Reason]++
	}
	reasons := []string{}
	for _, reason := range sortedCounts(counts) {
		reasons = append(reasons, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	if len(c.unapproved) > 0 {
		reasons = append(reasons, fmt.Sprintf("%d %s", len(c.unapproved), c.unapproved[0].Unapproved))
	}
	if len(reasons) == 0 {
		return ": no rule has an occurrence"
	}
	return "; its occurrences: " + strings.Join(reasons, ", ")
}

func sortedCounts(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (d *Definitions) lintRules(c *Compiled, s *Set, need time.Duration, add func(Severity, string, ...any)) {
	for i := range s.Allow {
		r := &s.Allow[i]
		if recur, err := r.prepare(); err == nil && recur.cron != nil {
			for _, w := range recur.cron.WarningsIn(c.Zone, c.Horizon.From, c.Horizon.To) {
				add(Warning, "%s: cron %q: %s", r.ID, r.Cron, w)
			}
		}
		opens, fits := 0, 0
		for _, w := range slices.Concat(c.windows, c.unapproved) {
			if slices.Contains(w.Rules, r.ID) {
				opens++
				if w.Close.Sub(w.Open) >= need {
					fits++
				}
			}
		}
		taken := map[string]int{}
		for _, dropped := range c.Dropped {
			if dropped.Rule == r.ID {
				taken[dropped.Reason]++
			}
		}
		switch {
		case opens == 0 && len(taken) > 0:
			add(Warning, "%s: every occurrence comes to nothing: %s", r.ID, strings.Join(sortedCounts(taken), ", "))
		case opens == 0:
			add(Warning, "%s: it has no occurrence within %d days", r.ID, c.days())
		case fits == 0:
			add(Warning, "%s: it never leaves the %s that are needed", r.ID, FormatDuration(need))
		}
	}
}

func (d *Definitions) lintApprovals(c *Compiled, s *Set, add func(Severity, string, ...any)) {
	seen := map[*Approval]bool{nil: true}
	check := func(a *Approval) {
		if seen[a] {
			return
		}
		seen[a] = true
		if a.MaxOccurrences > 0 && a.At.IsZero() {
			add(Warning, "%s counts its occurrences from the first valid date or from now on: say since when it holds (at:)", a.name())
		}
		if a.Window != "" && a.Window != d.HashOf(s) {
			add(Warning, "%s is void: the window was edited; it is now %s", a.name(), d.HashOf(s))
		}
		if !a.Until.IsZero() && !a.Until.After(c.Horizon.From) {
			add(Warning, "%s has expired", a.name())
		}
		for _, name := range a.Freezes {
			if f := d.Freezes[name]; f != nil {
				if why := a.cannotLift(f); why != "" {
					add(Warning, "%s does not lift freeze %s: %s", a.name(), name, why)
				}
			}
		}
	}
	check(s.Approval)
	for i := range s.Allow {
		check(s.Allow[i].Approval)
	}
}
