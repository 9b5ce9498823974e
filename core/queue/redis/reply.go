package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
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

func (r *reply) next() any {
	if r.empty() {
		if r.bad == nil {
			r.bad = fmt.Errorf("the answer is too short")
		}
		return nil
	}
	v := r.items[0]
	r.items = r.items[1:]
	return v
}

func (r *reply) int64() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil && r.bad == nil {
			r.bad = fmt.Errorf("expected a number, got %q", v)
		}
		return n
	default:
		if r.bad == nil {
			r.bad = fmt.Errorf("expected a number, got %T", v)
		}
		return 0
	}
}

func (r *reply) int() int { return int(r.int64()) }

func (r *reply) text() string {
	switch v := r.next().(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		if r.bad == nil {
			r.bad = fmt.Errorf("expected a text, got %T", v)
		}
		return ""
	}
}

// bytes is nil for an empty text.
func (r *reply) bytes() []byte {
	if s := r.text(); s != "" {
		return []byte(s)
	}
	return nil
}

// time is a time in µs; negative is none.
func (r *reply) time() time.Time { return micro(r.int64()) }

func micro(us int64) time.Time {
	if us < 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

func (r *reply) list() *reply {
	v := r.next()
	if r.bad != nil {
		return &reply{bad: r.bad}
	}
	return newReply(v)
}

// jobs reads a flat list of run id, index.
func (r *reply) jobs() []core.JobID {
	l := r.list()
	var ids []core.JobID
	for !l.empty() {
		ids = append(ids, core.JobID{Run: l.text(), Index: l.int()})
	}
	if l.bad != nil && r.bad == nil {
		r.bad = l.bad
	}
	return ids
}

// is reports whether the answer is the one word.
func (r *reply) is(word string) bool {
	if len(r.items) == 0 {
		return false
	}
	s, ok := r.items[0].(string)
	return ok && s == word
}

// end returns what was wrong with the answer. The script itself has run.
func (r *reply) end(script string) error {
	if r.bad == nil {
		return nil
	}
	return fmt.Errorf("queue: answer of script %s: %w: %w", script, r.bad, core.ErrUnknown)
}

func byToken(m map[core.JobID]queue.Lease) []queue.Lease {
	var list []queue.Lease
	for _, l := range m {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b queue.Lease) int { return cmp.Compare(a.Token, b.Token) })
	return list
}
