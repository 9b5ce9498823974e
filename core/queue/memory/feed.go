package memory

import (
	"context"
	"sync"
	"time"

	"github.com/turnus/turnus/core/board"
)

// feed has a lock of its own: output does not keep turns waiting.
type feed struct {
	mu     sync.Mutex
	read   func() time.Time
	topics map[string]*topic
	lives  int64
}

// topic keeps the newest messages; the last of them has number last.
type topic struct {
	life, last int64
	messages   [][]byte
	bytes      int
	until      time.Time
	waiting    int           // followers
	news       chan struct{} // closed at the next message
}

func newFeed(read func() time.Time) *feed {
	if read == nil {
		read = time.Now
	}
	return &feed{read: read, topics: map[string]*topic{}}
}

// topic finds the live topic of that name, or nil.
func (f *feed) topic(name string) *topic {
	t := f.topics[name]
	if t != nil && !f.read().Before(t.until) {
		t.messages, t.bytes, t.life, t.last = nil, 0, 0, 0 // gone; a waiter continues to wait on it
	}
	return t
}

// begin makes a topic, or gives one that was gone a new life. Other topics that are gone are
// dropped first.
func (f *feed) begin(name string, t *topic) *topic {
	now := f.read()
	for name, other := range f.topics {
		if other.waiting == 0 && !now.Before(other.until) {
			delete(f.topics, name)
		}
	}
	if t == nil {
		t = &topic{news: make(chan struct{})}
	}
	f.topics[name] = t
	f.lives = max(f.lives+1, now.UnixMicro()) // also after a restart, no two lives have one name
	t.life = f.lives
	return t
}

// trim drops the oldest messages.
func (t *topic) trim() {
	n := 0
	for ; len(t.messages)-n > board.FeedMessages || t.bytes > board.FeedBytes; n++ {
		t.bytes -= len(t.messages[n])
		t.messages[n] = nil
	}
	t.messages = t.messages[n:]
}

// Publish adds messages to a topic.
func (q *Queue) Publish(ctx context.Context, name string, messages ...[]byte) error {
	if err := board.ValidateMessages(name, messages); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil || len(messages) == 0 {
		return err
	}
	f := q.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(name)
	if t == nil || t.life == 0 {
		t = f.begin(name, t)
	}
	for _, m := range messages {
		t.messages = append(t.messages, append([]byte{}, m...))
		t.bytes += len(m)
	}
	t.last += int64(len(messages))
	t.until = f.read().Add(board.FeedKeep)
	t.trim()
	close(t.news)
	t.news = make(chan struct{})
	return nil
}

// Follow returns what was published after cursor.
func (q *Queue) Follow(ctx context.Context, name, cursor string, most int, wait time.Duration) ([][]byte, string, error) {
	at, err := board.ValidateFollow(name, cursor, most)
	if err != nil {
		return nil, cursor, err
	}
	f := q.feed
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(min(wait, board.FeedWait))
		defer timer.Stop()
		timeout = timer.C
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, cursor, err
		}
		t := f.topic(name)
		if t != nil {
			if list, next := t.after(at, most); len(list) > 0 {
				return list, next.String(), nil
			}
		}
		if timeout == nil {
			return nil, cursor, nil
		}
		if f.wait(ctx, name, t, timeout) {
			timeout = nil // one more look
		}
	}
}

// wait gives the lock free until topic t, nil when there is none yet, has news; true means that the
// time has ended.
func (f *feed) wait(ctx context.Context, name string, t *topic, timeout <-chan time.Time) (over bool) {
	if t == nil {
		t = &topic{news: make(chan struct{})}
		f.topics[name] = t
	}
	t.waiting++
	news := t.news
	f.mu.Unlock()
	select {
	case <-news:
	case <-timeout:
		over = true
	case <-ctx.Done():
	}
	f.mu.Lock()
	if t.waiting--; t.waiting == 0 && t.life == 0 && f.topics[name] == t {
		delete(f.topics, name) // nobody published, and nobody waits any more
	}
	return over
}

// after returns the messages behind at, at most so many, and the cursor behind them.
func (t *topic) after(at board.Cursor, most int) ([][]byte, board.Cursor) {
	if at.Life != t.life || at.Number > t.last {
		at = board.Cursor{}
	}
	first := t.last - int64(len(t.messages)) // the number before the oldest
	at.Number = max(at.Number, first)
	list := t.messages[at.Number-first:]
	list = append([][]byte(nil), list[:min(most, len(list))]...)
	return list, board.Cursor{Life: t.life, Number: at.Number + int64(len(list))}
}
