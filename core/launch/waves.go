package launch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// advance takes the answer to an approval, and releases the next wave when it is its turn.
func (d *drive) advance(ctx context.Context) error {
	select {
	case a := <-d.answers:
		if a.err != nil {
			return d.cancel(ctx, fmt.Errorf("wave %d was not approved: %w", a.wave+1, a.err))
		}
		d.approved = a.wave
	default:
	}
	strategy := d.l.Playbook.Strategy
	last := rollout.Wave(d.l.Limits, d.status.Limit-1)
	p := rollout.Progress{
		Released: d.status.Limit, Settled: d.status.Ended(), Deferred: d.status.Deferred, Proven: d.proven[last], Succeeded: d.good[last], Complete: d.status.Complete,
		Held:     d.status.Phase != queue.Active || d.ending || d.ended != nil,
		Approved: d.approved, Began: d.began, Now: time.Now(),
	}
	limits := d.l.Limits
	if d.l.Snapshot.Turns != nil && !p.Complete {
		var stay bool
		var err error
		if limits, stay, err = d.takeTurns(ctx, &p); err != nil || stay {
			return err
		}
	}
	if !p.WaveDone(strategy) {
		d.doneAt = time.Time{}
	} else if d.doneAt.IsZero() {
		d.doneAt = time.Now()
	}
	p.Done = d.doneAt
	next := rollout.Next(limits, strategy, p)
	d.until = next.Until
	switch next.Action {
	case rollout.Release:
		return d.release(ctx, next)
	case rollout.Stop:
		return d.stop(ctx, next.Wave)
	case rollout.Ask:
		d.ask(ctx, next.Wave)
	case rollout.Delay:
		if d.paused < next.Wave {
			d.paused = next.Wave
			d.say(Event{Kind: EventPause, Wave: next.Wave, Until: next.Until})
		}
	}
	return nil
}

func (d *drive) release(ctx context.Context, next rollout.Decision) error {
	if next.Wave >= len(d.l.Limits) {
		if err := d.open(ctx, next); err != nil {
			return err
		}
	} else {
		if err := d.adjust(ctx, queue.Adjust{Limit: &next.Limit}); err != nil {
			return err
		}
		d.status.Limit = next.Limit
	}
	d.began, d.doneAt = time.Now(), time.Time{}
	d.say(Event{Kind: EventReleased, Wave: next.Wave})
	return nil
}

// stop stops the run behind a wave of which no host succeeded.
func (d *drive) stop(ctx context.Context, wave int) error {
	// The status may be newer than the records by which hosts count as succeeded.
	if n, err := d.records(ctx, 0); err != nil || n > 0 {
		return err
	}
	wave %= len(d.l.Limits)
	from := 0
	if wave > 0 {
		from = d.l.Limits[wave-1]
	}
	return d.adjust(ctx, queue.Adjust{Stop: failedWave(wave, len(d.l.Limits), d.outcome[from:d.l.Limits[wave]])})
}

// failedWave says why a run stops behind a wave of which no host succeeded.
func failedWave(wave, waves int, outcomes []core.Outcome) string {
	count := map[core.Outcome]int{}
	for _, o := range outcomes {
		count[o]++
	}
	var counts []string
	for _, o := range core.Outcomes() {
		if count[o] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	return fmt.Sprintf("no host of wave %d of %d succeeded (%s); to go on in such a case, write strategy: {on_failed_wave: continue}", wave+1, waves, strings.Join(counts, ", "))
}

// ask asks once for each wave, beside the following of the run.
func (d *drive) ask(ctx context.Context, wave int) {
	if d.asked >= wave {
		return
	}
	d.asked = wave
	if d.said < wave {
		d.said = wave
		d.say(Event{Kind: EventAsk, Wave: wave})
	}
	if d.o.Approve == nil {
		return
	}
	d.helpers.Go(func() {
		err := d.o.Approve(ctx, wave)
		if ctx.Err() == nil {
			d.answers <- answer{wave, err}
			d.wake()
		}
	})
}
