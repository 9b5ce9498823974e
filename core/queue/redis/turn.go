package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Turn acknowledges what is finished and leases what fits, in one round trip.
func (q *Queue) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := t.Validate(); err != nil {
		return queue.TurnResult{}, err
	}
	r, err := q.sessionCall(ctx, q.scripts.turn, t.Session, q.turnArgs(t)...)
	if err != nil {
		return queue.TurnResult{}, err
	}
	return readTurn(r, t)
}

// turnArgs packs the call. An ack that names no possible job is sent with no run, and comes back as stale.
func (q *Queue) turnArgs(t queue.Turn) []any {
	runs := map[string]int{}
	var names []string
	packed := make([]string, 0, len(t.Acks))
	for i := range t.Acks {
		a := &t.Acks[i]
		if a.Job.Index < 0 || a.Job.Index >= queue.MaxTargets || a.Token >= 1<<53 || a.Job.Run == "" {
			packed = append(packed, packAck(&queue.Ack{Kind: queue.AckReturn}, 0))
			continue
		}
		n, ok := runs[a.Job.Run]
		if !ok {
			names = append(names, a.Job.Run)
			n = len(names)
			runs[a.Job.Run] = n
		}
		packed = append(packed, packAck(a, n))
	}
	args := make([]any, 0, 3+len(names)+len(packed))
	args = append(args, strconv.Itoa(t.Want), strconv.FormatInt(q.opt.SessionTTL.Microseconds(), 10), strconv.Itoa(len(names)))
	for _, n := range names {
		args = append(args, n)
	}
	for _, p := range packed {
		args = append(args, p)
	}
	return args
}

// maxAfter keeps times exact in Lua's doubles.
const maxAfter = 100 * 365 * 24 * time.Hour

// packAck is the layout that turn.lua reads.
func packAck(a *queue.Ack, run int) string {
	b := make([]byte, 0, 32+len(a.Detail)+len(a.State)+len(a.Event))
	b = binary.BigEndian.AppendUint16(b, uint16(run))
	b = binary.BigEndian.AppendUint32(b, uint32(a.Job.Index))
	b = appendUint56(b, a.Token)
	b = append(b, ackCode(a.Kind), outcomeCode(a.Outcome))
	b = appendUint56(b, uint64(min(max(a.After, 0), maxAfter).Microseconds()))
	detail, state, event, keep := a.Detail, a.State, a.Event, byte(0)
	switch a.Kind {
	case queue.AckDone:
		state, event = nil, ""
	case queue.AckRetry:
		event = ""
	case queue.AckSuspend:
		detail = nil
		if a.KeepLocks {
			keep = 1
		}
	case queue.AckReturn:
		detail, state, event = nil, nil, ""
	}
	b = append(b, keep)
	b = binary.BigEndian.AppendUint32(b, uint32(len(detail)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(state)))
	b = append(b, byte(len(event)))
	b = append(append(append(b, detail...), state...), event...)
	return string(b)
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

func readTurn(r *reply, t queue.Turn) (queue.TurnResult, error) {
	res := queue.TurnResult{Now: r.time(), Next: r.time(), More: r.int() == 1}
	var runs []string
	for ids := r.list(); !ids.empty(); {
		runs = append(runs, ids.text())
	}
	leases := r.list()
	token := uint64(r.int64())
	if n := len(leases.items) / 4; n > 0 {
		res.Leases = make([]queue.Lease, 0, n)
	}
	for !leases.empty() {
		ref := leases.int()
		l := queue.Lease{Token: token}
		l.Job.Index, l.Host, l.Attempt = leases.int(), leases.text(), leases.int()
		if ref < 1 || ref > len(runs) {
			return res, fmt.Errorf("queue: answer of turn names run %d of %d: %w", ref, len(runs), core.ErrUnknown)
		}
		l.Job.Run = runs[ref-1]
		token++
		res.Leases = append(res.Leases, l)
	}
	extras := r.list()
	for !extras.empty() {
		if i := extras.int() - 1; i >= 0 && i < len(res.Leases) {
			res.Leases[i].Data, res.Leases[i].State = extras.bytes(), extras.bytes()
		} else {
			return res, fmt.Errorf("queue: answer of turn has no lease %d: %w", i, core.ErrUnknown)
		}
	}
	for stale := r.list(); !stale.empty(); {
		if i := stale.int() - 1; i >= 0 && i < len(t.Acks) {
			res.Stale = append(res.Stale, t.Acks[i].Job)
		}
	}
	res.Stop = r.jobs()
	return res, errors.Join(leases.end("turn"), extras.end("turn"), r.end("turn"))
}
