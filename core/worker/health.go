package worker

import (
	"errors"
	"fmt"
	"time"
)

// Stuck returns an error if the node has not asked for work for longer than a busy machine, or a
// queue that is away, explains: only a new process helps then. It is nil otherwise, and before and
// after Run.
func (w *Worker) Stuck() error {
	if since := w.pulse.Stuck(stuckAfter); since > 0 {
		return fmt.Errorf("the node has not looked for work for %v", since.Round(time.Second))
	}
	return nil
}

// Unready returns why the node takes no new job now, or is nil. A full or loaded node is ready.
func (w *Worker) Unready() error {
	switch {
	case w.draining.Load():
		return errors.New("draining")
	case !w.pulse.Beats():
		return errors.New("not started")
	case w.away.Lasts():
		return errors.New("the queue does not answer")
	case w.cordoned.Load():
		return errors.New("cordoned")
	}
	return nil
}
