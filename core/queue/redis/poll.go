package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// pollPage is how many runs one call of look.lua reads, so that turns continue in between.
const pollPage = 64

func phases() []queue.Phase {
	return []queue.Phase{queue.Active, queue.Paused, queue.Stopped, queue.Cancelled, queue.Finished}
}

// looked is the answer of look.lua about a run.
type looked struct {
	load       queue.RunLoad
	entries    []entry
	more       bool // entries
	events     map[string]int
	moreEvents bool
	err        error // of this run
}

// Poll reads status and records of runs.
func (q *Queue) Poll(ctx context.Context, most int, asks ...queue.Ask) []queue.Sight {
	if refused := queue.RefusePoll(most, asks); refused != nil {
		return refused
	}
	sights := make([]queue.Sight, len(asks))
	list := make([]ask, len(asks))
	for i, a := range asks {
		at, ok := parseCursor(a.Cursor)
		if !ok {
			at = position{entry: firstEntry} // it is not read
			sights[i].Err = fmt.Errorf("poll run %q: cursor %q was not given out: %w", a.Run, a.Cursor, core.ErrInvalid)
		}
		list[i] = ask{a.Run, at, a.Awaited}
	}
	answers, err := q.poll(ctx, 0, most, list)
	if err != nil {
		return queue.SeeNone(asks, err)
	}
	for i, a := range asks {
		s := &sights[i]
		if s.Err == nil {
			*s = q.sight(ctx, a, list[i].at, most, &answers[i])
		}
		if s.Err != nil {
			*s = queue.Sight{Next: a.Cursor, Err: s.Err}
		}
	}
	return sights
}

// sight takes what was asked for out of what was read.
func (q *Queue) sight(ctx context.Context, a queue.Ask, at position, most int, l *looked) queue.Sight {
	s := queue.Sight{Status: l.load.Status, Err: l.err}
	if s.Err != nil {
		return s
	}
	if l.more && len(l.entries) == 0 { // others took what one answer may hold
		s.Next, s.More = a.Cursor, true
		return s
	}
	var whole bool
	if s.Records, at, whole, s.Err = take(l.entries, at, most); s.Err != nil {
		return s
	}
	s.Next, s.More = at.String(), l.more || !whole
	if !a.Awaited || s.Status.Suspended == 0 {
		return s
	}
	if s.Awaited = l.events; l.moreEvents {
		s.Partial = true
		s.Awaited, s.Err = q.awaited(ctx, a.Run)
	}
	return s
}

// ask is one run to check.
type ask struct {
	run    string
	at     position
	events bool
}

// poll reads runs in one round trip, without their records where most is 0.
func (q *Queue) poll(ctx context.Context, ahead time.Duration, most int, asks []ask) ([]looked, error) {
	var args [][]any
	for page := range slices.Chunk(asks, pollPage) {
		b := appendList(nil, 3*len(page))
		for _, a := range page {
			b = appendText(appendText(b, a.run), a.at.entry)
			b = appendInt(b, uint64(flag(a.events)))
		}
		args = append(args, []any{queue.EventWindow, ahead.Microseconds(), most, b})
	}
	replies, err := q.evalAll(ctx, q.scripts.poll, args)
	if err != nil {
		return nil, err
	}
	list := make([]looked, 0, len(asks))
	for i, v := range replies {
		text, _ := v.(string)
		r := &wire{s: text}
		r.list()
		for _, a := range asks[i*pollPage : min((i+1)*pollPage, len(asks))] {
			list = append(list, readLooked(r, a.run))
		}
		if err := r.end("look"); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readLooked(r *wire, run string) looked {
	switch r.int() {
	case 0:
		return looked{err: fmt.Errorf("status of run %q: no such run: %w", run, core.ErrNotFound)}
	case 2:
		return looked{err: fmt.Errorf("records of run %q: the cursor was not given out by this queue: %w", run, core.ErrInvalid)}
	}
	l := looked{load: readProgress(r, run)}
	small := r.text()
	for range r.list() / 2 {
		l.entries = append(l.entries, entry{r.text(), r.text()})
	}
	if small != "" {
		l.entries = []entry{{"", small}}
	}
	l.more = r.int() == 1
	if n := r.list(); n > 0 {
		l.events, l.moreEvents = map[string]int{}, r.int() == 1
		for range (n - 1) / 2 {
			event := strings.Clone(r.text())
			l.events[event] = r.int()
		}
	}
	return l
}

// readProgress reads the result of progress in progress.lua.
func readProgress(r *wire, run string) queue.RunLoad {
	r.list()
	st := queue.RunLoad{Status: queue.Status{Run: run, Outcomes: map[core.Outcome]int{}}}
	if p := r.int(); p >= 0 && p < len(phases()) {
		st.Phase = phases()[p]
	}
	st.Complete = r.int() == 1
	st.Total, st.Limit, st.InFlight, st.Waiting = r.int(), r.int(), r.int(), r.int()
	st.Suspended, st.Blocked = r.int(), r.int()
	st.Served = time.Duration(r.int64()) * time.Microsecond
	st.Ready = r.int() == 1
	st.Pending = st.Total - st.InFlight - st.Waiting - st.Suspended - st.Blocked
	for _, o := range core.Outcomes() {
		if n := r.int(); n > 0 {
			st.Outcomes[o] = n
			st.Pending -= n
		}
	}
	st.Tenant, st.Reason = strings.Clone(r.text()), core.Reason(strings.Clone(r.text()))
	st.Timed = r.int() + st.Waiting + st.Suspended
	st.Since = time.Duration(r.int64()) * time.Microsecond
	st.Deferred = r.int()
	st.Late, st.Soon, st.MaxInFlight, st.Weight = r.int(), r.int(), r.int(), r.int()
	return st
}
