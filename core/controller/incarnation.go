package controller

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// incarnationOf is the name that the queue has for as long as it keeps its runs. One that was emptied has
// forgotten it and gets a new one, and every run that was in it before is put in again. Of several servers that
// find it empty at once the first one's name stays: hosts compare fences of one name only.
func incarnationOf(ctx context.Context, board queue.Board) (string, error) {
	name, _, err := board.Posted(ctx, queue.IncarnationDocument, 0)
	if err == nil {
		return string(name), nil
	}
	if !errors.Is(err, core.ErrNotFound) {
		return "", fmt.Errorf("ask the queue for its incarnation: %w", err)
	}
	var random [8]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	fresh := hex.EncodeToString(random[:])
	if name, err = board.PostFirst(ctx, queue.IncarnationDocument, []byte(fresh), queue.MaxKeep); err != nil {
		return "", fmt.Errorf("name the queue's incarnation: %w", err)
	}
	return string(name), nil
}

// recoveringDocument is on the board while workers may still be at work on leases of a queue that was lost: with it went the locks of
// their hosts. Nothing is let go on in the new queue meanwhile.
const recoveringDocument = "recovering"

// nameQueue is incarnationOf, which holds the queue up first where jobs of the one before may run: for as long as a session is
// trusted that nobody answers.
func (c *Controller) nameQueue(ctx context.Context) (string, error) {
	_, _, err := c.cfg.Queue.Posted(ctx, queue.IncarnationDocument, 0)
	if c.cfg.Alone && (err == nil || errors.Is(err, core.ErrNotFound)) {
		return c.cfg.Name, nil // servers name it
	}
	if errors.Is(err, core.ErrNotFound) {
		lost := false
		if err := c.eachStanding(ctx, func(r ledger.Standing) { lost = lost || c.queueLost(r.ID, r.Incarnation, "") }); err != nil {
			return "", err
		}
		if lost {
			if _, err := c.cfg.Queue.Post(ctx, recoveringDocument, nil, queue.SessionTTL); err != nil {
				return "", fmt.Errorf("hold the new queue up: %w", err)
			}
		}
	}
	return incarnationOf(ctx, c.cfg.Queue)
}

// recovering tells whether nothing is to be let go on in the queue for now.
func (c *Controller) recovering(ctx context.Context) (bool, error) {
	_, _, err := c.cfg.Queue.Posted(ctx, recoveringDocument, 0)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// letGo has the queue start jobs of a run that it holds. While recovering it does not: whoever follows the run asks again.
func (c *Controller) letGo(ctx context.Context, id string) error {
	if recovering, err := c.recovering(ctx); err != nil || recovering {
		return err
	}
	return c.setQueuePaused(ctx, id, false)
}
