package redis

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
)

// reply reads a script's answer from front to back. The first value that is not
// what was expected makes end an error; reads after it give zero values.
type reply struct {
	items []any // as go-redis gives them
	bad   error
}

func newReply(v any) *reply {
	items, ok := v.([]any)
	if !ok {
		return &reply{bad: fmt.Errorf("expected a list, got %T", v)}
	}
	return &reply{items: items}
}

func (r *reply) empty() bool { return len(r.items) == 0 || r.bad != nil }

// next is the next value if it is a T.
func next[T any](r *reply) T {
	var none T
	if r.bad != nil {
		return none
	}
	if len(r.items) == 0 {
		r.bad = fmt.Errorf("the answer is too short")
		return none
	}
	v, ok := r.items[0].(T)
	if !ok {
		r.bad = fmt.Errorf("expected a %T, got a %T", none, r.items[0])
	}
	r.items = r.items[1:]
	return v
}

func (r *reply) version() uint64 { return uint64(next[int64](r)) }

// micro is a time in µs.
func (r *reply) micro() time.Time { return time.UnixMicro(next[int64](r)) }

// milli is a due time in ms; negative is none.
func (r *reply) milli() time.Time {
	ms := next[int64](r)
	if ms < 0 || r.bad != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// bytes is nil for an empty text.
func (r *reply) bytes() []byte {
	if s := next[string](r); s != "" {
		return []byte(s)
	}
	return nil
}

func (r *reply) id() schedule.ID {
	key := next[string](r)
	if r.bad != nil {
		return schedule.ID{}
	}
	id, err := recordID(key)
	if err != nil {
		r.bad = err
	}
	return id
}

// records reads key, version, due, data of each to the end.
func (r *reply) records() []schedule.Record {
	var list []schedule.Record
	for !r.empty() {
		list = append(list, schedule.Record{ID: r.id(), Version: r.version(), Due: r.milli(), Data: r.bytes()})
	}
	return list
}

// end says what was wrong with the answer. What it answered to has happened.
func (r *reply) end(s *redisconn.Script) error {
	if r.bad == nil {
		return nil
	}
	return fmt.Errorf("schedules: answer of script %s: %w: %w", s.Name, r.bad, core.ErrUnknown)
}
