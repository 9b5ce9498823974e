package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/ledger"
)

// counted is a feed that counts who waits at it.
type counted struct {
	board.Feed
	waiting, most atomic.Int64
}

func (c *counted) Follow(ctx context.Context, topic, cursor string, most int, wait time.Duration) ([][]byte, string, error) {
	if wait > 0 {
		now := c.waiting.Add(1)
		defer c.waiting.Add(-1)
		for {
			had := c.most.Load()
			if now <= had || c.most.CompareAndSwap(had, now) {
				break
			}
		}
	}
	return c.Feed.Follow(ctx, topic, cursor, most, wait)
}

// 200 watch one run. The feed is followed once, each of them gets all of it, and one that reads
// nothing delays nobody.
func TestManyWatchersShareOneFollower(t *testing.T) {
	t.Parallel()
	const watchers, messages = 200, 300 // of a kilobyte: more than a broadcaster keeps
	feed := &counted{}
	b := newBed(t, func(c *Config) { feed.Feed = c.Feed; c.Feed = feed })
	defer b.server.Close()
	run := b.launch("acme", api.NewRun{})
	web := httptest.NewServer(b.server)
	defer web.Close()
	var tokens []string
	for i := range watchers/personStreams + 1 {
		secret, _, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: fmt.Sprint("w", i), Tenant: "acme", Roles: []string{"viewer"}})
		must(t, err)
		tokens = append(tokens, secret)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	open := func(i int) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1/runs/"+run.ID+"/events", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+tokens[i%len(tokens)])
		res, err := web.Client().Do(req)
		must(t, err)
		return res
	}
	deaf := open(0)
	defer deaf.Body.Close()
	b.publish(run.ID, output(run, 0, "early"))
	var reading sync.WaitGroup
	got := make([]int, watchers)
	ends := make([]string, watchers)
	for i := range watchers {
		res := open(i)
		reading.Go(func() {
			defer res.Body.Close()
			r := newReader(t, res.Body)
			for _, word := range r.rest() {
				if strings.HasPrefix(word, "output ") {
					got[i]++
				}
				ends[i] = word
			}
		})
	}
	until(t, "the run is followed", func() bool { return feed.waiting.Load() == 1 })
	for i := range messages - 1 {
		b.publish(run.ID, output(run, 0, strings.Repeat("x", 1000)+fmt.Sprint(i)))
	}
	b.finish(run)
	b.publish(run.ID, done(run, 0), done(run, 1), done(run, 2))
	reading.Wait()
	for i := range watchers {
		if got[i] != messages || ends[i] != api.RunDone {
			t.Errorf("watcher %d got %d of %d messages, and at the end %q", i, got[i], messages, ends[i])
		}
	}
	if n := feed.most.Load(); n != 1 {
		t.Errorf("%d waited at the feed at the same time, for one run", n)
	}
}

// lateFeed is a feed that signals no waiter, as on a machine that is too busy for it.
type lateFeed struct {
	board.Feed
	waits chan struct{} // each wait that began
}

func (l *lateFeed) Follow(ctx context.Context, topic, cursor string, most int, wait time.Duration) ([][]byte, string, error) {
	if wait == 0 {
		return l.Feed.Follow(ctx, topic, cursor, most, 0)
	}
	select {
	case l.waits <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, cursor, context.Cause(ctx)
}

// An event that was published before the recorded end reaches each watcher, however late the
// follower is that they share.
func TestALateFollowerLosesNothing(t *testing.T) {
	t.Parallel()
	feed := &lateFeed{waits: make(chan struct{}, 1)}
	b := newBed(t, func(c *Config) { feed.Feed = c.Feed; c.Feed = feed })
	defer b.server.Close()
	run := b.launch("acme", api.NewRun{})
	b.publish(run.ID, output(run, 0, "early"))
	r := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/events")
	<-feed.waits
	b.publish(run.ID, output(run, 1, "behind"), output(run, 2, "it"))
	b.finish(run)
	b.publish(run.ID, done(run, 0), done(run, 1), done(run, 2))
	if got := fmt.Sprint(r.rest()); got != "[run_changed output early output behind output it job_done job_done job_done run_done]" {
		t.Fatal(got)
	}
}

// A follower begins with the first watcher and ends with the last, or with the server.
func TestBroadcasterEndsWithItsWatchers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := newBroadcaster(b.queue)
	first, leaveFirst := h.join("r")
	_, leaveSecond := h.join("r")
	if some, _, err := first.read(t.Context(), board.Cursor{}, 10, time.Millisecond); err != nil || len(some) != 0 || first.stop == nil {
		t.Fatal(some, err)
	}
	leaveFirst()
	if h.topics["r"] != first {
		t.Fatal("it ended with a watcher there")
	}
	leaveSecond()
	h.pumping.Wait()
	if len(h.topics) != 0 {
		t.Fatal("it is kept with nobody there")
	}
	again, leave := h.join("r")
	defer leave()
	_, _, err := again.read(t.Context(), board.Cursor{}, 10, time.Millisecond)
	must(t, err)
	h.close()
	if some, _, err := again.read(t.Context(), board.Cursor{}, 10, time.Millisecond); err != nil || len(some) != 0 {
		t.Fatal(some, err)
	}
}

// From any cursor on, all messages behind it come, once and in order: also of a run whose feed was
// forgotten and began again.
func TestBroadcasterReadsBehindAnyCursor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := newBroadcaster(b.queue)
	defer h.close()
	slow, leave := h.join("r")
	defer leave()
	fast, leave := h.join("r")
	defer leave()
	var at, last board.Cursor
	n := 0
	drain := func(topic *topic, from board.Cursor) (int, board.Cursor) {
		count := 0
		for {
			some, next, err := topic.read(t.Context(), from, 7, 20*time.Millisecond)
			must(t, err)
			if len(some) == 0 {
				return count, from
			}
			for _, m := range some {
				if m.at.Number != from.Number+1 && m.at.Life == from.Life {
					t.Fatalf("%v comes behind %v", m.at, from)
				}
				from = m.at
			}
			if from != next {
				t.Fatalf("%v, %v", from, next)
			}
			count += len(some)
		}
	}
	for range 3 {
		for range broadcasterMessages/2 + 10 {
			must(t, b.queue.Publish(t.Context(), "r", []byte(`{"event":"x"}`)))
			n++
		}
		until(t, "the fast one has all", func() bool { _, at = drain(fast, at); return at.Number == int64(n) })
	}
	until(t, "the slow one has all", func() bool { var c int; c, last = drain(slow, last); n -= c; return n == 0 })
	// A cursor of another life, as of a run whose feed was forgotten, does not spin, and gets what
	// comes.
	other := board.Cursor{Life: at.Life + 7, Number: 3}
	began := time.Now()
	some, _, err := slow.read(t.Context(), other, 7, 50*time.Millisecond)
	must(t, err)
	if len(some) == 0 && time.Since(began) < 40*time.Millisecond {
		t.Error("it does not wait")
	}
}
