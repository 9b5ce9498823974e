package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
)

// Waker wakes one job, where Control.Wake wakes all of a run.
type Waker interface {
	// WakeJob ends the suspension of a job that waits for event, and tells whether it did: a job that does not
	// wait for it, now or any more, is left alone. Errors are those of Control.Wake; an index outside
	// the run is core.ErrInvalid.
	WakeJob(ctx context.Context, job core.JobID, event string) (bool, error)
}

// CheckEvent tells what a wake refuses of an event's name.
func CheckEvent(event string) error {
	if event == "" || len(event) > MaxIDLength {
		return fmt.Errorf("the event's name has %d bytes, expected 1 to %d: %w", len(event), MaxIDLength, core.ErrInvalid)
	}
	return nil
}

// ForPeople tells whether an event is one that people may wake a job with: not the service's own.
func ForPeople(event string) bool {
	return event != EventWindow && !strings.HasPrefix(event, "turnus:")
}
