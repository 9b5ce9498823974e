package secrets

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// maxKept bounds what is kept, in bytes: beyond it values are fetched each time.
const maxKept = 16 << 20

// failedFor is how long a failure is believed, so that a thousand hosts do not ask a Vault that is
// away one after the other.
const failedFor = 2 * time.Second

// cache holds values in memory for a while. One fetch a key runs at the same time. Safe for
// concurrent use.
type cache struct {
	keep time.Duration // negative: nothing is kept

	mu     sync.Mutex
	known  map[string]*kept
	size   int         // bytes of all values
	timer  *time.Timer // wipes what is too old
	closed bool
}

// kept is one key's value, or its last failure.
type kept struct {
	turn  chan struct{} // holds one token: its holder may fetch
	users int           // that hold or wait for the turn; of cache.mu, as all below
	value []byte
	err   error
	until time.Time
}

func newCache(keep time.Duration) *cache { return &cache{keep: keep, known: map[string]*kept{}} }

// get gives a copy of the key's value, fetching it where it is not known. A caller that waits for
// another's fetch ends with its own context, and fetches itself if the other one was cancelled.
func (c *cache) get(ctx context.Context, key string, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	k := c.enter(key)
	defer c.leave(key, k)
	select {
	case <-k.turn:
		defer func() { k.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if known := c.fresh(k); known != nil {
		return known.value, known.err
	}
	value, err := fetch(ctx)
	c.put(k, value, err)
	return value, err
}

func (c *cache) enter(key string) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[key]
	if k == nil {
		k = &kept{turn: make(chan struct{}, 1)}
		k.turn <- struct{}{}
		c.known[key] = k
	}
	k.users++
	return k
}

func (c *cache) leave(key string, k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.users--; k.users == 0 && k.value == nil && k.err == nil && c.known[key] == k {
		delete(c.known, key)
	}
}

// fresh is a copy of what is known; nil when that is nothing, or too old.
func (c *cache) fresh(k *kept) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.until.After(time.Now()) {
		return nil
	}
	return &kept{value: slices.Clone(k.value), err: k.err}
}

// put keeps a copy of what came. An ended context is not kept: it does not describe the secret.
func (c *cache) put(k *kept, value []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(k)
	switch {
	case c.size+len(value) > maxKept, c.closed, c.keep < 0, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return
	case err != nil && !errors.Is(err, core.ErrUnavailable):
		return // people mend a file and try again immediately
	case err != nil:
		k.err, k.until = err, time.Now().Add(min(failedFor, c.keep))
	default:
		k.value, k.until = slices.Clone(value), time.Now().Add(c.keep)
		c.size += len(value)
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(c.keep, c.sweep)
	}
}

func (c *cache) forget(k *kept) {
	c.size -= len(k.value)
	clear(k.value)
	k.value, k.err, k.until = nil, nil, time.Time{}
}

// sweep wipes what is too old, and comes back for the rest.
func (c *cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var next time.Time
	for key, k := range c.known {
		if !k.until.After(now) {
			c.forget(k)
			if k.users == 0 {
				delete(c.known, key)
			}
			continue
		}
		if next.IsZero() || k.until.Before(next) {
			next = k.until
		}
	}
	c.timer = nil
	if !next.IsZero() && !c.closed {
		c.timer = time.AfterFunc(max(next.Sub(now), 10*time.Millisecond), c.sweep)
	}
}

// close wipes everything; nothing is kept from then on.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for key, k := range c.known {
		c.forget(k)
		if k.users == 0 {
			delete(c.known, key)
		}
	}
}
