package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/securefile"
)

// remainsFile holds what the queue of a service had reached when it was stopped as intended. It is
// there only between that and the next start: after a crash there is none, and runs that must not
// be repeated blindly are paused.
const remainsFile = "queue.json"

// leftover is the content of the file. If the ledger counts other outcomes of a run, it has
// replaced the ledger of the process that stopped: what ran since is not known.
type leftover struct {
	memory.Remains
	Recorded map[string]int `json:"recorded"` // jobs with an outcome, by run
}

// remains reads what the last queue in the folder left, of runs that are in the ledger as they were
// then.
func (d *DataDir) remains(ctx context.Context, l *ledger.Ledger) (memory.Remains, error) {
	var left leftover
	data, err := os.ReadFile(filepath.Join(d.Path, remainsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return left.Remains, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &left)
	}
	if err != nil {
		return memory.Remains{}, fmt.Errorf("read the progress of the queue at the last stop: %w\nhint: rm %s; runs whose jobs must not be repeated are then paused until somebody has checked their hosts", err, filepath.Join(d.Path, remainsFile))
	}
	var errs []error
	left.Runs = slices.DeleteFunc(left.Runs, func(id string) bool {
		run, err := l.Run(ctx, ledger.AllTenants(), id)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			errs = append(errs, err)
		}
		n, reported := left.Recorded[id]
		return err != nil || !reported || n != run.Recorded
	})
	if err := errors.Join(errs...); err != nil {
		return memory.Remains{}, fmt.Errorf("compare what the queue had reached with the ledger: %w", err)
	}
	return left.Remains, nil
}

// forgetRemains removes the file: from now on the queue is beyond it.
func (d *DataDir) forgetRemains() error {
	return securefile.Remove(filepath.Join(d.Path, remainsFile))
}

// keepRemains writes what the queue has reached, durably: nobody works on it any more.
func (d *DataDir) keepRemains(rest leftover) error {
	if len(rest.Runs) == 0 {
		return nil
	}
	data, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	return securefile.Replace(filepath.Join(d.Path, remainsFile), data, 0o600)
}

// keepQueue keeps what the service's own queue has reached, except runs with outcomes that are not
// recorded: their jobs would run again.
func (s *service) keepQueue(ctx context.Context) error {
	if s.f.Queue.own == nil {
		return nil
	}
	rest := leftover{Remains: s.f.Queue.own.Remains(), Recorded: map[string]int{}} // states as the queue has them: encrypted where there is a key ring
	var errs []error
	rest.Runs = slices.DeleteFunc(rest.Runs, func(id string) bool {
		run, err := s.ledger.Run(ctx, ledger.AllTenants(), id)
		if err != nil {
			errs = append(errs, err)
			return true
		}
		rest.Recorded[id] = run.Recorded
		return !recorded(ctx, s.queue, run)
	})
	if err := errors.Join(append(errs, s.data.keepRemains(rest))...); err != nil {
		return fmt.Errorf("keep what the queue has reached: %w", err)
	}
	return nil
}

// recorded reports whether the ledger has every outcome that the queue knows of. A run that the
// queue has not been given is.
func recorded(ctx context.Context, q queue.Queue, run ledger.Run) bool {
	status, err := q.Status(ctx, run.ID)
	return err != nil || status.Ended() <= run.Recorded
}
