package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory/sources"
)

// How sources are asked. Two servers that do it at the same time do no harm: a generation is
// replaced by compare-and-set.
const (
	fetchDuty    = "inventory sources"
	fetchCheck   = 5 * time.Second
	fetchHold    = 20 * time.Second // the server that does it has the duty for so long
	fetchesAhead = 4                // at the same time
)

// fetchSources asks the sources that are due until ctx ends, while this server has the duty. Then
// all fetches have ended, and the duty is free.
func (c *Catalog) fetchSources(ctx context.Context) {
	f := &fetching{catalog: c, room: make(chan struct{}, fetchesAhead)}
	for ctx.Err() == nil {
		mine, err := c.cfg.Ledger.Duty(ctx, fetchDuty, c.id, fetchHold)
		if err == nil && mine {
			err = f.begin(ctx)
		}
		c.trouble(ctx, "cannot fetch the sources of hosts, retrying", err)
		core.Pause(ctx, fetchCheck, nil)
	}
	f.wg.Wait()
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchCheck)
	defer cancel()
	_, _ = c.cfg.Ledger.Duty(free, fetchDuty, c.id, 0) // if this fails, the duty expires
}

// fetching is the fetches that are under way.
type fetching struct {
	catalog *Catalog
	wg      sync.WaitGroup
	room    chan struct{}
	busy    sync.Map // the sources, by name
}

// begin begins to fetch each source that is due, and is not being fetched.
func (f *fetching) begin(ctx context.Context) error {
	for _, s := range f.catalog.cfg.Sources {
		st, err := f.catalog.keeper.State(ctx, s)
		if err != nil {
			return err
		}
		if !f.catalog.keeper.Due(s, st) {
			continue
		}
		if _, busy := f.busy.LoadOrStore(s.Name, true); busy {
			continue
		}
		f.wg.Go(func() {
			defer f.busy.Delete(s.Name)
			select {
			case f.room <- struct{}{}:
				defer func() { <-f.room }()
				f.catalog.fetchSource(ctx, s, st)
			case <-ctx.Done():
			}
		})
	}
	return nil
}

// fetchSource asks one source, and reports what has changed since before.
func (c *Catalog) fetchSource(ctx context.Context, s sources.Source, before sources.State) {
	st, err := c.keeper.Refresh(ctx, s)
	if errors.Is(err, core.ErrConflict) { // a person has approved meanwhile: the next fetch is soon
		return
	}
	if err != nil {
		c.trouble(ctx, "cannot keep the hosts of source "+s.Name, err)
		return
	}
	switch {
	case st.Failed != "" && before.Failed == "":
		c.report(Event{Kind: SourceFailed, Source: s.Name, Err: errors.New(st.Failed)})
	case st.Waiting != nil && (before.Waiting == nil || before.Waiting.ID != st.Waiting.ID):
		c.report(Event{Kind: SourceWaiting, Source: s.Name, Reason: st.Waiting.Why, Count: st.Waiting.Hosts})
	case st.ID != before.ID:
		c.report(Event{Kind: SourceChanged, Source: s.Name, Count: st.Hosts})
	}
	c.trouble(ctx, "cannot read the hosts of sources", c.refreshSources(ctx))
}
