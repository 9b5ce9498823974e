package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// batch is how many rows one transaction removes: what is recorded meanwhile hardly waits.
const batch = 500

// Item is one run that loses something, or all.
type Item struct {
	Tenant  string    `json:"tenant"`
	Run     string    `json:"run"`
	Ended   time.Time `json:"ended"`
	Whole   bool      `json:"whole"`   // the run goes; else its large outputs only
	Outputs int64     `json:"outputs"` // that go
	Bytes   int64     `json:"bytes"`   // of these
	Why     string    `json:"why"`
}

// Keeper finds what is over, and removes it.
type Keeper struct {
	Ledger *ledger.Ledger
	Policy Policy
	Now    time.Time
	// Pause is called between two pieces of work, so that others get their turn; nil is none. An error
	// of it ends the work.
	Pause func(context.Context) error
}

// walk is one look through the ledger.
type walk struct {
	*Keeper
	each  func(Item) error
	freed map[string]int64 // bytes, by tenant
}

// Find hands what is over to each, in the order in which it would go: by age first, then by size,
// oldest first. It changes nothing.
func (k *Keeper) Find(ctx context.Context, each func(Item) error) error {
	w := &walk{Keeper: k, each: each, freed: map[string]int64{}}
	use, err := w.use(ctx) // before anything goes: what goes by age is taken off
	if err != nil {
		return err
	}
	if err := w.byAge(ctx); err != nil {
		return err
	}
	return w.bySize(ctx, use)
}

// Remove removes what is over, and tells each what has gone.
func (k *Keeper) Remove(ctx context.Context, each func(Item)) error {
	if _, err := k.Ledger.PruneFacts(ctx, k.Now.Add(-ledger.FactsKept)); err != nil {
		return err
	}
	return k.Find(ctx, func(i Item) error {
		prune := k.Ledger.PruneOutputs
		if i.Whole {
			prune = k.Ledger.Prune
		}
		for {
			p, err := prune(ctx, i.Run, batch)
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

// byAge looks at tenants with a rule of their own, one by one, and at all others together.
func (w *walk) byAge(ctx context.Context) error {
	names := w.Policy.Names()
	for _, name := range names {
		if err := w.aged(ctx, ledger.Owners{Tenants: []string{name}}, w.Policy.Of(name)); err != nil {
			return err
		}
	}
	return w.aged(ctx, ledger.Owners{Tenants: names, Others: true}, w.Policy.All)
}

func (w *walk) aged(ctx context.Context, of ledger.Owners, r Rule) error {
	if r.Runs > 0 {
		err := w.runs(ctx, of, w.Now.Add(-r.Runs), false, func(run ledger.Run) error { return w.item(ctx, run, true, "ended longer ago than runs are kept") })
		if err != nil {
			return err
		}
	}
	if r.Outputs <= 0 {
		return nil
	}
	return w.runs(ctx, of, w.Now.Add(-r.Outputs), true, func(run ledger.Run) error {
		if r.gone(run, w.Now) {
			return nil
		}
		return w.item(ctx, run, false, "ended longer ago than outputs are kept")
	})
}

// gone tells whether a run goes as a whole by its age.
func (r Rule) gone(run ledger.Run, now time.Time) bool {
	return r.Runs > 0 && run.Ended.Before(now.Add(-r.Runs))
}

// use adds up the outputs by tenant, where some tenant has a bound: it reads every row of them.
func (w *walk) use(ctx context.Context) (map[string]ledger.Use, error) {
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
func (w *walk) bySize(ctx context.Context, use map[string]ledger.Use) error {
	for _, tenant := range slices.Sorted(maps.Keys(use)) {
		r := w.Policy.Of(tenant)
		over := use[tenant].Bytes - r.Quota - w.freed[tenant]
		if r.Quota <= 0 || over <= 0 {
			continue
		}
		before := w.freed[tenant]
		err := w.runs(ctx, ledger.Owners{Tenants: []string{tenant}}, w.Now.Add(time.Hour), true, func(run ledger.Run) error {
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
func (w *walk) runs(ctx context.Context, of ledger.Owners, before time.Time, outputs bool, each func(ledger.Run) error) error {
	for page := (ledger.Page{Limit: ledger.DefaultPage}); ; {
		runs, next, err := w.Ledger.Expired(ctx, of, before, outputs, page)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := each(r); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		page.Cursor = next
	}
}

func (w *walk) item(ctx context.Context, run ledger.Run, whole bool, why string) error {
	use, err := w.Ledger.RunUse(ctx, run)
	if err != nil {
		return err
	}
	w.freed[run.Tenant] += use.Bytes
	return w.each(Item{Tenant: run.Tenant, Run: run.ID, Ended: run.Ended, Whole: whole, Outputs: use.Outputs, Bytes: use.Bytes, Why: why})
}
