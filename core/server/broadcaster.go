package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

// Bounds of what a broadcaster keeps of one run, for watchers that are not all equally fast. A
// watcher that falls behind it reads the feed itself until it has caught up.
const (
	broadcasterMessages = 512
	broadcasterBytes    = 256 << 10
)

// message is one event of the feed, read once for all who watch.
type message struct {
	at    board.Cursor // behind it
	line  []byte       // JSON on one line
	event string
	job   string
}

// messagesOf reads what came with next: messages that come together were published in a row.
func messagesOf(raw [][]byte, next board.Cursor) []message {
	out := make([]message, len(raw))
	for i, m := range raw {
		out[i].at = board.Cursor{Life: next.Life, Number: next.Number - int64(len(raw)-1-i)}
		var e struct {
			Event string `json:"event"`
			Job   string `json:"job"`
		}
		if json.Unmarshal(m, &e) == nil { // else it has no kind, and is passed over
			out[i].event, out[i].job, out[i].line = e.Event, e.Job, bytes.ReplaceAll(m, []byte("\n"), []byte(" "))
		}
	}
	return out
}

// broadcaster follows each run that is watched once, however many watch it. It owns a goroutine a
// run, which begins when the first watcher has read all that there was, and ends with the last one.
// No watcher waits for another.
type broadcaster struct {
	feed board.Feed

	mu      sync.Mutex
	topics  map[string]*topic
	closed  bool
	pumping sync.WaitGroup
}

func newBroadcaster(feed board.Feed) *broadcaster {
	return &broadcaster{feed: feed, topics: map[string]*topic{}}
}

// topic is a run that is watched.
type topic struct {
	broadcaster *broadcaster
	run         string
	stop        context.CancelFunc // nil before it is pumped

	// Under broadcaster.mu:
	watchers int
	kept     []message
	bytes    int
	from, to board.Cursor  // kept is what is behind from, up to to
	news     chan struct{} // closed when something came
}

// join watches a run; leave must be called once.
func (h *broadcaster) join(run string) (t *topic, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t = h.topics[run]; t == nil {
		t = &topic{broadcaster: h, run: run, news: make(chan struct{})}
		h.topics[run] = t
	}
	t.watchers++
	return t, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.watchers--; t.watchers == 0 {
			delete(h.topics, run)
			if t.stop != nil {
				t.stop()
			}
		}
	}
}

// close ends what is followed, and waits for it. Watchers get nothing more.
func (h *broadcaster) close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.topics {
		if t.stop != nil {
			t.stop()
		}
	}
	h.mu.Unlock()
	h.pumping.Wait()
}

// read returns at most most messages behind a cursor. With none it waits up to wait for one; it
// never waits for other watchers.
func (t *topic) read(ctx context.Context, cursor board.Cursor, most int, wait time.Duration) ([]message, board.Cursor, error) {
	if some, ok := t.have(cursor, most); ok && len(some) > 0 {
		return some, some[len(some)-1].at, nil
	} else if !ok { // from before what is kept, or the first look
		if some, next, err := t.own(ctx, cursor, most); err != nil || len(some) > 0 {
			return some, next, err
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for woken := false; ; {
		t.broadcaster.mu.Lock()
		t.pump(cursor)
		news := t.news
		some, ok := t.behind(cursor, most)
		t.broadcaster.mu.Unlock()
		switch {
		case len(some) > 0:
			return some, some[len(some)-1].at, nil
		case !ok && woken: // what came is not in a row with it: the next look reads the feed
			return nil, cursor, nil
		}
		select {
		case <-news:
			woken = true
		case <-timer.C:
			return nil, cursor, nil
		case <-ctx.Done():
			return nil, cursor, context.Cause(ctx)
		}
	}
}

// own gives what the feed itself has behind a cursor, without waiting, whatever is kept.
func (t *topic) own(ctx context.Context, cursor board.Cursor, most int) ([]message, board.Cursor, error) {
	raw, text, err := t.broadcaster.feed.Follow(ctx, t.run, cursor.String(), most, 0)
	if err != nil || len(raw) == 0 {
		return nil, cursor, err
	}
	next, err := board.ParseCursor(text)
	if err != nil {
		return nil, cursor, err
	}
	return messagesOf(raw, next), next, nil
}

func (t *topic) have(cursor board.Cursor, most int) ([]message, bool) {
	t.broadcaster.mu.Lock()
	defer t.broadcaster.mu.Unlock()
	if t.stop == nil {
		return nil, false
	}
	return t.behind(cursor, most)
}

// behind returns the kept messages behind a cursor; ok is false where that is not all there is. It
// needs broadcaster.mu. Kept messages never change, so that the answer may be used without it.
func (t *topic) behind(cursor board.Cursor, most int) (some []message, ok bool) {
	none := board.Cursor{}
	switch {
	case cursor == none && t.from.Number > 0, cursor != none && cursor.Life != t.to.Life, cursor.Number < t.from.Number:
		return nil, false
	case cursor.Number >= t.to.Number: // it read further alone, or everything
		return nil, true
	}
	some = t.kept[cursor.Number-t.from.Number:]
	return some[:min(len(some), most)], true
}

// pump begins to follow the run behind a cursor, unless that is done already. It needs
// broadcaster.mu.
func (t *topic) pump(cursor board.Cursor) {
	if t.stop != nil || t.broadcaster.closed {
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // of all who watch, until the last has left or the server closes
	t.stop, t.from, t.to = stop, cursor, cursor
	t.broadcaster.pumping.Go(func() {
		defer stop()
		t.follow(ctx, cursor)
	})
}

func (t *topic) follow(ctx context.Context, cursor board.Cursor) {
	for ctx.Err() == nil {
		raw, text, err := t.broadcaster.feed.Follow(ctx, t.run, cursor.String(), feedPage, board.FeedWait)
		next, bad := board.ParseCursor(text)
		if err != nil || bad != nil {
			_ = core.Sleep(ctx, feedWait) // the feed is away: watchers learn the end from the ledger
			continue
		}
		if len(raw) > 0 {
			t.keep(messagesOf(raw, next), cursor, next)
			cursor = next
		}
	}
}

// keep adds the messages, and notifies the waiting watchers.
func (t *topic) keep(some []message, before, next board.Cursor) {
	t.broadcaster.mu.Lock()
	defer t.broadcaster.mu.Unlock()
	if before.Life != next.Life || next.Number-before.Number != int64(len(some)) { // the feed forgot, or lost some: what is kept no longer is in a row
		t.kept, t.bytes = nil, 0
		t.from = board.Cursor{Life: next.Life, Number: next.Number - int64(len(some))}
	}
	t.kept, t.to = append(slices.Clip(t.kept), some...), next
	for _, m := range some {
		t.bytes += len(m.line)
	}
	drop := 0
	for ; drop < len(t.kept)-1 && (len(t.kept)-drop > broadcasterMessages || t.bytes > broadcasterBytes); drop++ {
		t.bytes -= len(t.kept[drop].line)
	}
	if drop > 0 {
		t.from = t.kept[drop-1].at
		t.kept = append([]message(nil), t.kept[drop:]...) // lets go of what was dropped
	}
	close(t.news)
	t.news = make(chan struct{})
}
