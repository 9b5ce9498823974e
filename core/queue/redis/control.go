package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Cancel ends the run. No job of it starts after the first step; the others end what is not leased.
func (q *Queue) Cancel(ctx context.Context, run string, reason core.Reason) error {
	if reason == "" {
		reason = "cancelled by an operator"
	}
	if err := q.end(ctx, run, reason, ""); err != nil {
		return fmt.Errorf("cancel run %q: %w", run, err)
	}
	return nil
}

// end cancels a run, or stops it.
func (q *Queue) end(ctx context.Context, run string, reason core.Reason, stop string) error {
	for {
		left, err := q.number(ctx, q.scripts.cancel, run, string(reason), stop)
		if err != nil || left == 0 {
			return err
		}
	}
}

// adjustPage is how many runs one call of adjust.lua changes.
const adjustPage = 256

// Adjust pauses, resumes, reweights, stops runs, or releases waves of them.
func (q *Queue) Adjust(ctx context.Context, runs ...queue.Adjust) []error {
	var good []int
	answers := queue.AdjustEach(runs, func(queue.Adjust) error { return nil })
	for i := range runs {
		if answers[i] == nil {
			good = append(good, i)
		}
	}
	for page := range slices.Chunk(good, adjustPage) {
		q.adjust(ctx, runs, answers, page)
	}
	return answers
}

// adjust changes those of runs that list names, until their waves are released, and stops those
// whose Adjust asks for it.
func (q *Queue) adjust(ctx context.Context, runs []queue.Adjust, answers []error, list []int) {
	again := false
	for len(list) > 0 {
		v, err := q.eval(ctx, q.scripts.adjust, packAdjusts(runs, list, again))
		if err != nil {
			for _, i := range list {
				answers[i] = fmt.Errorf("adjust run %q: %w", runs[i].Run, err)
			}
			return
		}
		var left []int
		r := newReply(v)
		for _, i := range list {
			switch r.int() {
			case 2:
				left = append(left, i)
			case 1:
				if runs[i].Stop != "" {
					answers[i] = q.end(ctx, runs[i].Run, runs[i].Stop, "1")
				}
			case -1:
				answers[i] = fmt.Errorf("no such run: %w", core.ErrNotFound)
			}
			if answers[i] == nil {
				answers[i] = r.end("adjust")
			}
			if answers[i] != nil {
				answers[i] = fmt.Errorf("adjust run %q: %w", runs[i].Run, answers[i])
			}
		}
		list, again = left, true
	}
}

// packAdjusts returns the input of adjust.lua; again, only the runs that were not all released.
func packAdjusts(runs []queue.Adjust, list []int, again bool) []byte {
	b := appendList(nil, 5*len(list))
	for _, i := range list {
		a := &runs[i]
		var paused, weight, most, limit string
		if a.Paused != nil && !again {
			paused = strconv.Itoa(int(flag(*a.Paused)))
		}
		if a.Weight != nil && !again {
			weight = strconv.Itoa(*a.Weight)
		}
		if a.MaxInFlight != nil && !again {
			most = strconv.Itoa(*a.MaxInFlight)
		}
		if a.Limit != nil {
			limit = strconv.Itoa(*a.Limit)
		}
		b = appendText(appendText(appendText(appendText(appendText(b, a.Run), paused), weight), most), limit)
	}
	return b
}

// Signal ends the suspension of the run's jobs that wait for event, 128 in one step: so other runs
// are served in between, and some of the jobs may be leased before the last one is signalled.
func (q *Queue) Signal(ctx context.Context, run, event string) (int, error) {
	return q.eachAwaiting(ctx, "wake", run, event)
}

// Dismiss ends the run's jobs that wait for event as cancelled, in steps as Signal.
func (q *Queue) Dismiss(ctx context.Context, run, event string, reason core.Reason) (int, error) {
	return q.eachAwaiting(ctx, "dismiss", run, event, string(reason))
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
