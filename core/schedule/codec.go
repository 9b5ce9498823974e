package schedule

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// The first byte of the data is its format. Format 1 was kept in Redis, and has triggers that were
// not launched yet. Format 3 has the time of a schedule that triggers once; others are kept in
// format 2, which earlier versions read.
const (
	formatOnce = 3
	format     = 2
	formatV1   = 1
)

// Encode packs a definition and its state into a row's data. An idle schedule takes about 40 bytes
// beside its strings. The id is the row's, and not in the data.
func Encode(d Definition, s State) []byte {
	w := writer{b: make([]byte, 0, 64+len(d.Payload)), id: d.ID}
	if d.At.IsZero() {
		w.byte(format)
		w.text(d.Cron)
	} else {
		w.byte(formatOnce)
		w.time(d.At)
	}
	w.text(d.Timezone)
	w.text(string(d.CatchUp))
	w.text(string(d.Overlap))
	w.int(int64(d.StartWithin / time.Second))
	w.int(int64(d.Jitter / time.Second))
	w.text(string(d.Payload))
	w.bool(d.Paused)

	w.time(s.Since)
	w.bool(s.Paused)
	w.text(s.Reason)
	w.int(s.Triggered)
	w.int(s.Skipped)
	list(&w, s.Active, func(r Run) { w.run(r.ID); w.text(string(r.Cause)); w.time(r.At) })
	list(&w, s.Claimed, func(c Claim) {
		w.run(c.RunID)
		w.time(c.Nominal)
		w.text(string(c.Cause))
		w.time(c.Decided)
		list(&w, c.Cancel, func(run string) { w.run(run) })
		w.int(int64(c.Attempts))
		w.time(c.After)
		w.text(c.Err)
	})
	w.bool(s.Waiting != nil)
	if s.Waiting != nil {
		w.time(s.Waiting.Nominal)
		w.text(string(s.Waiting.Cause))
	}
	list(&w, s.Backfill, func(b Span) { w.time(b.After); w.time(b.To) })
	list(&w, s.Last, func(r Result) {
		w.run(r.RunID)
		w.time(r.Nominal)
		w.int(int64(r.Count))
		w.text(string(r.Cause))
		w.bool(r.Triggered)
		w.time(r.At)
		w.text(string(r.Reason))
	})
	return w.b
}

// Decode reads what Encode wrote. Errors wrap core.ErrInvalid.
func Decode(id ID, data []byte) (d Definition, s State, err error) {
	r := reader{b: data, id: id}
	f := r.byte()
	if r.err == nil && (f < formatV1 || f > formatOnce) {
		return d, s, fmt.Errorf("schedule %s is kept in format %d, this program reads %d to %d, and a newer one may read it: %w", id, f, formatV1, formatOnce, core.ErrInvalid)
	}
	d.ID = id
	if f == formatOnce {
		d.At = r.time()
	} else {
		d.Cron = r.text()
	}
	d.Timezone = r.text()
	d.CatchUp = CatchUp(r.text())
	d.Overlap = Overlap(r.text())
	d.StartWithin = r.seconds()
	d.Jitter = r.seconds()
	if payload := r.text(); payload != "" {
		d.Payload = []byte(payload)
	}
	d.Paused = r.bool()

	s.Since = r.time()
	s.Paused = r.bool()
	s.Reason = r.text()
	s.Triggered = r.int()
	s.Skipped = r.int()
	s.Active = items(&r, func() Run { return Run{ID: r.run(), Cause: Cause(r.text()), At: r.time()} })
	s.Claimed = items(&r, func() Claim {
		return Claim{RunID: r.run(), Nominal: r.time(), Cause: Cause(r.text()), Decided: r.time(), Cancel: items(&r, r.run), Attempts: int(r.int()), After: r.time(), Err: r.text()}
	})
	if r.bool() {
		s.Waiting = &Waiting{Nominal: r.time(), Cause: Cause(r.text())}
	}
	s.Backfill = items(&r, func() Span { return Span{After: r.time(), To: r.time()} })
	if f == formatV1 { // the server that was asked had launched them
		items(&r, func() string { run := r.run(); r.time(); return run })
	}
	s.Last = items(&r, func() Result {
		return Result{RunID: r.run(), Nominal: r.time(), Count: int(r.int()), Cause: Cause(r.text()), Triggered: r.bool(), At: r.time(), Reason: core.Reason(r.text())}
	})
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	if r.err != nil {
		return Definition{}, State{}, fmt.Errorf("schedule %s: %w", id, r.err)
	}
	return d, s, nil
}

// words are the texts that are kept as one byte. Their order is part of the format.
func words() [16]string {
	return [16]string{"", string(CatchUpSkip), string(CatchUpOnce), string(CatchUpAll), string(OverlapQueue), string(OverlapCancel),
		string(ByCron), string(ByCatchUp), string(ByBackfill), string(ByTrigger), "UTC"}
}

type writer struct {
	b  []byte
	id ID
}

func (w *writer) byte(v byte) { w.b = append(w.b, v) }

func (w *writer) int(v int64) { w.b = binary.AppendVarint(w.b, v) }

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// time writes milliseconds since 2020, and 0 for the zero time.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.int(0)
		return
	}
	ms := t.UnixMilli() - epoch
	if ms >= 0 {
		ms++
	}
	w.int(ms)
}

const epoch = 1577836800000 // 2020, in Unix milliseconds

// text writes a word as one byte, all else as its length and bytes.
func (w *writer) text(v string) {
	for i, word := range words() {
		if v == word && (i == 0 || v != "") {
			w.byte(byte(i))
			return
		}
	}
	w.b = binary.AppendUvarint(w.b, uint64(len(v)+len(words())))
	w.b = append(w.b, v...)
}

// How a run's id is kept. The numbers are part of the format.
const (
	runWhole  = 0 // all of it
	runTail   = 1 // what follows the schedule's id
	runMinute = 2 // of a fire: minutes since 2020
)

const runStamp = "-20060102T1504Z" // see RunID

// run writes what of a run's id is not the schedule's. Of a fire that is a minute: a schedule keeps
// several.
func (w *writer) run(v string) {
	tail, own := strings.CutPrefix(v, w.id.String())
	at, err := time.Parse(runStamp, tail)
	switch {
	case !own:
		w.byte(runWhole)
		w.text(v)
	case err != nil || at.Format(runStamp) != tail:
		w.byte(runTail)
		w.text(tail)
	default:
		w.byte(runMinute)
		w.int((at.UnixMilli() - epoch) / time.Minute.Milliseconds())
	}
}

func list[T any](w *writer, all []T, each func(T)) {
	w.int(int64(len(all)))
	for _, v := range all {
		each(v)
	}
}

type reader struct {
	b   []byte
	id  ID
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("its kept data cannot be read: %w", core.ErrInvalid)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) seconds() time.Duration {
	v := r.int()
	if v < 0 || v > int64(MaxStartWithin/time.Second) {
		r.fail()
		return 0
	}
	return time.Duration(v) * time.Second
}

func (r *reader) time() time.Time {
	ms := r.int()
	if ms == 0 {
		return time.Time{}
	}
	if ms > 0 {
		ms--
	}
	t := time.UnixMilli(ms + epoch).UTC()
	if ms > 1<<50 || t.Before(minTime) || t.After(maxTime) {
		r.fail()
		return time.Time{}
	}
	return t
}

func (r *reader) text() string {
	v, n := binary.Uvarint(r.b)
	w := words()
	switch {
	case n <= 0 || v > uint64(len(w)+len(r.b)-n):
		r.fail()
		return ""
	case v < uint64(len(w)):
		r.b = r.b[n:]
		return w[v]
	}
	end := n + int(v) - len(w)
	text := string(r.b[n:end])
	r.b = r.b[end:]
	return text
}

func (r *reader) run() string {
	switch r.byte() {
	case runWhole:
		return r.text()
	case runTail:
		return r.id.String() + r.text()
	case runMinute:
		minute := r.int()
		at := time.UnixMilli(minute*time.Minute.Milliseconds() + epoch).UTC()
		if minute < -1<<32 || minute > 1<<32 || at.Year() < 0 || at.Year() > 9999 {
			r.fail()
			return ""
		}
		return r.id.String() + at.Format(runStamp)
	}
	r.fail()
	return ""
}

// items reads a list; a wrong length ends at the end of the data.
func items[T any](r *reader, each func() T) []T {
	n := r.int()
	if n < 0 || n > int64(len(r.b)) {
		r.fail()
		return nil
	}
	var out []T
	for range n {
		if r.err != nil {
			return nil
		}
		out = append(out, each())
	}
	return out
}
