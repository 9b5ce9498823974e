package queue

import (
	"context"
	"time"
)

// Bounds of a feed.
const (
	MaxMessage   = 64 << 10        // bytes of one message
	MaxPublish   = 256             // messages of one call
	FeedMessages = 20_000          // that a topic keeps, about; the oldest go first
	FeedKeep     = 1 * time.Hour   // a topic is gone so long after its last message
	FeedWait     = 5 * time.Second // the longest wait of one Follow
)

// Feed carries what happens right now, as the output of steps, to whoever watches. It is for
// eyes: a topic keeps its newest messages for a while, and what must not be lost does not
// belong here. Methods are safe for concurrent use.
type Feed interface {
	// Publish adds messages to a topic, in order. A topic is 1 to MaxIDLength bytes. Over MaxMessage or
	// MaxPublish is core.ErrInvalid.
	Publish(ctx context.Context, topic string, messages ...[]byte) error
	// Follow returns what was published after cursor ("" is the beginning of what is kept), at most max (1 to 1000),
	// waiting up to wait for the first; next is the cursor for the following call. A topic without messages, and a
	// cursor that is no longer kept, are no errors: what is kept comes.
	Follow(ctx context.Context, topic, cursor string, max int, wait time.Duration) (messages [][]byte, next string, err error)
}
