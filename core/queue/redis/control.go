package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Cancel ends the run. No job of it starts after the first step; the others end what is not leased.
func (q *Queue) Cancel(ctx context.Context, run, reason string) error {
	if reason == "" {
		reason = "cancelled by an operator"
	}
	if err := q.end(ctx, run, reason, ""); err != nil {
		return fmt.Errorf("cancel run %q: %w", run, err)
	}
	return nil
}

// end cancels a run, or stops it.
func (q *Queue) end(ctx context.Context, run, reason, stop string) error {
	for {
		left, err := q.number(ctx, q.scripts.cancel, run, reason, stop)
		if err != nil || left == 0 {
			return err
		}
	}
}

// Adjust pauses, resumes, reweights, stops, or releases a wave.
func (q *Queue) Adjust(ctx context.Context, run string, a queue.Adjust) error {
	if err := a.Validate(); err != nil {
		return fmt.Errorf("adjust run %q: %w", run, err)
	}
	var paused, weight, limit string
	if a.Paused != nil {
		paused = strconv.Itoa(int(flag(*a.Paused)))
	}
	if a.Weight != nil {
		weight = strconv.Itoa(*a.Weight)
	}
	if a.Limit != nil {
		limit = strconv.Itoa(*a.Limit)
	}
	for {
		answer, err := q.number(ctx, q.scripts.adjust, run, paused, weight, limit)
		if err != nil {
			return fmt.Errorf("adjust run %q: %w", run, err)
		}
		if answer == 0 { // it is over: stopping it changes nothing
			return nil
		}
		if answer == 1 {
			break
		}
		paused, weight = "", "" // only a part of the wave is released so far
	}
	if a.Stop == "" {
		return nil
	}
	if err := q.end(ctx, run, a.Stop, "1"); err != nil {
		return fmt.Errorf("stop run %q: %w", run, err)
	}
	return nil
}

// Wake ends the suspension of the run's jobs that wait for event, 128 in one step: so other runs are served in between, and
// some of the jobs may be leased before the last one is woken.
func (q *Queue) Wake(ctx context.Context, run, event string) (int, error) {
	return q.eachAwaiting(ctx, "wake", run, event)
}

// Dismiss ends the run's jobs that wait for event as cancelled, in steps as Wake.
func (q *Queue) Dismiss(ctx context.Context, run, event, reason string) (int, error) {
	return q.eachAwaiting(ctx, "dismiss", run, event, reason)
}

func (q *Queue) eachAwaiting(ctx context.Context, verb, run, event string, reason ...any) (int, error) {
	if event == "" || len(event) > queue.MaxIDLength {
		return 0, fmt.Errorf("%s run %q: event is %d bytes, expected 1 to %d: %w", verb, run, len(event), queue.MaxIDLength, core.ErrInvalid)
	}
	for total, from := 0, 0; ; {
		v, err := q.eval(ctx, q.scripts.event, append([]any{run, event, from}, reason...)...)
		if err != nil {
			return total, fmt.Errorf("%s run %q: %w", verb, run, err)
		}
		r := newReply(v)
		n, next := r.int(), r.int()
		switch {
		case r.bad != nil:
			return total, r.end("event")
		case n < 0:
			return total, fmt.Errorf("%s run %q: no such run: %w", verb, run, core.ErrNotFound)
		}
		total += n
		if next < 0 {
			return total, nil
		}
		from = next
	}
}

// Redrive gives dead jobs a new life. It first ends what a stop has left over.
func (q *Queue) Redrive(ctx context.Context, run string, indexes ...int) (int, error) {
	args := []any{run}
	for _, i := range indexes {
		if i < 0 {
			return 0, fmt.Errorf("redrive run %q: there is no job %d: %w", run, i, core.ErrInvalid)
		}
		args = append(args, i)
	}
	total := 0
	for {
		page := args[:min(len(args), 1+redrivePage)]
		v, err := q.eval(ctx, q.scripts.redrive, page...)
		if err != nil {
			return total, fmt.Errorf("redrive run %q: %w", run, err)
		}
		r := newReply(v)
		n := r.int()
		switch n {
		case -1:
			return total, fmt.Errorf("redrive: run %q: %w", run, core.ErrNotFound)
		case -2:
			return total, fmt.Errorf("redrive: run %q is cancelled, no job of it may start: %w", run, core.ErrConflict)
		case -4:
			return total, fmt.Errorf("redrive: run %q has no job with such an index: %w", run, core.ErrInvalid)
		case -3:
			continue // the script has swept a part
		}
		total += n
		more := r.int() == 1
		if err := r.end("redrive"); err != nil {
			return total, err
		}
		if len(indexes) > 0 {
			args = append(args[:1], args[len(page):]...)
			more = len(args) > 1
		}
		if !more {
			return total, nil
		}
	}
}

const redrivePage = 128

// number runs a script about one run that answers a number, negative for an unknown run.
func (q *Queue) number(ctx context.Context, s *script, args ...any) (int, error) {
	v, err := q.eval(ctx, s, args...)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("queue: answer of script %s is a %T: %w", s.Name, v, core.ErrUnknown)
	}
	if n < 0 {
		return 0, fmt.Errorf("no such run: %w", core.ErrNotFound)
	}
	return int(n), nil
}
