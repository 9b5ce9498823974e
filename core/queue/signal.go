package queue

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
)

// EventWindow is the event for which a job is suspended while its window is closed. Such a
// job holds nothing, and its wave need not wait for it.
const EventWindow = "window"

// Reserved begins the names of events that only the service uses. A job type cannot suspend itself
// until such an event.
const Reserved = "turnus:"

// CheckEvent returns the error of Signal for an event's name; nil if Signal accepts it.
func CheckEvent(event string) error {
	if event == "" || len(event) > MaxIDLength {
		return fmt.Errorf("the event's name has %d bytes, expected 1 to %d: %w", len(event), MaxIDLength, core.ErrInvalid)
	}
	return checkID("the event's name", event, true)
}

// ForPeople reports whether job types may wait for an event and people may signal it: it is not the
// service's own, and its name is not in the prefix that the service reserves.
func ForPeople(event string) bool {
	return event != EventWindow && !strings.HasPrefix(event, Reserved)
}
