package windows

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cause is the rule or fact that decides whether work may start.
type Cause string

// The causes, the strongest first.
const (
	ByUnknown  Cause = "unknown"  // something is not known, so the set is closed
	ByFreeze   Cause = "freeze"   // a freeze holds
	ByHolidays Cause = "holidays" // a holiday of a calendar
	ByDeny     Cause = "deny"     // another deny
	ByRequires Cause = "requires" // a required set is closed
	ByApproval Cause = "approval" // the rule is not approved at that time
	ByNone     Cause = "none"     // no rule opens
	ByNeed     Cause = "need"     // open, but too little is left
	ByCutoff   Cause = "cutoff"   // open, but within the cutoff before close
	ByRule     Cause = "rule"     // a rule opens, and the work fits
)

// Explanation is why work of a certain need may start at a time, or not.
type Explanation struct {
	Open   bool    // a window is open
	Fits   bool    // and its remaining time suffices
	Cause  Cause   // what decides
	By     string  // its name: the rule, freeze, calendar, set or approval
	Reason string  // a sentence
	Window *Window // the one that is open
	Next   time.Time
	NoNext string // why there is no next start
}

// Explain returns what decides at t, and when work of this need may start next. The error is
// ErrNeed.
func (c *Compiled) Explain(t time.Time, need time.Duration) (Explanation, error) {
	if need <= 0 {
		return Explanation{}, ErrNeed
	}
	var e Explanation
	next, err := c.Next(t, need)
	if err == nil {
		e.Next = next
	} else {
		e.NoNext = strings.TrimPrefix(err.Error(), ErrClosed.Error()+": ")
	}
	if c.closed != "" || t.Before(c.Horizon.From) || !t.Before(c.Horizon.To) {
		e.Cause, e.Reason = ByUnknown, c.whyNone(t, need)
		return e, nil
	}
	if open := slices.IndexFunc(c.windows, func(w Window) bool { return !t.Before(w.Open) && t.Before(w.Close) }); open >= 0 {
		c.explainOpen(&e, t, need, c.windows[open])
	} else {
		c.explainClosed(&e, t.UnixNano())
	}
	return e, nil
}

func (c *Compiled) explainOpen(e *Explanation, t time.Time, need time.Duration, w Window) {
	e.Open, e.Window, e.By = true, &w, strings.Join(w.Rules, ", ")
	left := w.Close.Sub(t)
	rules, closes := e.By, "it closes at "+c.show(w.Close)
	by := c.closer(w.Close.UnixNano())
	if by != "" {
		closes += " because of " + by
	}
	switch freeze, frozen := strings.CutPrefix(by, "freeze/"); {
	case frozen && max(need, c.Cutoff) > left:
		e.Cause, e.By = ByFreeze, freeze
		e.Reason = fmt.Sprintf("open by %s, but only %s are left before freeze %s and %s are needed: %s", rules, FormatDuration(left), freeze, FormatDuration(max(need, c.Cutoff)), closes)
	case need > left:
		e.Cause = ByNeed
		e.Reason = fmt.Sprintf("open by %s, but only %s are left and %s are needed: %s", e.By, FormatDuration(left), FormatDuration(need), closes)
	case c.Cutoff > left:
		e.Cause = ByCutoff
		e.Reason = fmt.Sprintf("open by %s, but nothing starts in the last %s: %s", e.By, FormatDuration(c.Cutoff), closes)
	default:
		e.Fits, e.Cause = true, ByRule
		e.Reason = fmt.Sprintf("open by %s, and %s fit: %s", e.By, FormatDuration(need), closes)
	}
}

// closer returns the text about what ends a window at an instant, if it is not the rule itself.
func (c *Compiled) closer(nano int64) string {
	for _, p := range c.allowed {
		if !p.has(nano) {
			continue
		}
		for _, d := range c.denies {
			if !slices.Contains(p.lifts, d.freeze) {
				if _, ok := d.spans.find(nano); ok {
					return d.name
				}
			}
		}
		for _, r := range c.requires {
			if _, ok := r.open.find(nano); !ok {
				return "the hours of " + r.Name
			}
		}
	}
	for _, p := range c.held {
		if p.has(nano) {
			return p.why
		}
	}
	return ""
}

// explainClosed names what is in the way, the strongest first: a freeze is named even if no rule
// opens, because people ask for it.
func (c *Compiled) explainClosed(e *Explanation, nano int64) {
	allowed := slices.IndexFunc(c.allowed, func(p piece) bool { return p.has(nano) })
	held := slices.IndexFunc(c.held, func(p piece) bool { return p.has(nano) })
	rule := ""
	var lifts []string
	if allowed >= 0 {
		rule = strings.Join(c.allowed[allowed].rules, ", ") + " would open, but "
		lifts = c.allowed[allowed].lifts
	}
	for _, d := range c.denies {
		if s, ok := d.spans.find(nano); ok && d.freeze != "" && !slices.Contains(lifts, d.freeze) {
			e.Cause, e.By = ByFreeze, d.freeze
			e.Reason = fmt.Sprintf("%sfreeze %s holds from %s to %s", rule, d.freeze, c.show(at(s.open)), c.show(at(s.close)))
			return
		}
	}
	if allowed >= 0 {
		c.explainTaken(e, nano, c.allowed[allowed], rule)
		return
	}
	if held >= 0 {
		p := c.held[held]
		e.Cause, e.By = ByApproval, strings.Join(p.rules, ", ")
		e.Reason = fmt.Sprintf("%s would open, but it is not open: %s", e.By, p.why)
		return
	}
	e.Cause, e.Reason = ByNone, "no rule opens at this time"
}

func (c *Compiled) explainTaken(e *Explanation, nano int64, p piece, rule string) {
	for _, d := range c.denies {
		s, ok := d.spans.find(nano)
		if !ok && d.cancel {
			if touched := d.spans.touching(p.whole); len(touched) > 0 {
				s, ok = touched[0], true
			}
		}
		if !ok || slices.Contains(p.lifts, d.freeze) {
			continue
		}
		e.Cause, e.By = ByDeny, d.name
		if name, found := strings.CutPrefix(d.name, "holidays/"); found {
			e.Cause, e.By = ByHolidays, name
		}
		verb := "takes"
		if d.cancel {
			verb = "cancels it because of"
		}
		e.Reason = fmt.Sprintf("%s%s %s %s to %s", rule, d.name, verb, c.show(at(s.open)), c.show(at(s.close)))
		return
	}
	for _, r := range c.requires {
		if _, ok := r.open.find(nano); !ok {
			e.Cause, e.By = ByRequires, r.Name
			e.Reason = rule + "the required window set " + r.Name + " is closed"
			return
		}
	}
	e.Cause, e.Reason = ByNone, "no rule opens at this time"
}

// show is local time with the zone's short name.
func (c *Compiled) show(t time.Time) string { return t.In(c.Zone).Format("2006-01-02 15:04 MST") }
