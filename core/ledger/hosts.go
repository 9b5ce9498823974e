package ledger

import (
	"context"
	"sync"
)

// hostCache keeps the hosts of runs whose outcomes come in: they never change. The zero value is ready.
type hostCache struct {
	mu    sync.Mutex
	runs  map[int64][]JobHost
	order []int64 // oldest first
	total int
}

// maxCachedHosts bounds the cache; the newest run is kept whatever its size.
const maxCachedHosts = 1_000_000

func (c *hostCache) get(seq int64) ([]JobHost, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs, ok := c.runs[seq]
	return jobs, ok
}

func (c *hostCache) put(seq int64, jobs []JobHost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.runs[seq]; ok {
		return
	}
	if c.runs == nil {
		c.runs = map[int64][]JobHost{}
	}
	for len(c.order) > 0 && c.total+len(jobs) > maxCachedHosts {
		c.total -= len(c.runs[c.order[0]])
		delete(c.runs, c.order[0])
		c.order = c.order[1:]
	}
	c.runs[seq] = jobs
	c.order = append(c.order, seq)
	c.total += len(jobs)
}

// hostsOf reads the hosts of a run, outside or (of SQLite: it would wait for itself) inside a transaction.
func (l *Ledger) hostsOf(ctx context.Context, row func(context.Context, string, ...any) scanner, seq int64, total int) ([]JobHost, error) {
	if jobs, ok := l.hosts.get(seq); ok {
		return jobs, nil
	}
	var packed []byte
	if err := row(ctx, `SELECT hosts FROM materials WHERE run = $1`, seq).Scan(&packed); err != nil {
		return nil, err
	}
	jobs, err := unpackHosts(packed, total)
	if err == nil {
		l.hosts.put(seq, jobs)
	}
	return jobs, err
}
