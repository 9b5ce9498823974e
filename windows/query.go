package windows

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
)

// ErrClosed is the error of Next when no start fits.
var ErrClosed = errors.New("no window fits")

// ErrNeed is returned for a need that is not known. It satisfies errors.Is(err, ErrInvalid).
var ErrNeed = fmt.Errorf("%w need: how long the work takes must be known, and more than none", ErrInvalid)

// index answers which start fits first. It holds the windows, and for each the next longer one.
type index struct {
	spans  spans
	longer []int32 // index of the next window that is longer; len(spans): none
}

func newIndex(list spans) index {
	x := index{list, make([]int32, len(list))}
	for i := len(list) - 1; i >= 0; i-- {
		j := int32(i + 1)
		for int(j) < len(list) && list[j].close-list[j].open <= list[i].close-list[i].open {
			j = x.longer[j]
		}
		x.longer[i] = j
	}
	return x
}

// next is the first start at or after t that leaves need before close.
func (x index) next(t, need int64) (start int64, ok bool) {
	i := sort.Search(len(x.spans), func(i int) bool { return x.spans[i].close > t })
	if i == len(x.spans) {
		return 0, false
	}
	if start := max(t, x.spans[i].open); start+need <= x.spans[i].close {
		return start, true
	}
	for i++; i < len(x.spans); i = int(x.longer[i]) {
		if x.spans[i].close-x.spans[i].open >= need {
			return x.spans[i].open, true
		}
	}
	return 0, false
}

// Reason is why the whole set is closed because something is unknown, or "".
func (c *Compiled) Reason() string { return c.closed }

// Next is the first instant at or after t at which work that needs this long may start: it
// is done before close, and the cutoff is kept. Equality fits. ErrNeed if need is not known;
// an error with the reason that satisfies errors.Is(err, ErrClosed) if nothing fits.
func (c *Compiled) Next(t time.Time, need time.Duration) (time.Time, error) {
	if need <= 0 {
		return time.Time{}, ErrNeed
	}
	if c.closed == "" && !t.Before(c.Horizon.From) && t.Before(c.Horizon.To) {
		if start, ok := c.fits.next(t.UnixNano(), int64(max(need, c.Cutoff))); ok {
			if found := at(start); found.Before(c.Horizon.To) {
				return found, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s", ErrClosed, c.whyNone(t, need))
}

// Spent reports whether no work of this need can start any more from t on, even if nothing were
// frozen, denied or required: no rule that is approved leaves room for it within the horizon.
// Lifting a freeze does not help then; somebody must approve or edit. The reason is empty if it is
// not so.
func (c *Compiled) Spent(t time.Time, need time.Duration) (spent bool, reason string) {
	_, err := c.Next(t, need)
	if err == nil || c.closed != "" || need <= 0 || t.Before(c.Horizon.From) || !t.Before(c.Horizon.To) {
		return false, ""
	}
	list := make([]span, 0, len(c.allowed))
	for _, p := range c.allowed {
		list = append(list, p.span)
	}
	from, least := t.UnixNano(), int64(max(need, c.Cutoff))
	for _, s := range unite(list) {
		if start := max(from, s.open); start+least <= s.close && start < c.Horizon.To.UnixNano() {
			return false, ""
		}
	}
	for _, w := range c.unapproved {
		if w.Close.Sub(maxTime(t, w.Open)) >= max(need, c.Cutoff) {
			return true, fmt.Sprintf("%s would open at %s, but: %s", strings.Join(w.Rules, ", "), c.show(w.Open), w.Unapproved)
		}
	}
	return true, strings.TrimPrefix(err.Error(), ErrClosed.Error()+": ")
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *Compiled) whyNone(t time.Time, need time.Duration) string {
	days := int(c.Horizon.To.Sub(c.Horizon.From).Hours()) / 24
	switch {
	case c.closed != "":
		return fmt.Sprintf("window set %s is closed: %s", c.Name, c.closed)
	case t.Before(c.Horizon.From) || !t.Before(c.Horizon.To):
		return fmt.Sprintf("window set %s is not worked out for %s", c.Name, t.UTC().Format(time.RFC3339))
	case len(c.windows) == 0:
		return fmt.Sprintf("window set %s does not open within %d days", c.Name, days)
	case max(need, c.Cutoff) > c.longest:
		return fmt.Sprintf("window set %s: the longest window within %d days lasts %s, needed are %s", c.Name, days, FormatDuration(c.longest), FormatDuration(max(need, c.Cutoff)))
	}
	return fmt.Sprintf("window set %s: no window within %d days leaves %s", c.Name, days, FormatDuration(max(need, c.Cutoff)))
}

// Occurrences lists the windows that share time with [from, to), by opening. It includes windows
// that are not approved, with the reason in Unapproved; they are not open.
func (c *Compiled) Occurrences(from, to time.Time) []Window {
	i := sort.Search(len(c.windows), func(i int) bool { return c.windows[i].Close.After(from) })
	j := i
	for j < len(c.windows) && c.windows[j].Open.Before(to) {
		j++
	}
	out := append([]Window(nil), c.windows[i:j]...)
	held := false
	for _, w := range c.unapproved {
		if w.Close.After(from) && w.Open.Before(to) {
			out, held = append(out, w), true
		}
	}
	if held {
		sort.SliceStable(out, func(i, j int) bool { return out[i].Open.Before(out[j].Open) })
	}
	return out
}
