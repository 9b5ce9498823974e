package service

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
)

// The log of the service reports what a person has to check, and what happened twice.
func TestHeldAndRepeatedRunsAreSaid(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := &service{con: console.New(nil, io.Discard, &said)}
	s.event(controller.Event{Kind: controller.RunPaused, Run: "R1", Reason: "look at the hosts"})
	s.event(controller.Event{Kind: controller.RunRepeated, Run: "R2", Count: 3})
	for _, want := range []string{"run R1 is paused: look at the hosts", "run R2 was repeated in part: 3 jobs"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %q", want, said.String())
		}
	}
}

// An error in the log has no word of a sentinel.
func TestEventsAreWithoutSentinels(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := &service{con: console.New(nil, io.Discard, &said)}
	away := fmt.Errorf("Redis cannot be reached: %w (dial tcp: refused)", core.ErrUnavailable)
	s.event(controller.Event{Kind: controller.QueueAway, Err: away})
	s.catalogEvent(catalog.Event{Kind: catalog.SourceFailed, Source: "netbox", Err: away})
	if n := strings.Count(said.String(), "Redis cannot be reached: dial tcp: refused\n"); n != 2 || strings.Contains(said.String(), core.ErrUnavailable.Error()) {
		t.Errorf("the log is %q", said.String())
	}
}
