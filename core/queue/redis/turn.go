package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Turn acknowledges what is finished and leases what fits, in one round trip.
func (q *Queue) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := t.Validate(); err != nil {
		return queue.TurnResult{}, err
	}
	v, err := q.eval(ctx, q.scripts.turn, t.Session, strconv.Itoa(t.Want), strconv.FormatInt(q.opt.SessionTTL.Microseconds(), 10), q.seen.Load(), packAcks(t.Acks))
	if err != nil {
		return queue.TurnResult{}, err
	}
	text, _ := v.(string)
	if text == "GONE" {
		q.seen.Store(0) // an emptied queue may give lower tokens
		return queue.TurnResult{}, fmt.Errorf("queue: turn: session %q: %w", t.Session, core.ErrSessionGone)
	}
	res, err := readTurn(text, t)
	for _, l := range res.Leases {
		q.given(l.Token)
	}
	return res, err
}

// packAcks is the text that turn.lua reads. An ack that names no possible job is sent with no run,
// and comes back as stale.
func packAcks(acks []queue.Ack) []byte {
	if len(acks) == 0 {
		return nil
	}
	runs := make(map[string]int, 8)
	names := make([]string, 0, 8)
	size := 0
	for i := range acks {
		a := &acks[i]
		if _, ok := runs[a.Job.Run]; !ok {
			names = append(names, a.Job.Run)
			runs[a.Job.Run] = len(names)
			size += len(a.Job.Run) + 5
		}
		size += 32 + len(a.Detail) + len(a.State) + len(a.Event)
	}
	b := appendList(make([]byte, 0, size), len(names))
	for _, n := range names {
		b = appendText(b, n)
	}
	b = appendList(b, 5*len(acks))
	for i := range acks {
		a := &acks[i]
		if a.Job.Index < 0 || a.Job.Index >= queue.MaxTargets || a.Token >= 1<<53 {
			b = appendInt(appendInt(appendText(appendInt(b, 0), "0"), 0), 0)
			b = appendInt(b, 0)
			continue
		}
		b = packAck(b, a, runs[a.Job.Run])
	}
	return b
}

// maxAfter keeps times exact in Lua's doubles.
const maxAfter = 100 * 365 * 24 * time.Hour

// packAck is the layout that turn.lua reads.
func packAck(b []byte, a *queue.Ack, run int) []byte {
	b = appendInt(b, uint64(run))
	var digits [20]byte
	b = appendText(b, strconv.AppendInt(digits[:0], int64(a.Job.Index), 10))
	b = appendInt(b, a.Token)
	b = appendInt(b, uint64(ackCode(a.Kind))+8*uint64(outcomeCode(a.Outcome)))
	detail, state, event, keep, cleanup := a.Detail, a.State, a.Event, false, a.Cleanup
	switch a.Kind {
	case queue.AckDone:
		if len(detail) == 0 {
			return appendInt(b, 0)
		}
		state, event = nil, ""
	case queue.AckRetry:
		event = ""
	case queue.AckSuspend:
		detail, keep = nil, a.KeepLocks
	case queue.AckReturn:
		detail, state, event = nil, nil, ""
	}
	b = appendInt(appendList(b, 6), uint64(min(max(a.After, 0), maxAfter).Microseconds()))
	b = appendText(appendText(appendText(appendBool(b, keep), detail), state), event)
	return appendInt(b, uint64(flag(cleanup)))
}

func appendUint56(b []byte, v uint64) []byte {
	var w [8]byte
	binary.BigEndian.PutUint64(w[:], v)
	return append(b, w[1:]...)
}

func ackCode(k queue.AckKind) byte {
	switch k {
	case queue.AckDone:
		return 1
	case queue.AckRetry:
		return 2
	case queue.AckSuspend:
		return 3
	case queue.AckReturn:
		return 4
	}
	return 0 // not reached: turns are validated
}

// outcomeCode is 1 + the position in core.Outcomes; 0 is none.
func outcomeCode(o core.Outcome) byte {
	for i, known := range core.Outcomes() {
		if o == known {
			return byte(i + 1)
		}
	}
	return 0
}

func readTurn(text string, t queue.Turn) (queue.TurnResult, error) {
	r := &wire{s: text}
	res := queue.TurnResult{Now: micro(r.int64()), Next: micro(r.int64()), More: r.int() == 1}
	runs := make([]string, r.list())
	for i := range runs {
		runs[i] = strings.Clone(r.text()) // the whole answer is not kept for the sake of a name
	}
	if n := r.list() / 4; n > 0 {
		res.Leases = make([]queue.Lease, n)
	}
	for i := range res.Leases {
		l := &res.Leases[i]
		ref := r.int()
		l.Job.Index, l.Host, l.Attempt = r.int(), strings.Clone(r.text()), r.int()
		if ref < 1 || ref > len(runs) {
			return res, fmt.Errorf("queue: answer of turn names run %d of %d: %w", ref, len(runs), core.ErrUnknown)
		}
		l.Job.Run = runs[ref-1]
	}
	token := uint64(r.int64())
	for i := range res.Leases {
		res.Leases[i].Token = token + uint64(i)
	}
	for range r.list() / 4 {
		i := r.int() - 1
		if i < 0 || i >= len(res.Leases) {
			return res, fmt.Errorf("queue: answer of turn has no lease %d: %w", i, core.ErrUnknown)
		}
		res.Leases[i].Data, res.Leases[i].State = r.bytes(), r.bytes()
		res.Leases[i].Over = core.Reason(strings.Clone(r.text()))
	}
	for range r.list() {
		if i := r.int() - 1; i >= 0 && i < len(t.Acks) {
			res.Stale = append(res.Stale, t.Acks[i].Job)
		}
	}
	for range r.list() / 2 {
		res.Stop = append(res.Stop, core.JobID{Run: strings.Clone(r.text()), Index: r.int()})
	}
	res.Doubt = r.int() == 1
	return res, r.end("turn")
}
