package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/redisconn"
)

const (
	// feedBlocks is how many followers of a process sleep in Redis, each on a connection of the pool.
	// The others look every feedPoll: however many people watch, the pool is there for turns.
	feedBlocks = 3
	feedPoll   = 200 * time.Millisecond
)

// Publish adds messages to a topic. After core.ErrUnknown they may or may not be there.
func (q *Queue) Publish(ctx context.Context, topic string, messages ...[]byte) error {
	if err := board.ValidateMessages(topic, messages); err != nil {
		return err
	}
	if len(messages) == 0 {
		return ctx.Err()
	}
	size := 0
	for _, m := range messages {
		size += len(m)
	}
	keep := board.FeedMessages
	if size > 0 {
		keep = max(1, min(keep, board.FeedBytes/(1+size/len(messages))))
	}
	args := []any{escape(topic), keep, board.FeedKeep.Milliseconds()}
	for _, m := range messages {
		args = append(args, m)
	}
	if _, err := q.eval(ctx, q.scripts.publish, args...); err != nil {
		return fmt.Errorf("publish to topic %q: %w", topic, err)
	}
	return nil
}

// Follow returns what was published after cursor.
func (q *Queue) Follow(ctx context.Context, topic, cursor string, most int, wait time.Duration) ([][]byte, string, error) {
	at, err := board.ValidateFollow(topic, cursor, most)
	if err != nil {
		return nil, cursor, err
	}
	key := q.keys.key("pFeed") + escape(topic)
	end := time.Now().Add(min(wait, board.FeedWait))
	for known := false; ; {
		if err := ctx.Err(); err != nil {
			return nil, cursor, err
		}
		list, next, err := q.messages(ctx, key, at, most)
		if err != nil {
			return nil, cursor, fmt.Errorf("follow topic %q: %w", topic, err)
		}
		if len(list) > 0 {
			return list, next.String(), nil
		}
		if !known && at.Number > 0 {
			known = true
			if here, err := q.here(ctx, key, at); err != nil {
				return nil, cursor, fmt.Errorf("follow topic %q: %w", topic, err)
			} else if !here {
				at = board.Cursor{}
				continue
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, cursor, nil
		}
		if err := q.sleep(ctx, key, at, left); err != nil {
			return nil, cursor, fmt.Errorf("follow topic %q: %w", topic, err)
		}
	}
}

// here reports whether the topic still has what the cursor is behind, or newer: else it is of
// another life of the topic, which may even be a later one, where Redis' clock was set back between
// them.
func (q *Queue) here(ctx context.Context, key string, at board.Cursor) (bool, error) {
	newer, err := q.client.XRangeN(ctx, key, at.String(), "+", 1).Result()
	return len(newer) > 0, translate(ctx, err, "follow")
}

// messages reads the stream behind at.
func (q *Queue) messages(ctx context.Context, key string, at board.Cursor, most int) ([][]byte, board.Cursor, error) {
	from := "-"
	if at.Number > 0 {
		from = "(" + at.String()
	}
	page, err := q.client.XRangeN(ctx, key, from, "+", int64(most)).Result()
	if err != nil {
		return nil, at, translate(ctx, err, "follow")
	}
	list := make([][]byte, 0, len(page))
	for _, m := range page {
		if at, err = board.ParseCursor(m.ID); err != nil {
			return nil, at, err
		}
		text, _ := m.Values["m"].(string)
		list = append(list, []byte(text))
	}
	return list, at, nil
}

// sleep waits for a message behind at, or a while.
func (q *Queue) sleep(ctx context.Context, key string, at board.Cursor, left time.Duration) error {
	select {
	case q.feedConcurrency <- struct{}{}:
		defer func() { <-q.feedConcurrency }()
		last := "0-0"
		if at.Number > 0 {
			last = at.String()
		}
		_, err := q.blocked(ctx, min(left, backstop), "xread", "count", 1, "block", redisconn.BlockTime{}, "streams", key, last)
		return err
	default:
	}
	core.Pause(ctx, min(left, feedPoll), nil)
	return nil
}
