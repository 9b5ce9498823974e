package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Post puts a document on the board. After core.ErrUnknown it may or may not be there; posting it again does no harm.
func (q *Queue) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if err := queue.ValidateDocument(name, data, keep); err != nil {
		return 0, err
	}
	v, err := q.eval(ctx, q.scripts.post, escape(name), data, keep.Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("post document %q: %w", name, err)
	}
	version, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("queue: answer of script post is a %T: %w", v, core.ErrUnknown)
	}
	return uint64(version), nil
}

// Posted reads a document from the board, from the server that takes the writes.
func (q *Queue) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	v, err := q.eval(ctx, q.scripts.posted, escape(name), strconv.FormatUint(known, 10))
	if err != nil {
		return nil, 0, fmt.Errorf("read document %q: %w", name, err)
	}
	r := newReply(v)
	if r.empty() && r.bad == nil {
		return nil, 0, fmt.Errorf("document %q: nobody posted it, or it was kept long enough: %w", name, core.ErrNotFound)
	}
	version := uint64(r.int64())
	if version == known {
		return nil, known, r.end("posted")
	}
	data := []byte(r.text()) // never nil, even when it is empty
	return data, version, r.end("posted")
}
