package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// serverPrefix begins the board's documents by which servers show that they live. Servers before
// the engine used another one, and followed runs, not parts: beside them the runs are followed
// twice, which harms nothing, and none is left out.
const serverPrefix = "engine/"

// share computes which parts of the queue are this server's.
func (c *Controller) share(ctx context.Context) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	mine := map[int]bool{}
	for part := range queue.Parts {
		if owner(servers, "part-"+strconv.Itoa(part)) == c.cfg.Name {
			mine[part] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = servers
	if !maps.Equal(mine, c.parts) {
		c.parts = mine
		for _, w := range c.agenda.runs {
			if !mine[queue.Part(w.id)] { // another server's
				c.agenda.drop(w)
				delete(c.waiting, w.id)
			}
		}
		core.Notify(c.partsChanged)
	}
	return nil
}

// takeAll makes all parts this one's, which is alone with its ledger.
func (c *Controller) takeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts != nil {
		return
	}
	c.parts = map[int]bool{}
	for part := range queue.Parts {
		c.parts[part] = true
	}
	core.Notify(c.partsChanged)
}

// watches reports whether a run is in one of this server's parts.
func (c *Controller) watches(run string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[queue.Part(run)]
}

// servers announces this server, and lists all that live.
func (c *Controller) servers(ctx context.Context) ([]string, error) {
	mine := serverPrefix + c.cfg.Name
	_, version, err := c.cfg.Board.Posted(ctx, mine, 0)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return nil, fmt.Errorf("check whether this server is known to be alive: %w", err)
	}
	if version != c.posted { // it does not have the last posted version: it may have come back older
		c.sweepAt = time.Time{}
		c.setBack = c.setBack || err == nil && version < c.posted
	}
	if c.posted, err = c.cfg.Board.Post(ctx, mine, nil, aliveFor); err != nil {
		return nil, fmt.Errorf("report that this server lives: %w", err)
	}
	names, err := c.cfg.Board.Names(ctx, serverPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the servers: %w", err)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], serverPrefix)
	}
	if !slices.Contains(names, c.cfg.Name) {
		names = append(names, c.cfg.Name)
	}
	return names, nil
}

// Owns reports whether something that one server should do, of all that live, is this one's. While
// the queue is away nothing is; for a moment after a server came or went, it may be two's or
// nobody's.
func (c *Controller) Owns(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away == nil && len(c.peers) > 0 && owner(c.peers, what) == c.cfg.Name
}

// owner is the server that follows a run: the one with the highest hash of both names, so
// that a server that comes or goes moves its own share of the runs only.
func owner(servers []string, run string) string {
	var best string
	var most uint64
	for _, s := range servers {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s + "\x00" + run))
		if sum := mix(h.Sum64()); best == "" || sum > most || sum == most && s < best {
			best, most = s, sum
		}
	}
	return best
}

// mix spreads what FNV leaves close together for names that differ at their end only (the finaliser
// of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// scanEvery is how often all unfinished runs of this server are read, at most, without a reported
// change: a server that died may not have reported it.
const scanEvery = 15 * time.Second

// scan goes through the unfinished runs of parts in the ledger, and makes those due for a check
// that changed there. With all, it is each of them.
func (c *Controller) scan(ctx context.Context, incarnation string, parts map[int]bool, all bool) error {
	c.scans++
	err := c.eachStanding(ctx, func(r ledger.Standing) {
		if !parts[queue.Part(r.ID)] {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		w := c.agenda.runs[r.ID]
		if r.Incarnation == incarnation && (w == nil || all || w.version != r.Version) {
			w = c.agenda.touch(r.ID)
		}
		if w != nil { // also one that the queue is about to have: its news may be over
			w.seen = c.scans
		}
	})
	if err != nil {
		return fmt.Errorf("read the runs that are not complete: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.agenda.runs {
		if w.seen != c.scans && (parts[queue.Part(w.id)] || !c.parts[queue.Part(w.id)]) {
			c.agenda.drop(w)
			delete(c.waiting, w.id)
		}
	}
	return nil
}

// rescan scans what is due for a scan.
func (c *Controller) rescan(ctx context.Context, incarnation string) error {
	c.mu.Lock()
	lost, mine := c.lost, maps.Clone(c.parts)
	c.lost = nil
	c.mu.Unlock()
	began := time.Now()
	again := c.scanned != incarnation
	due := again || !began.Before(c.scanAt)
	maps.DeleteFunc(lost, func(part int, _ bool) bool { return !mine[part] })
	var err error
	switch {
	case len(lost) > 0 && !again:
		err = c.scan(ctx, incarnation, lost, true)
		due = false // the others keep their turn: parts that are lost again and again must not put it off
	case due:
		err = c.scan(ctx, incarnation, mine, again)
	}
	if err != nil {
		c.miss(lost)
		return err
	}
	if due {
		c.scanned, c.scanAt = incarnation, began.Add(max(scanEvery, 200*time.Since(began)))
	}
	return c.ending(ctx, incarnation)
}

// ending makes cancelled runs of all servers due for a check, once each: the server that was asked
// may not have reached the queue, nor the server that owns them.
func (c *Controller) ending(ctx context.Context, incarnation string) error {
	runs, err := c.cfg.Ledger.Ending(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(runs))
	for _, r := range runs {
		if r.Incarnation != incarnation {
			continue
		}
		known[r.ID] = true
		if !c.endings[r.ID] {
			c.attention(r.ID)
		}
	}
	c.endings = known
	return nil
}

// miss has parts scanned.
func (c *Controller) miss(parts map[int]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = map[int]bool{}
	}
	maps.Copy(c.lost, parts)
}

// How listen waits.
const (
	newsWait  = time.Second // of one call; then what changed of the parts is seen
	newsAgain = 500 * time.Millisecond
)

// listen makes runs due for a check when the queue has news of them.
func (c *Controller) listen(ctx context.Context) {
	cursors := map[int]string{}
	for ctx.Err() == nil {
		from := map[int]string{}
		c.mu.Lock()
		if c.away == nil {
			for part := range c.parts {
				from[part] = cursors[part]
			}
		}
		c.mu.Unlock()
		if len(from) == 0 {
			core.Pause(ctx, newsAgain, c.partsChanged)
			continue
		}
		news, err := c.watch.News(ctx, from, newsWait)
		if err != nil {
			core.Pause(ctx, newsAgain, nil)
			continue
		}
		cursors = news.Next
		c.unrecorded(true, news.Runs...)
		c.attention(c.unlessEntering(news.Runs)...)
		if len(news.Lost) > 0 {
			lost := map[int]bool{}
			for _, part := range news.Lost {
				lost[part] = true
			}
			c.miss(lost)
			core.Notify(c.wake)
		}
	}
}

// unlessEntering leaves out runs that are just put into the queue: they are checked once they are.
func (c *Controller) unlessEntering(runs []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(runs, func(id string) bool {
		_, entering := c.entering[id]
		if entering {
			c.entering[id] = true
		}
		return entering
	})
}
