package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// serverPrefix begins the board's documents by which servers say that they live.
const serverPrefix = "server/"

// share follows the runs that fall to this server, and leaves those that do not any more.
func (c *Controller) share(ctx context.Context, incarnation string) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.peers = servers
	c.mu.Unlock()
	mine := map[string]ledger.Run{}
	for page := (ledger.Page{Limit: followPage}); ; {
		runs, next, err := c.cfg.Ledger.Unfinished(ctx, page)
		if err != nil {
			return fmt.Errorf("read the runs that are not complete: %w", err)
		}
		for _, r := range runs {
			if r.Incarnation == incarnation && owner(servers, r.ID) == c.cfg.Name {
				mine[r.ID] = r
			}
			if r.Incarnation == incarnation && r.Phase == ledger.PhaseCancelled {
				c.cancelled(ctx, r)
			}
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	c.shareOut(mine, incarnation)
	return nil
}

// cancelled has the queue know that a run is cancelled: whoever was asked may not have reached it, nor the server that follows the run.
func (c *Controller) cancelled(ctx context.Context, r ledger.Run) {
	err := c.cfg.Queue.Cancel(ctx, r.ID, r.Reason)
	if err != nil && !errors.Is(err, core.ErrNotFound) && ctx.Err() == nil {
		c.cfg.Log.Warn("a cancelled run is not cancelled in the queue yet; trying again", "run", r.ID, "error", err)
	}
}

// servers says that this server lives, and lists all that do.
func (c *Controller) servers(ctx context.Context) ([]string, error) {
	mine := serverPrefix + c.cfg.Name
	_, version, err := c.cfg.Queue.Posted(ctx, mine, 0)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return nil, fmt.Errorf("look whether this server is known to live: %w", err)
	}
	if version != c.posted { // it does not have what was said last: it may have come back older
		c.sweepAt = time.Time{}
	}
	if c.posted, err = c.cfg.Queue.Post(ctx, mine, nil, aliveFor); err != nil {
		return nil, fmt.Errorf("say that this server lives: %w", err)
	}
	names, err := c.cfg.Queue.Names(ctx, serverPrefix)
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

// Owns tells whether something that one server should do, of all that live, is this one's. While the queue is away nothing is; for a
// moment after a server came or went, it may be two's or nobody's.
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

// mix spreads what FNV leaves close together for names that differ at their end only (the finaliser of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
