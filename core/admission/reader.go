package admission

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

const (
	calendarsKept = 64              // documents that a Reader keeps compiled: one a launcher
	readFor       = 3 * time.Second // at most, of one call
)

// CalendarReader reads published windows. A document is parsed once a version and shared by all
// host tasks. It is safe for concurrent use.
type CalendarReader struct {
	board board.Board // nil: there is none, and whatever waits for a window stays closed

	mu     sync.Mutex
	byName map[string]*list.Element // of *shelf
	recent *list.List               // last used first
}

// shelf is one document.
type shelf struct {
	name string
	turn chan struct{} // holds a token: its holder reads, others wait for the result

	// Owned by the holder of the token.
	calendar *Calendar // of the last version that could be read
	version  uint64
	bad      error     // of that version, where it could not be parsed
	asked    time.Time // local, before the last call that the board answered
	failed   time.Time // local, after the last call that it did not
	away     error     // what that brought
}

// NewCalendarReader reads from that board; nil is none.
func NewCalendarReader(board board.Board) *CalendarReader {
	return &CalendarReader{board: board, byName: map[string]*list.Element{}, recent: list.New()}
}

func (r *CalendarReader) shelf(name string) *shelf {
	r.mu.Lock()
	defer r.mu.Unlock()
	if el, ok := r.byName[name]; ok {
		r.recent.MoveToFront(el)
		return el.Value.(*shelf)
	}
	s := &shelf{name: name, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	r.byName[name] = r.recent.PushFront(s)
	if r.recent.Len() > calendarsKept {
		oldest := r.recent.Back()
		r.recent.Remove(oldest)
		delete(r.byName, oldest.Value.(*shelf).name)
	}
	return s
}

// Read returns the windows as they were not longer than age ago; 0 is those that the board has now.
// With an error it also returns those last read, nil if there are none.
func (r *CalendarReader) Read(ctx context.Context, name string, age time.Duration) (*Calendar, error) {
	if r.board == nil {
		return nil, fmt.Errorf("window definitions %s: this worker was given no board to read them from: %w", name, core.ErrUnavailable)
	}
	arrived := time.Now()
	s := r.shelf(name)
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { s.turn <- struct{}{} }()
	fresh := arrived.Add(-age)
	if s.asked.After(fresh) { // another's call began after this one came
		return s.calendar, s.bad
	}
	if s.failed.After(fresh) { // those who waited for a call that failed need not each wait for one
		return s.calendar, s.away
	}
	err := s.load(ctx, r.board)
	if err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrInvalid) {
		s.failed, s.away = time.Now(), err
	}
	return s.calendar, err
}

// load asks the board for a newer version. The caller has the token.
func (s *shelf) load(ctx context.Context, board board.Board) error {
	call, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	asked := time.Now()
	data, version, err := board.Posted(call, s.name, s.version)
	switch {
	case errors.Is(err, core.ErrNotFound):
		s.calendar, s.version, s.bad = nil, 0, nil
		return fmt.Errorf("read window definitions: %w", err)
	case err != nil:
		return fmt.Errorf("read window definitions %s: %w", s.name, err)
	}
	if version != s.version || data != nil {
		cal, err := DecodeCalendar(data)
		s.version, s.bad = version, err
		if err == nil {
			s.calendar = cal
		}
	}
	s.asked = asked
	return s.bad
}
