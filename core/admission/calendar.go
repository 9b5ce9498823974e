package admission

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

const (
	// Ahead is the horizon of a calendar, in days.
	Ahead = windows.DefaultDays
	// A horizon is worked out again when less than this is left of it.
	leastAhead = 300 * 24 * time.Hour
	// maxKept bounds the sets that are kept compiled, a variant for each bound approval.
	maxKept = 4096
)

// Calendar is the window definitions of a run or a service, compiled on demand and shared by all
// hosts. The definitions never change; an edit makes a new Calendar. It is safe for concurrent use.
type Calendar struct {
	docs  []windows.Document
	defs  *windows.Definitions
	bound map[string]bool // sets with an approval that is bound to a change or to targets

	unfrozen func() *Calendar // made when it is first asked for

	mu   sync.Mutex
	kept map[key]*windows.Compiled
}

// key is one compiled set: for which work matters only where an approval is bound.
type key struct {
	set  string
	work windows.Work
}

// NewCalendar reads documents, as windows.Read gives them. The error is windows.Problems.
func NewCalendar(docs []windows.Document) (*Calendar, error) {
	defs, err := windows.Parse(docs...)
	if err != nil {
		return nil, err
	}
	b := FromDefinitions(defs)
	b.docs = slices.Clone(docs)
	return b, nil
}

// FromDefinitions makes a calendar of definitions that the caller no longer changes. It has no
// Documents.
func FromDefinitions(defs *windows.Definitions) *Calendar {
	b := &Calendar{defs: defs, bound: map[string]bool{}, kept: map[key]*windows.Compiled{}}
	for name := range defs.Sets {
		b.bound[name] = defs.Bound(name)
	}
	b.unfrozen = sync.OnceValue(func() *Calendar { return FromDefinitions(defs.WithoutFreezes()) })
	return b
}

// Liftable returns the earliest possible start if all freezes were lifted, which may happen any
// time: not after next, the start that Ask gave. A job that is due then can be suspended and
// signalled; one that is not due yet cannot.
func (b *Calendar) Liftable(now time.Time, q Question, next time.Time) time.Time {
	if len(b.defs.Freezes) == 0 {
		return next
	}
	a, err := b.unfrozen().Ask(now, q)
	switch {
	case err != nil || a.Reapprove:
		return next
	case a.Open:
		return now
	case !a.Next.IsZero() && a.Next.Before(next):
		return a.Next
	}
	return next
}

// Documents returns the documents that NewCalendar was given. The caller must not change them.
func (b *Calendar) Documents() []windows.Document { return b.docs }

// Definitions returns the calendar's definitions. The caller must not change them.
func (b *Calendar) Definitions() *windows.Definitions { return b.defs }

// Ask reports whether work may start at now on a host. A set that is not known is closed, and the
// answer has the reason. The error, core.ErrInvalid, is for a need that is not known.
func (b *Calendar) Ask(now time.Time, q Question) (Answer, error) {
	if q.Need <= 0 {
		return Answer{}, fmt.Errorf("window set %q: %w: how long the steps take is not known; give each of them needs", q.Set, core.ErrInvalid)
	}
	if q.Set == "" {
		return Answer{By: windows.ByUnknown, Overrun: windows.Finish, Zone: time.UTC,
			Reason: "the host has no window set, so it is closed; give it window_set: in the inventory"}, nil
	}
	work := windows.Work{Change: q.Change, Targets: q.Targets}
	c := b.Compiled(now, q.Set, work)
	if _, err := c.Next(now, q.Need); err != nil && c.Reason() == "" && now.Sub(c.Horizon.From) > 24*time.Hour {
		c = b.compile(now, q.Set, work) // perhaps there is one behind this horizon
	}
	e, err := c.Explain(now, q.Need)
	if err != nil {
		return Answer{}, fmt.Errorf("window set %q: %w: %w", q.Set, core.ErrInvalid, err)
	}
	a := Answer{Open: e.Fits, Overrun: cmp.Or(c.Overrun, windows.Finish), Next: e.Next, By: e.Cause, Reason: e.Reason, Zone: c.Zone}
	if e.Fits {
		a.Close, a.Next = e.Window.Close, time.Time{}
	}
	if why := over(c, now, q, a); why != "" {
		return Answer{Reapprove: true, Overrun: a.Overrun, By: a.By, Zone: a.Zone, Reason: string(core.NeedsReapproval) + ": " + why}, nil
	}
	if e.NoNext != "" && e.NoNext != e.Reason {
		a.Reason += "; " + e.NoNext
	}
	return a, nil
}

// over returns why the host must not wait any longer, or "".
func over(c *windows.Compiled, now time.Time, q Question, a Answer) string {
	if carry := c.Carry; carry != nil {
		switch {
		case carry.Max > 0 && q.Missed >= carry.Max:
			return fmt.Sprintf("it missed %d of the %d windows that window set %s lets it carry over", q.Missed, carry.Max, c.Name)
		case carry.Deadline.IsZero():
		case !now.Before(carry.Deadline):
			return fmt.Sprintf("the carry-over deadline of window set %s, %s, has passed", c.Name, Local(carry.Deadline, c.Zone))
		case !a.Open && !a.Next.IsZero() && !a.Next.Before(carry.Deadline):
			return fmt.Sprintf("the next start would be %s, after the carry-over deadline of window set %s, %s", Local(a.Next, c.Zone), c.Name, Local(carry.Deadline, c.Zone))
		}
	}
	if a.Open || !a.Next.IsZero() {
		return ""
	}
	if spent, why := c.Spent(now, q.Need); spent {
		return why
	}
	return ""
}

// Compiled is a set worked out around now, at least 300 days ahead, for forecasts and for
// display. Approvals that are bound to other work do not hold in it.
func (b *Calendar) Compiled(now time.Time, set string, work windows.Work) *windows.Compiled {
	if c := b.find(now, b.key(set, work)); c != nil {
		return c
	}
	return b.compile(now, set, work)
}

func (b *Calendar) key(set string, work windows.Work) key {
	if !b.bound[set] {
		work = windows.Work{}
	}
	return key{set, work}
}

func (b *Calendar) find(now time.Time, k key) *windows.Compiled {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.kept[k]
	switch {
	case c == nil:
		return nil
	case c.Reason() != "": // time does not change that
		return c
	case now.Before(c.Horizon.From) || c.Horizon.To.Sub(now) < leastAhead:
		return nil
	}
	return c
}

// Warm compiles sets together, which is faster than one by one as they are asked for. Sets
// with bound approvals are left to Ask.
func (b *Calendar) Warm(now time.Time, sets ...string) {
	var missing []string
	for _, set := range sets {
		if k := (key{set: set}); !b.bound[set] && b.find(now, k) == nil {
			missing = append(missing, set)
		}
	}
	b.keep(windows.Work{}, b.defs.CompileFor(windows.Ahead(now, Ahead), windows.Work{}, missing...))
}

func (b *Calendar) compile(now time.Time, set string, work windows.Work) *windows.Compiled {
	k := b.key(set, work)
	return b.keep(k.work, b.defs.CompileFor(windows.Ahead(now, Ahead), k.work, set))[set]
}

// keep remembers sets, and returns them. Sets that nobody defines are not kept: their names
// come from inventories, and there may be many.
func (b *Calendar) keep(work windows.Work, sets map[string]*windows.Compiled) map[string]*windows.Compiled {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, c := range sets {
		if b.defs.Sets[name] == nil {
			continue
		}
		if len(b.kept) >= maxKept {
			clear(b.kept)
		}
		b.kept[key{name, work}] = c
	}
	return sets
}
