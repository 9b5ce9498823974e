package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// pruneBatch is how many rows one transaction removes: what is recorded meanwhile hardly waits.
const pruneBatch = 500

// ExpiredItem is one run that loses something, or all.
type ExpiredItem struct {
	Tenant  string    `json:"tenant"`
	Run     string    `json:"run"`
	Ended   time.Time `json:"ended"`
	Whole   bool      `json:"whole"`   // the run goes; else its large outputs only
	Outputs int64     `json:"outputs"` // that go
	Bytes   int64     `json:"bytes"`   // of these
	Why     string    `json:"why"`
}

// Keeper finds expired runs and outputs, and removes them.
type Keeper struct {
	Ledger *Ledger
	Policy RetentionPolicy
	Now    time.Time
	// Pause is called between two pieces of work, so that others get their turn; nil is none. An
	// error of it ends the work.
	Pause func(context.Context) error
}

// retentionWalk is one look through the ledger.
type retentionWalk struct {
	*Keeper
	each  func(ExpiredItem) error
	freed map[string]int64 // bytes, by tenant
}

// Find hands what is over to each, in the order in which it would go: by age first, then by size,
// oldest first. It changes nothing.
func (k *Keeper) Find(ctx context.Context, each func(ExpiredItem) error) error {
	w := &retentionWalk{Keeper: k, each: each, freed: map[string]int64{}}
	use, err := w.use(ctx) // before anything goes: what goes by age is taken off
	if err != nil {
		return err
	}
	if err := w.byAge(ctx); err != nil {
		return err
	}
	return w.bySize(ctx, use)
}

// Remove removes expired runs and outputs, and calls each with what it removed.
func (k *Keeper) Remove(ctx context.Context, each func(ExpiredItem)) error {
	if _, err := k.Ledger.PruneFacts(ctx, k.Now.Add(-FactsKept)); err != nil {
		return err
	}
	return k.Find(ctx, func(i ExpiredItem) error {
		prune := k.Ledger.PruneOutputs
		if i.Whole {
			prune = k.Ledger.Prune
		}
		for {
			p, err := prune(ctx, i.Run, pruneBatch)
			if errors.Is(err, core.ErrConflict) { // it runs again
				return nil
			}
			if err != nil {
				return err
			}
			if err := k.pause(ctx); err != nil {
				return err
			}
			if !p.More {
				each(i)
				return nil
			}
		}
	})
}

func (k *Keeper) pause(ctx context.Context) error {
	if k.Pause == nil {
		return ctx.Err()
	}
	return k.Pause(ctx)
}

// byAge checks tenants with a rule of their own, one by one, and all others together.
func (w *retentionWalk) byAge(ctx context.Context) error {
	names := w.Policy.Names()
	for _, name := range names {
		if err := w.aged(ctx, Owners{Tenants: []string{name}}, w.Policy.Of(name)); err != nil {
			return err
		}
	}
	return w.aged(ctx, Owners{Tenants: names, Others: true}, w.Policy.All)
}

func (w *retentionWalk) aged(ctx context.Context, of Owners, r RetentionRule) error {
	if r.Runs > 0 {
		err := w.runs(ctx, of, w.Now.Add(-r.Runs), false, func(run Run) error { return w.item(ctx, run, true, "ended longer ago than runs are kept") })
		if err != nil {
			return err
		}
	}
	if r.Outputs <= 0 {
		return nil
	}
	return w.runs(ctx, of, w.Now.Add(-r.Outputs), true, func(run Run) error {
		if r.gone(run, w.Now) {
			return nil
		}
		return w.item(ctx, run, false, "ended longer ago than outputs are kept")
	})
}

// gone reports whether a run goes as a whole by its age.
func (r RetentionRule) gone(run Run, now time.Time) bool {
	return r.Runs > 0 && run.Ended.Before(now.Add(-r.Runs))
}

// use adds up the outputs by tenant, where some tenant has a bound: it reads every row of them.
func (w *retentionWalk) use(ctx context.Context) (map[string]Use, error) {
	quota := w.Policy.All.Quota > 0
	for _, name := range w.Policy.Names() {
		quota = quota || w.Policy.Of(name).Quota > 0
	}
	if !quota {
		return nil, nil //nolint:nilnil // nobody has too much
	}
	return w.Ledger.OutputUse(ctx)
}

// bySize takes the outputs of the oldest runs of tenants that have more than they may.
func (w *retentionWalk) bySize(ctx context.Context, use map[string]Use) error {
	for _, tenant := range slices.Sorted(maps.Keys(use)) {
		r := w.Policy.Of(tenant)
		over := use[tenant].Bytes - r.Quota - w.freed[tenant]
		if r.Quota <= 0 || over <= 0 {
			continue
		}
		before := w.freed[tenant]
		err := w.runs(ctx, Owners{Tenants: []string{tenant}}, w.Now.Add(time.Hour), true, func(run Run) error {
			if w.freed[tenant]-before >= over {
				return errEnough
			}
			if r.gone(run, w.Now) || r.Outputs > 0 && run.Ended.Before(w.Now.Add(-r.Outputs)) {
				return nil
			}
			return w.item(ctx, run, false, fmt.Sprintf("the tenant's outputs are over %d bytes", r.Quota))
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// runs reads runs that ended, page by page: what goes meanwhile does not disturb it.
func (w *retentionWalk) runs(ctx context.Context, of Owners, before time.Time, outputs bool, each func(Run) error) error {
	list := func(ctx context.Context, p Page) ([]Run, string, error) {
		return w.Ledger.Expired(ctx, of, before, outputs, p)
	}
	for r, err := range Each(ctx, DefaultPage, list) {
		if err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *retentionWalk) item(ctx context.Context, run Run, whole bool, why string) error {
	use, err := w.Ledger.RunUse(ctx, run)
	if err != nil {
		return err
	}
	w.freed[run.Tenant] += use.Bytes
	return w.each(ExpiredItem{Tenant: run.Tenant, Run: run.ID, Ended: run.Ended, Whole: whole, Outputs: use.Outputs, Bytes: use.Bytes, Why: why})
}
