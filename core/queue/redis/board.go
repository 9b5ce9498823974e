package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

// Post puts a document on the board. After core.ErrUnknown it may or may not be there; posting it
// again does no harm.
func (q *Queue) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if err := board.ValidateDocument(name, data, keep); err != nil {
		return 0, err
	}
	v, err := q.eval(ctx, q.scripts.post, escape(name), data, keep.Milliseconds(), name, 0)
	if err != nil {
		return 0, fmt.Errorf("post document %q: %w", name, err)
	}
	version, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("queue: answer of script post is a %T: %w", v, core.ErrUnknown)
	}
	return uint64(version), nil
}

// PostFirst puts a document on the board that has none of the name. After core.ErrUnknown it may be
// called again.
func (q *Queue) PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) ([]byte, error) {
	if err := board.ValidateDocument(name, data, keep); err != nil {
		return nil, err
	}
	v, err := q.eval(ctx, q.scripts.post, escape(name), data, keep.Milliseconds(), name, 1)
	if err != nil {
		return nil, fmt.Errorf("post document %q: %w", name, err)
	}
	have, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("queue: answer of script post is a %T: %w", v, core.ErrUnknown)
	}
	return []byte(have), nil
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

// Names lists documents of the board, a page of their index at a time: one that is posted or
// expires meanwhile may be listed or not.
func (q *Queue) Names(ctx context.Context, prefix string) ([]string, error) {
	names := []string{}
	for cursor := "0"; ; {
		v, err := q.eval(ctx, q.scripts.names, cursor, prefix)
		if err != nil {
			return nil, fmt.Errorf("list documents %q: %w", prefix, err)
		}
		r := newReply(v)
		cursor = r.text()
		page := r.list()
		for !page.empty() {
			names = append(names, page.text())
		}
		if err := errors.Join(page.end("names"), r.end("names")); err != nil {
			return nil, err
		}
		if cursor == "0" {
			slices.Sort(names)
			return slices.Compact(names), nil // a page may come twice
		}
	}
}
