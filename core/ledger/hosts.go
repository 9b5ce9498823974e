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

// maxCachedHosts bounds the cache; the newest run is kept whatever its size.
const maxCachedHosts = 1_000_000

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
	for len(c.order) > 0 && c.total+len(jobs) > maxCachedHosts {
		c.total -= len(c.runs[c.order[0]])
		delete(c.runs, c.order[0])
		c.order = c.order[1:]
	}
	c.runs[key] = jobs
	c.order = append(c.order, key)
	c.total += len(jobs)
}

// hostsOf reads the hosts of a run, outside or (of SQLite: it would wait for itself) inside a transaction.
func (l *Ledger) hostsOf(ctx context.Context, row func(context.Context, string, ...any) scanner, run *Run) ([]JobHost, error) {
	key := hostKey{run.seq, run.content}
	if jobs, ok := l.hosts.get(key); ok {
		return jobs, nil
	}
	var packed []byte
	if err := row(ctx, `SELECT hosts FROM materials WHERE run = $1`, run.seq).Scan(&packed); err != nil {
		return nil, err
	}
	jobs, err := unpackHosts(packed, run.Total)
	if err == nil {
		l.hosts.put(key, jobs)
	}
	return jobs, err
}
