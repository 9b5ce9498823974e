package queue

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
)

// CheckEvent tells what a wake refuses of an event's name.
func CheckEvent(event string) error {
	if event == "" || len(event) > MaxIDLength {
		return fmt.Errorf("the event's name has %d bytes, expected 1 to %d: %w", len(event), MaxIDLength, core.ErrInvalid)
	}
	return nil
}

// ForPeople tells whether an event is one that people may wake a job with: not the service's own, nor any other of a name
// that the service may come to use. OwnEvent is narrower: those that it uses today.
func ForPeople(event string) bool {
	return event != EventWindow && !strings.HasPrefix(event, "turnus:")
}
