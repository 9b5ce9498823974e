package cli

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/controller"
)

func TestAMessageIsReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l messageLimiter
		said := 0
		for range 600 { // ten minutes of it, once a second
			if l.allow("Redis cannot be reached") {
				said++
			}
			<-time.After(time.Second)
		}
		if said != 10 {
			t.Errorf("said %d times in ten minutes", said)
		}
		if !l.allow("another matter") || l.allow("another matter") {
			t.Error("another message is not allowed exactly once")
		}
		for i := range 10 * maxMessageTexts {
			l.allow(strconv.Itoa(i))
		}
		if len(l.last) > maxMessageTexts {
			t.Errorf("%d texts are remembered", len(l.last))
		}
	})
}

// The log of the service says what a person has to look at, and what happened twice.
func TestHeldAndRepeatedRunsAreSaid(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := &service{a: &app{err: newScreen(&said, false, func() {})}}
	s.event(controller.Event{Kind: controller.RunHeld, Run: "R1", Reason: "look at the hosts"})
	s.event(controller.Event{Kind: controller.RunRepeated, Run: "R2", Count: 3})
	for _, want := range []string{"run R1 is paused: look at the hosts", "run R2 was repeated in part: 3 jobs"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %q", want, said.String())
		}
	}
}

// What is said is read in full, also above a moving part: where the token is, each line of what is wrong.
func TestMessagesAreNotCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 300) + "\nand its end"
	for _, c := range []struct{ terminal, view bool }{{true, false}, {false, true}, {true, true}} {
		var said strings.Builder
		a := &app{terminal: c.terminal, err: newScreen(&said, false, func() {})}
		if c.view {
			a.view = &progressView{}
		}
		a.message(text)
		if !strings.Contains(said.String(), text) {
			t.Errorf("%+v: %q", c, said.String())
		}
	}
}
