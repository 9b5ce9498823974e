package boardtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

var feedTests = []test{
	{name: "FeedGivesWhatWasPublished", run: feedOrder},
	{name: "FeedWakesFollowers", run: feedSignals},
	{name: "FeedLosesTheOldest", run: feedLoses},
	{name: "FeedKeepsABoundedSize", run: feedBytes},
	{name: "FeedWaitEnds", run: feedEnds},
	{name: "FeedRefuses", run: feedRefuses},
	{name: "FeedFollowersLeaveTheBoardItsConnections", run: feedCrowd},
}

func (f *fixture) publish(topic string, texts ...string) {
	f.Helper()
	f.must(f.b.Publish(f.ctx, topic, bytesOf(texts)...))
}

// followed expects the messages behind cursor, and that none was missed; it returns the next
// cursor.
func (f *fixture) followed(topic, cursor string, most int, want ...string) string {
	f.Helper()
	list, next, err := f.b.Follow(f.ctx, topic, cursor, most, 0)
	f.must(err)
	if got := string(bytes.Join(list, []byte("|"))); len(list) != len(want) || got != strings.Join(want, "|") {
		f.Fatalf("Follow(%q) gives %d: %q, expected %q", cursor, len(list), got, want)
	}
	eq(f, "messages missed", board.LostMessages(cursor, next, len(list)), 0)
	return next
}

func feedOrder(f *fixture) {
	eq(f, "cursor of nothing", f.followed("t", "", 10), "")
	own := []byte("one")
	f.must(f.b.Publish(f.ctx, "t", own, nil, []byte("\x00\xff")))
	own[0] = 'X' // the caller's slice is the caller's again
	f.publish("{t}", "other")
	f.publish("t")
	f.publish("t", "four")
	c := f.followed("t", "", 2, "one", "")
	c = f.followed("t", c, 10, "\x00\xff", "four")
	eq(f, "cursor with nothing new", f.followed("t", c, 10), c)
	f.followed("t", "", 10, "one", "", "\x00\xff", "four") // another follower
	f.publish("t", "five")
	c = f.followed("t", c, 1, "five")
	f.followed("t", c, 1)
	f.followed("{t}", "", 1, "other")
	f.followed("t:", "", 1)
	f.followed("t", "1-1", 10, "one", "", "\x00\xff", "four", "five") // of a life that has ended
}

// follower follows until it has seen n messages, and sends what it saw.
func (f *fixture) follower(topic string, n int) <-chan string {
	seen := make(chan string, 1)
	go func() {
		var all []string
		for cursor := ""; len(all) < n; {
			list, next, err := f.b.Follow(f.ctx, topic, cursor, board.MaxFollow, board.FeedWait)
			if err != nil {
				seen <- err.Error()
				return
			}
			for _, m := range list {
				all = append(all, string(m))
			}
			cursor = next
		}
		seen <- strings.Join(all, " ")
	}()
	return seen
}

func feedSignals(f *fixture) {
	var followers []<-chan string
	for range 12 { // more than may sleep in the backend at the same time
		followers = append(followers, f.follower("t", 30))
	}
	want := make([]string, 30)
	for i := range want {
		want[i] = fmt.Sprint(i)
		f.publish("t", want[i])
	}
	for i, seen := range followers {
		if got := <-seen; got != strings.Join(want, " ") {
			f.Errorf("follower %d saw %s", i, got)
		}
	}
}

func feedLoses(f *fixture) {
	const n = board.FeedMessages + 10*board.MaxPublish
	f.publish("t", "first")
	c := f.followed("t", "", 1, "first")
	batch := make([]string, board.MaxPublish)
	last := 1
	for last < n {
		for i := range batch {
			batch[i] = fmt.Sprint(last + 1 + i)
		}
		f.publish("t", batch...)
		last += len(batch)
	}
	for _, cursor := range []string{c, ""} {
		got, lost := 0, 0
		var newest []byte
		for {
			list, next, err := f.b.Follow(f.ctx, "t", cursor, board.MaxFollow, 0)
			f.must(err)
			if len(list) == 0 {
				break
			}
			lost += board.LostMessages(cursor, next, len(list))
			got += len(list)
			newest, cursor = list[len(list)-1], next
		}
		eq(f, "the newest message", string(newest), fmt.Sprint(last))
		if got < board.FeedMessages || got > board.FeedMessages+200 {
			f.Errorf("%d messages are kept, expected about %d", got, board.FeedMessages)
		}
		if seen := got + lost; seen != last && seen != last-1 { // the one that c is behind
			f.Errorf("%d came and %d are reported lost, of %d", got, lost, last)
		}
	}
}

// feedBytes: large messages are fewer. Each call is of a megabyte at most: a backend ends one that
// takes too long, and what is asked here is how much is kept, not how fast it comes.
func feedBytes(f *fixture) {
	large := strings.Repeat("x", board.MaxMessage)
	const each, all = 16, 384
	for range all / each {
		texts := make([]string, each)
		for i := range texts {
			texts[i] = large
		}
		f.publish("t", texts...)
	}
	n := 0
	for cursor := ""; ; {
		list, next, err := f.b.Follow(f.ctx, "t", cursor, each, 0)
		f.must(err)
		if len(list) == 0 {
			break
		}
		n, cursor = n+len(list)*board.MaxMessage, next
	}
	if n < board.FeedBytes/2 || n > 2*board.FeedBytes {
		f.Errorf("%d bytes are kept, expected about %d", n, board.FeedBytes)
	}
}

func feedEnds(f *fixture) {
	list, next, err := f.b.Follow(f.ctx, "t", "", 1, 30*time.Millisecond)
	if err != nil || len(list) > 0 || next != "" {
		f.Errorf("a wait that is over gives %q, %q, %v", list, next, err)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() {
		_, _, err := f.b.Follow(ctx, "t", "", 1, board.FeedWait)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.Errorf("an ended context gives %v", err)
	}
	f.publish("t", "after")
	f.followed("t", "", 1, "after")
}

func feedRefuses(f *fixture) {
	follow := func(topic, cursor string, most int) error {
		_, _, err := f.b.Follow(f.ctx, topic, cursor, most, 0)
		return err
	}
	for what, err := range map[string]error{
		"no topic":           f.b.Publish(f.ctx, "", []byte("x")),
		"a long topic":       f.b.Publish(f.ctx, strings.Repeat("t", board.MaxName+1), []byte("x")),
		"a large message":    f.b.Publish(f.ctx, "t", make([]byte, board.MaxMessage+core.EncryptionRoom+1)),
		"many messages":      f.b.Publish(f.ctx, "t", make([][]byte, board.MaxPublish+1)...),
		"following no topic": follow("", "", 1),
		"max 0":              follow("t", "", 0),
		"max over the most":  follow("t", "", board.MaxFollow+1),
		"no cursor":          follow("t", "x", 1),
		"cursor with zeros":  follow("t", "0-0", 1),
		"cursor of a range":  follow("t", "(1-1", 1),
		"huge cursor":        follow("t", "1-"+strings.Repeat("9", 30), 1),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			f.Errorf("%s: %v, expected core.ErrInvalid", what, err)
		}
	}
	f.followed("t", "", 10) // nothing of it is there
	f.publish("t", string(make([]byte, board.MaxMessage)))
	f.must(f.b.Publish(f.ctx, "t", make([][]byte, board.MaxPublish)...))
}

// feedCrowd: a hundred who watch leave connections to everybody else who asks the backend.
func feedCrowd(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	gone := make(chan error, 100)
	for i := range cap(gone) {
		go func() {
			_, _, err := f.b.Follow(ctx, fmt.Sprint("t", i), "", 1, board.FeedWait)
			gone <- err
		}()
	}
	for i := range 50 {
		text := fmt.Sprint(i)
		f.posted("w", text, f.post("w", text))
	}
	cancel()
	for range cap(gone) {
		// Where the crowd takes longer than FeedWait, an answer may be late: what others need is the
		// matter here.
		if err := <-gone; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrUnknown) {
			f.Errorf("a follower: %v", err)
		}
	}
}
