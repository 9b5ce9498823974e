package console

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAMessageIsReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l MessageLimiter
		said := 0
		for range 600 { // ten minutes of it, once a second
			if l.Allow("Redis cannot be reached") {
				said++
			}
			<-time.After(time.Second)
		}
		if said != 10 {
			t.Errorf("printed %d times in ten minutes", said)
		}
		if !l.Allow("another matter") || l.Allow("another matter") {
			t.Error("another message is not allowed exactly once")
		}
		for i := range 10 * maxMessageTexts {
			l.Allow(strconv.Itoa(i))
		}
		if len(l.last) > maxMessageTexts {
			t.Errorf("%d texts are remembered", len(l.last))
		}
	})
}

// A message is shown in full, also above a moving part: where the token is, and each line of a
// problem.
func TestMessagesAreNotCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 300) + "\nand its end"
	for _, c := range []struct{ terminal, view bool }{{true, false}, {false, true}, {true, true}} {
		var said strings.Builder
		a := New(nil, io.Discard, &said)
		a.Terminal = c.terminal
		if c.view {
			a.NewMoving()
		}
		a.Message(text)
		if !strings.Contains(said.String(), text) {
			t.Errorf("%+v: %q", c, said.String())
		}
	}
}
