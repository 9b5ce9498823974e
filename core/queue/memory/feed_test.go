package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue/memory"
)

// TestFeedForgets: a topic is gone an hour after its last message, and begins again.
func TestFeedForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		follow := func(cursor, want string) string {
			t.Helper()
			list, next, err := q.Follow(t.Context(), "t", cursor, 10, board.FeedWait)
			got := ""
			for _, m := range list {
				got += string(m) + " "
			}
			if err != nil || got != want {
				t.Fatalf("Follow(%q) gives %q, %v, expected %q", cursor, got, err, want)
			}
			return next
		}
		publish := func(topic, text string) {
			t.Helper()
			if err := q.Publish(t.Context(), topic, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		publish("t", "one")
		pass(board.FeedKeep - time.Minute)
		publish("t", "two")
		pass(board.FeedKeep - time.Minute)
		cursor := follow("", "one two ")
		pass(time.Minute)
		if next := follow(cursor, ""); next != cursor {
			t.Errorf("the cursor became %q", next)
		}
		publish("other", "x") // drops what is gone
		publish("t", "three")
		next := follow(cursor, "three ")
		if lost := board.LostMessages(cursor, next, 1); lost != 0 {
			t.Errorf("%d messages are reported as lost", lost)
		}
	})
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
