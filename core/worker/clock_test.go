package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

func TestClockIsTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{beat: queue.BeatEvery}
		if _, _, known := c.now(); known {
			t.Fatal("known before the queue said anything")
		}
		real := func() time.Time { return time.Now().Add(-3 * time.Hour) } // the node's clock is off
		tell := func(took time.Duration) {
			sent := time.Now()
			pass(took / 2)
			said := real()
			pass(took - took/2)
			c.tell(sent, said)
		}
		holds := func(what string, spread time.Duration) {
			t.Helper()
			early, late, known := c.now()
			if !known || early.After(real()) || late.Before(real()) || late.Sub(early) != spread {
				t.Errorf("%s: between %v and %v (known %v), it is %v", what, early, late, known, real())
			}
		}
		tell(800 * time.Millisecond)
		holds("a slow answer", 800*time.Millisecond)
		tell(10 * time.Millisecond)
		holds("a quick one", 10*time.Millisecond)
		tell(2 * time.Second)
		holds("a slow one after it", 10*time.Millisecond)
		pass(clockKeep)
		tell(2 * time.Second)
		holds("a slow one, when the quick one is old", 2*time.Second)
		pass(clockAge*queue.BeatEvery + time.Second)
		if _, _, known := c.now(); known {
			t.Error("known although the queue has long been silent")
		}
		tell(0)
		c.tell(time.Now().Add(-4*time.Second), real().Add(time.Hour)) // the queue's clock was set
		if early, _, _ := c.now(); !early.Equal(real().Add(time.Hour)) {
			t.Errorf("after it was set: %v", early)
		}
		c.tell(time.Now(), time.Time{})
		if early, _, _ := c.now(); early.IsZero() {
			t.Error("an answer without a time was believed")
		}
	})
}

// A virtual machine that was asleep must not take the time of before for the time of now.
func TestClockOfAMachineThatSleptIsUnknown(t *testing.T) {
	for _, tc := range []struct {
		wall, monotonic time.Duration
		want            bool
	}{
		{time.Minute, time.Minute, false},
		{time.Minute, time.Minute + clockStep, false},
		{2 * time.Hour, time.Second, true},
		{-time.Hour, time.Second, true},
	} {
		if apart(tc.wall, tc.monotonic) != tc.want {
			t.Errorf("%v on the wall, %v by the monotonic clock: %v", tc.wall, tc.monotonic, !tc.want)
		}
	}
}

// counting counts the calls of a board.
type counting struct {
	queue.Board
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

func TestBooksAreSharedAndFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		defer q.Shutdown()
		board := &counting{Board: q, delay: 100 * time.Millisecond}
		b := newBooks(board)
		post := func(text string) {
			data, err := gate.Encode(book(t, text), time.Now())
			if err == nil {
				_, err = q.Post(t.Context(), "w", data, time.Hour)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		post(night)
		var wg sync.WaitGroup
		got := make([]*gate.Book, 1000)
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = b.read(t.Context(), "w", bookAge); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			if g == nil || g != got[0] {
				t.Fatal("not one book for all")
			}
		}
		if board.calls != 1 || board.datas != 1 {
			t.Errorf("%d calls, %d documents read for 1000 questions at once", board.calls, board.datas)
		}
		if again, err := b.read(t.Context(), "w", 0); err != nil || again != got[0] || board.calls != 2 || board.datas != 1 {
			t.Errorf("asked again: %v, %d calls, %d documents", err, board.calls, board.datas)
		}
		post(frozen)
		if old, err := b.read(t.Context(), "w", bookAge); err != nil || old != got[0] {
			t.Errorf("within its age: %v", err)
		}
		if now, err := b.read(t.Context(), "w", 0); err != nil || now == got[0] {
			t.Errorf("a post was not seen: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		go b.read(t.Context(), "w", 0)
		synctest.Wait()
		if _, err := b.read(ctx, "w", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that waits ends with its context: %v", err)
		}
		pass(time.Second)
	})
}

func TestBooksAreBounded(t *testing.T) {
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	b := newBooks(q)
	for i := range 3 * booksKept {
		if _, err := b.read(t.Context(), fmt.Sprint(i), 0); !errors.Is(err, core.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if len(b.byName) != booksKept || b.recent.Len() != booksKept {
		t.Errorf("%d and %d kept", len(b.byName), b.recent.Len())
	}
	if _, err := newBooks(nil).read(t.Context(), "w", 0); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("without a board: %v", err)
	}
}
