package worker

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/queue"
)

// booksKept is how many documents a worker keeps compiled: one a run that waits for windows,
// or one for a whole service.
const booksKept = programsKept

// books reads window definitions from the queue's board. A document is parsed once a version and
// shared by all jobs. Safe for concurrent use.
type books struct {
	board queue.Board // nil: there is none, and what waits for a window stays closed

	mu     sync.Mutex
	byName map[string]*list.Element // of *shelf
	recent *list.List               // last used first
}

// shelf is one document.
type shelf struct {
	name string
	turn chan struct{} // holds a token: whoever has it reads, others wait for what that brings

	// Owned by whoever has the token.
	book    *gate.Book // of the last version that could be read
	version uint64
	bad     error     // of that version, where it could not be parsed
	asked   time.Time // local, before the last call that the board answered
	failed  time.Time // local, after the last call that it did not
	away    error     // what that brought
}

func newBooks(board queue.Board) *books {
	return &books{board: board, byName: map[string]*list.Element{}, recent: list.New()}
}

func (b *books) shelf(name string) *shelf {
	b.mu.Lock()
	defer b.mu.Unlock()
	if el, ok := b.byName[name]; ok {
		b.recent.MoveToFront(el)
		return el.Value.(*shelf)
	}
	s := &shelf{name: name, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	b.byName[name] = b.recent.PushFront(s)
	if b.recent.Len() > booksKept {
		oldest := b.recent.Back()
		b.recent.Remove(oldest)
		delete(b.byName, oldest.Value.(*shelf).name)
	}
	return s
}

// read returns the definitions as they stood not longer than age ago; 0 is what stands now. With an
// error it also returns those last read, nil if there are none.
func (b *books) read(ctx context.Context, name string, age time.Duration) (*gate.Book, error) {
	if b.board == nil {
		return nil, fmt.Errorf("window definitions %s: this worker was given no board to read them from: %w", name, core.ErrUnavailable)
	}
	arrived := time.Now()
	s := b.shelf(name)
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { s.turn <- struct{}{} }()
	fresh := arrived.Add(-age)
	if s.asked.After(fresh) { // another's call began after this one came
		return s.book, s.bad
	}
	if s.failed.After(fresh) { // those who waited for a call that failed need not each wait for one
		return s.book, s.away
	}
	err := s.load(ctx, b.board)
	if err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrInvalid) {
		s.failed, s.away = time.Now(), err
	}
	return s.book, err
}

// load asks the board for a newer version. The caller has the token.
func (s *shelf) load(ctx context.Context, board queue.Board) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	data, version, err := board.Posted(call, s.name, s.version)
	switch {
	case errors.Is(err, core.ErrNotFound):
		s.book, s.version, s.bad = nil, 0, nil
		return fmt.Errorf("read window definitions: %w", err)
	case err != nil:
		return fmt.Errorf("read window definitions %s: %w", s.name, err)
	}
	if version != s.version || data != nil {
		posted, err := gate.Decode(data)
		s.version, s.bad = version, err
		if err == nil {
			s.book = posted.Book
		}
	}
	s.asked = asked
	return s.bad
}
