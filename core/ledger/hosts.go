package ledger

import (
	"context"
	"sync"
)

// hostKey is a run and its content, which changes when it is amended.
type hostKey struct{ run, content int64 }

// hostCache keeps the hosts of runs whose outcomes come in: the hosts of one content never change.
// The zero value is ready.
type hostCache struct {
	mu    sync.Mutex
	runs  map[hostKey][]JobHost
	order []hostKey // oldest first
	total int
}

// maxCachedHosts bounds the cache, where a run costs as much as some hosts; the newest run is kept
// whatever its size.
const (
	maxCachedHosts = 1_000_000
	runCosts       = 8
)

func (c *hostCache) get(key hostKey) ([]JobHost, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs, ok := c.runs[key]
	return jobs, ok
}

func (c *hostCache) put(key hostKey, jobs []JobHost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.runs[key]; ok {
		return
	}
	if c.runs == nil {
		c.runs = map[hostKey][]JobHost{}
	}
	for len(c.order) > 0 && c.total+len(jobs)+runCosts > maxCachedHosts {
		c.total -= len(c.runs[c.order[0]]) + runCosts
		delete(c.runs, c.order[0])
		c.order = c.order[1:]
	}
	c.runs[key] = jobs
	c.order = append(c.order, key)
	c.total += len(jobs) + runCosts
}

// hostsOf reads the hosts of a run.
func (l *Ledger) hostsOf(ctx context.Context, run *Run) ([]JobHost, error) {
	if jobs, ok := l.hosts.get(run.hostKey()); ok {
		return jobs, nil
	}
	var packed []byte
	if err := l.db.row(ctx, `SELECT hosts FROM materials WHERE run = $1`, run.seq).Scan(&packed); err != nil {
		return nil, err
	}
	jobs, err := unpackHosts(packed, run.Total)
	if err == nil {
		l.hosts.put(run.hostKey(), jobs)
	}
	return jobs, err
}

// readHosts is hostsOf of all runs of a part, inside their transaction: of SQLite reading outside
// would wait for itself.
func (l *Ledger) readHosts(ctx context.Context, t *tx, all []*recording) error {
	missing := map[int64]*recording{}
	var rows [][]any
	for _, r := range all {
		var ok bool
		if r.hosts, ok = l.hosts.get(r.run.hostKey()); !ok {
			missing[r.run.seq] = r
			rows = append(rows, []any{r.run.seq})
		}
	}
	return t.set(ctx, columns{"run bigint"}, `SELECT m.run, m.hosts FROM u CROSS JOIN materials m WHERE m.run = u.run`, rows, func(row scanner) error {
		var seq int64
		var packed []byte
		err := row.Scan(&seq, &packed)
		if r := missing[seq]; err == nil {
			if r.hosts, err = unpackHosts(packed, r.run.Total); err == nil {
				l.hosts.put(r.run.hostKey(), r.hosts)
			}
		}
		return err
	})
}

func (r *Run) hostKey() hostKey { return hostKey{r.seq, r.content} }
