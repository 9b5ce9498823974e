package engine

import (
	"time"

	"github.com/turnus/turnus/core/admission"
)

// waitingEvery is how often it is worked out what hosts wait for, while some do.
const waitingEvery = time.Second

// Opening is the next window that the waiting hosts of a run wait for.
type Opening struct {
	Set    string    `json:"set,omitempty"`
	At     time.Time `json:"at,omitzero"` // zero: no opening is known
	Reason string    `json:"reason,omitempty"`

	zone *time.Location
}

// news reports whether an opening is worth a report after the reported one: another set or time or,
// where no time is known, another reason.
func (o *Opening) news(reported *Opening) bool {
	switch {
	case reported == nil || o.Set != reported.Set:
		return true
	case o.At.IsZero():
		return o.Reason != reported.Reason
	}
	return !o.At.Equal(reported.At)
}

// waiting reports that hosts wait for windows, and when the next opens; again when that changes. It
// asks the newest windows, so that an edit shows.
func (d *decider) waiting() {
	if d.Windows == nil || d.Launch.Starts == nil {
		return
	}
	if d.Status.Deferred == 0 {
		d.p.Opening, d.p.Waits = nil, time.Time{}
		return
	}
	d.until(d.Now.Add(waitingEvery))
	if d.p.Waits.IsZero() {
		d.p.Waits = d.Now
	}
	if busy := d.Status.Limit-d.Status.Ended() > d.Status.Deferred; busy && d.p.Opening == nil && d.Now.Sub(d.p.Waits) < waitingEvery {
		return // more of them may come to wait in a moment
	}
	next := d.opening()
	if next == nil || !next.news(d.p.Opening) {
		return
	}
	d.p.Opening = next
	d.notify(Event{Kind: EventWaiting, Waiting: d.Status.Deferred, Set: next.Set, Until: next.At, Zone: next.zone, Reason: next.Reason})
}

// opening is the next of the windows that released hosts without an outcome wait for; nil where all
// are open.
func (d *decider) opening() (next *Opening) {
	type asked struct {
		set  string
		need time.Duration
	}
	seen := map[asked]bool{}
	for i, start := range d.Launch.Starts[:min(d.Status.Limit, len(d.Launch.Starts))] {
		k := asked{start.Set, start.Need}
		if d.Results.outcome[i] != "" || seen[k] || start.Need <= 0 {
			continue
		}
		seen[k] = true
		g := d.Launch.Snapshot.Windows
		a, err := d.Windows.Ask(d.Now, admission.Question{Set: k.set, Need: k.need, Change: g.Change, Targets: g.Targets[k.set]})
		if err != nil || a.Open {
			continue
		}
		if next == nil || !a.Next.IsZero() && (next.At.IsZero() || a.Next.Before(next.At)) {
			next = &Opening{Set: start.Set, At: a.Next, Reason: a.Reason, zone: a.Zone}
		}
	}
	return next
}
