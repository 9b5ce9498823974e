package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue/memory"
)

// counting counts the calls of a board.
type counting struct {
	board.Board
	mu    sync.Mutex
	calls int
	datas int
	delay time.Duration
}

func (c *counting) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	<-time.After(c.delay)
	data, version, err := c.Board.Posted(ctx, name, known)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if data != nil {
		c.datas++
	}
	return data, version, err
}

func TestReadersCalendarsAreSharedAndFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = 2 * time.Second
		q := memory.New(memory.Options{})
		defer q.Shutdown()
		board := &counting{Board: q, delay: 100 * time.Millisecond}
		b := NewCalendarReader(board)
		post := func(text string) {
			data, err := EncodeCalendar(calendarOf(t, text))
			if err == nil {
				_, err = q.Post(t.Context(), "w", data, time.Hour)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		post(saturdays)
		var wg sync.WaitGroup
		got := make([]*Calendar, 1000)
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = b.Read(t.Context(), "w", age); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			if g == nil || g != got[0] {
				t.Fatal("not one calendar for all")
			}
		}
		if board.calls != 1 || board.datas != 1 {
			t.Errorf("%d calls, %d documents read for 1000 questions at the same time", board.calls, board.datas)
		}
		if again, err := b.Read(t.Context(), "w", 0); err != nil || again != got[0] || board.calls != 2 || board.datas != 1 {
			t.Errorf("asked again: %v, %d calls, %d documents", err, board.calls, board.datas)
		}
		post(saturdays + "# edited\n")
		if old, err := b.Read(t.Context(), "w", age); err != nil || old != got[0] {
			t.Errorf("within its age: %v", err)
		}
		if now, err := b.Read(t.Context(), "w", 0); err != nil || now == got[0] {
			t.Errorf("a post was not seen: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		go b.Read(t.Context(), "w", 0)
		synctest.Wait()
		if _, err := b.Read(ctx, "w", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that waits ends with its context: %v", err)
		}
		<-time.After(time.Second)
	})
}

func TestReadersCalendarsAreBounded(t *testing.T) {
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	b := NewCalendarReader(q)
	for i := range 3 * calendarsKept {
		if _, err := b.Read(t.Context(), fmt.Sprint(i), 0); !errors.Is(err, core.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if len(b.byName) != calendarsKept || b.recent.Len() != calendarsKept {
		t.Errorf("%d and %d kept", len(b.byName), b.recent.Len())
	}
	if _, err := NewCalendarReader(nil).Read(t.Context(), "w", 0); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("without a board: %v", err)
	}
}
