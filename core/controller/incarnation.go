package controller

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/ledger"
)

// incarnationOf is the name that the queue has for as long as it keeps its runs. One that was
// emptied has forgotten it and gets a new one, and every run that was in it before is put in again.
// Of several servers that find it empty at the same time the first one's name stays: hosts compare
// fences of one name only.
func incarnationOf(ctx context.Context, b board.Board) (string, error) {
	name, _, err := b.Posted(ctx, board.Incarnation, 0)
	if err == nil {
		return string(name), nil
	}
	if !errors.Is(err, core.ErrNotFound) {
		return "", fmt.Errorf("ask the queue for its incarnation: %w", err)
	}
	var random [8]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	fresh := hex.EncodeToString(random[:])
	if name, err = b.PostFirst(ctx, board.Incarnation, []byte(fresh), board.MaxKeep); err != nil {
		return "", fmt.Errorf("name the queue's incarnation: %w", err)
	}
	return string(name), nil
}

// nameQueue is incarnationOf. Where jobs of a lost queue may run, it first holds the new one for
// the life of a session: the locks of their hosts are also lost. Runs are put in meanwhile.
func (c *Controller) nameQueue(ctx context.Context) (string, error) {
	name, _, err := c.cfg.Board.Posted(ctx, board.Incarnation, 0)
	if c.cfg.Alone && (err == nil || errors.Is(err, core.ErrNotFound)) {
		return c.cfg.Name, nil // servers name it
	}
	if err == nil {
		return string(name), nil
	}
	if errors.Is(err, core.ErrNotFound) {
		lost := false
		if err := c.eachStanding(ctx, func(r ledger.Standing) { lost = lost || c.queueLost(r.ID, r.Incarnation, "") }); err != nil {
			return "", err
		}
		if lost {
			if err := c.cfg.Queue.Hold(ctx); err != nil {
				return "", fmt.Errorf("hold the new queue up: %w", err)
			}
		}
	}
	return incarnationOf(ctx, c.cfg.Board)
}
