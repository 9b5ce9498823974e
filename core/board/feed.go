package board

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of a feed.
const (
	MaxMessage   = 64 << 10        // bytes of one message
	MaxPublish   = 256             // messages of one call
	MaxFollow    = 1000            // messages of one answer
	FeedMessages = 20_000          // that a topic keeps, about; the oldest go first
	FeedBytes    = 16 << 20        // that a topic keeps, about: fewer messages where they are large
	FeedKeep     = 1 * time.Hour   // a topic is gone so long after its last message
	FeedWait     = 5 * time.Second // the longest wait of one Follow
)

// Feed carries live events, as the output of steps, to watchers. A topic keeps its newest messages
// for a while. Data that must not be lost does not belong here. Methods are safe for concurrent
// use.
//
// Messages of a topic are numbered from 1 in each life of it. A follower is notified in
// milliseconds, or, with many followers, within a quarter of a second. One that is slower than the
// topic loses the oldest messages, and LostMessages is their number. Of many watchers of one topic
// in a process, let one follow and pass messages on: each Follow that waits costs the backend
// something.
type Feed interface {
	// Publish adds messages to a topic, in order and without others between them. A topic is 1 to
	// MaxName bytes. Over MaxMessage or MaxPublish is core.ErrInvalid. After core.ErrUnknown they
	// may or may not be there.
	Publish(ctx context.Context, topic string, messages ...[]byte) error
	// Follow returns what was published after cursor ("" is the beginning of what is kept), at most
	// max (1 to MaxFollow), waiting up to wait for the first; next is the cursor for the following
	// call. A topic without messages, and a cursor that is no longer kept, are no errors: what is
	// kept comes. The messages must not be changed.
	Follow(ctx context.Context, topic, cursor string, max int, wait time.Duration) (messages [][]byte, next string, err error)
}

// Cursor is the position behind one message. Its text is what Follow takes and gives.
type Cursor struct {
	Life   int64 // of the topic: another one after it was gone
	Number int64 // of the message, from 1 in each life
}

func (c Cursor) String() string {
	if c.Number == 0 {
		return ""
	}
	return strconv.FormatInt(c.Life, 10) + "-" + strconv.FormatInt(c.Number, 10)
}

// ParseCursor reads a cursor; "" is the zero one. A text that Follow did not give is
// core.ErrInvalid.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	m := regexp.MustCompile(`^([1-9]\d{0,17})-([1-9]\d{0,17})$`).FindStringSubmatch(s)
	if m == nil {
		return Cursor{}, fmt.Errorf("feed: cursor %q was not given out: %w", s, core.ErrInvalid)
	}
	life, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits fit
	number, _ := strconv.ParseInt(m[2], 10, 64)
	return Cursor{life, number}, nil
}

// LostMessages is how many messages a follower did not get that asked with cursor and was given n
// messages and next: they had gone before it came for them. Of a topic that was gone and began
// again, it counts those of the new beginning.
func LostMessages(cursor, next string, n int) int {
	from, err1 := ParseCursor(cursor)
	to, err2 := ParseCursor(next)
	if err1 != nil || err2 != nil {
		return 0
	}
	if from.Life != to.Life {
		from.Number = 0
	}
	return max(0, int(to.Number-from.Number)-n)
}

// ValidateMessages reports what a feed refuses to publish.
func ValidateMessages(topic string, messages [][]byte) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	if len(messages) > MaxPublish {
		return fmt.Errorf("topic %q: %d messages in one call, expected at most %d: %w", topic, len(messages), MaxPublish, core.ErrInvalid)
	}
	for i, m := range messages {
		if len(m) > MaxMessage+core.EncryptionRoom {
			return fmt.Errorf("topic %q: message %d has %d bytes, expected at most %d: %w", topic, i, len(m), MaxMessage, core.ErrInvalid)
		}
	}
	return nil
}

// ValidateFollow reports what a feed refuses of a Follow, and reads its cursor.
func ValidateFollow(topic, cursor string, most int) (Cursor, error) {
	if err := checkTopic(topic); err != nil {
		return Cursor{}, err
	}
	if most < 1 || most > MaxFollow {
		return Cursor{}, fmt.Errorf("follow topic %q: max is %d, expected 1 to %d: %w", topic, most, MaxFollow, core.ErrInvalid)
	}
	return ParseCursor(cursor)
}

func checkTopic(topic string) error {
	if !validName(topic) {
		return fmt.Errorf("topic %q: its name has to be 1 to %d bytes of UTF-8: %w", topic, MaxName, core.ErrInvalid)
	}
	return nil
}
