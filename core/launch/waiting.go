package launch

import (
	"time"

	"github.com/turnus/turnus/core/gate"
)

// waitingEvery is how often Drive works out what the waiting hosts wait for.
const waitingEvery = time.Second

// opening is what the waiting hosts of a run wait for.
type opening struct {
	set    string
	at     time.Time // zero: no opening is known
	zone   *time.Location
	reason string // why it is closed now
}

// news tells whether an opening is worth telling after the one that was told: another set or
// time or, where no time is known, another reason.
func (o opening) news(told opening) bool {
	switch {
	case o.set != told.set:
		return true
	case o.at.IsZero():
		return o.reason != told.reason
	}
	return !o.at.Equal(told.at)
}

// tellWaiting says when hosts wait for windows, and when the next opens; again when that
// changes. It looks at the newest windows, so that an edit shows.
func (d *drive) tellWaiting(now time.Time) {
	if d.o.Windows == nil || d.l.Starts == nil || d.status.Complete || now.Sub(d.lookedAt) < waitingEvery {
		return
	}
	d.lookedAt = now
	if d.status.Deferred == 0 {
		d.waits = opening{}
		return
	}
	next, ok := d.opening(d.o.Windows(), now)
	if !ok || !next.news(d.waits) {
		return
	}
	d.waits = next
	d.say(Event{Kind: EventWaiting, Waiting: d.status.Deferred, Set: next.set, Until: next.at, Zone: next.zone, Reason: next.reason})
}

// opening is the next of the windows that released hosts without an outcome wait for.
func (d *drive) opening(book *gate.Book, now time.Time) (opening, bool) {
	type asked struct {
		set  string
		need time.Duration
	}
	seen := map[asked]bool{}
	var next opening
	found := false
	for i, start := range d.l.Starts[:min(d.status.Limit, len(d.l.Starts))] {
		k := asked{start.Set, start.Need}
		if d.outcome[i] != "" || seen[k] || start.Need <= 0 {
			continue
		}
		seen[k] = true
		g := d.l.Snapshot.Windows
		a, err := book.Ask(now, gate.Question{Set: k.set, Need: k.need, Change: g.Change, Targets: g.Targets[k.set]})
		if err != nil || a.Open {
			continue
		}
		if !found || !a.Next.IsZero() && (next.at.IsZero() || a.Next.Before(next.at)) {
			next, found = opening{start.Set, a.Next, a.Zone, a.Reason}, true
		}
	}
	return next, found
}
