package service

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// RetentionFlags define how long runs and outputs are kept.
type RetentionFlags struct {
	runs, outputs, quota, file string
	base                       ledger.RetentionRule // of the first three
}

// Add gives the command the flags.
func (f *RetentionFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.runs, "keep-runs", "", "forget runs, with their outputs, so long after their end, as 1095d; without it they stay. The audit log always does")
	fl.StringVar(&f.outputs, "keep-outputs", "", "forget outputs over 64 KiB so long after the end of their run, as 90d; without it they stay as long as the run")
	fl.StringVar(&f.quota, "outputs-quota", "", "bytes of outputs over 64 KiB that a tenant may have, as 50GiB; over it the oldest runs lose theirs")
	fl.StringVar(&f.file, "retention", "", "YAML file of what holds for single tenants instead; read again each time (docs/operating-backup.md#retention)")
}

// Check reads the flags, and the file so that a mistake in it is reported at the start.
func (f *RetentionFlags) Check() error {
	for _, one := range []struct {
		flag, text string
		into       *time.Duration
	}{{"--keep-runs", f.runs, &f.base.Runs}, {"--keep-outputs", f.outputs, &f.base.Outputs}} {
		if one.text == "" {
			continue
		}
		var err error
		if *one.into, err = ledger.ParseRetentionTime(one.text); err != nil {
			return console.Invalid("%s %w", one.flag, err)
		}
	}
	if f.quota != "" {
		var err error
		if f.base.Quota, err = ledger.ParseRetentionSize(f.quota); err != nil {
			return console.Invalid("--outputs-quota %w", err)
		}
	}
	_, err := f.Policy()
	return err
}

// Policy returns the present policy.
func (f *RetentionFlags) Policy() (ledger.RetentionPolicy, error) {
	if f.file == "" {
		return ledger.RetentionPolicy{All: f.base}, nil
	}
	data, err := os.ReadFile(f.file)
	if err != nil {
		return ledger.RetentionPolicy{}, console.Invalid("--retention: %w", err)
	}
	return ledger.ParseRetention(f.file, data, f.base)
}

// How runs are forgotten that ended long ago.
const (
	forgetEvery = time.Hour
	forgetPause = 100 * time.Millisecond // between two pieces: what is recorded meanwhile hardly waits
	forgetHold  = 10 * time.Minute       // the server that does it has the duty for so long after its last piece
	sweepEvery  = 24 * time.Hour
	// An object may be so old before its row is missed: no write takes that long.
	OrphanAge = 24 * time.Hour
)

// forget removes what is kept no longer, and objects that nothing names, until ctx ends. Of several
// servers one does it.
func (s *service) forget(ctx context.Context) {
	var swept time.Time
	for {
		if mine, err := s.ledger.Duty(ctx, "retention", s.name, forgetHold); err != nil || mine {
			sweep := time.Since(swept) >= sweepEvery
			if err == nil {
				err = s.forgetOnce(ctx, sweep)
			}
			if err == nil && sweep {
				swept = time.Now()
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn("cannot remove expired data, retrying in an hour", "error", err)
			}
		}
		if core.Sleep(ctx, forgetEvery) != nil {
			return
		}
	}
}

// forgetOnce looks once.
func (s *service) forgetOnce(ctx context.Context, sweep bool) error {
	p, err := s.f.retention.Policy()
	if err != nil {
		return err // half a file may have fewer rules than intended: nothing is deleted
	}
	held := time.Now()
	pause := func(ctx context.Context) error {
		if time.Since(held) > forgetHold/2 {
			mine, err := s.ledger.Duty(ctx, "retention", s.name, forgetHold)
			if err != nil {
				return err
			}
			if !mine { // this server was suspended for long
				return errors.New("another server does it now")
			}
			held = time.Now()
		}
		core.Pause(ctx, forgetPause, nil)
		return ctx.Err()
	}
	if _, err := s.ledger.PruneTokens(ctx, held.Add(-ledger.KeepTokens)); err != nil {
		return err
	}
	runs, outputs, bytes := 0, int64(0), int64(0)
	if !p.Idle() {
		k := &ledger.Keeper{Ledger: s.ledger, Policy: p, Now: time.Now(), Pause: pause}
		err = k.Remove(ctx, func(i ledger.ExpiredItem) {
			outputs, bytes = outputs+i.Outputs, bytes+i.Bytes
			if i.Whole {
				runs++
			}
		})
		if runs > 0 || outputs > 0 {
			s.log.Info("forgotten", "runs", runs, "outputs", outputs, "bytes", bytes)
		}
	}
	if err != nil || !sweep {
		return err
	}
	swept, err := s.ledger.Sweep(ctx, time.Now().Add(-OrphanAge), true, pause)
	if swept.Orphans > 0 {
		s.log.Warn("objects that nothing named were removed", "objects", swept.Orphans, "bytes", swept.Bytes)
	}
	return err
}

// keepOutput stores an output of the worker of this process.
func (s *service) keepOutput(ctx context.Context, job core.JobID, name string, open func() (io.Reader, error)) error {
	from, err := open()
	if err != nil {
		return err
	}
	_, err = s.ledger.PutOutput(ctx, job, name, from)
	return err
}
