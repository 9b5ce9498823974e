package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

// document is one document of the board.
type document struct {
	data    []byte
	version uint64
	until   time.Time
}

// Post puts a document on the board.
func (q *Queue) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if err := board.ValidateDocument(name, data, keep); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.post(name, data, keep), nil
}

// PostFirst puts a document on the board that has none of the name.
func (q *Queue) PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) ([]byte, error) {
	if err := board.ValidateDocument(name, data, keep); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if d, ok := q.board[name]; !ok || !q.now().Before(d.until) {
		q.post(name, data, keep)
	}
	return q.board[name].data, nil
}

func (q *Queue) post(name string, data []byte, keep time.Duration) uint64 {
	now := q.now()
	for name, d := range q.board { // a handful: one a run that waits for windows
		if !now.Before(d.until) {
			delete(q.board, name)
		}
	}
	q.posts++
	q.board[name] = document{data: append([]byte{}, data...), version: q.posts, until: now.Add(keep)}
	return q.posts
}

// Posted reads a document from the board. The caller must not change it.
func (q *Queue) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	d, ok := q.board[name]
	switch {
	case !ok || !q.now().Before(d.until):
		return nil, 0, fmt.Errorf("document %q: nobody posted it, or it was kept long enough: %w", name, core.ErrNotFound)
	case d.version == known:
		return nil, known, nil
	}
	return d.data, d.version, nil
}

// Names lists documents of the board.
func (q *Queue) Names(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	names := []string{}
	for name, d := range q.board {
		if strings.HasPrefix(name, prefix) && now.Before(d.until) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
