package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// boardState is what this server knows of the board.
type boardState struct {
	version uint64    // of the board's document, as last seen
	data    []byte    // which says this
	woken   []byte    // the windows of which waiting jobs were told last
	at      time.Time // when this server posted them
}

// Windows stay on the board for boardKeep after they were posted, which is done again after boardAgain: should no server
// run for so long, windows are closed.
const (
	boardKeep  = 60 * 24 * time.Hour
	boardAgain = 24 * time.Hour
)

// postNow is keepBoard after a change; where that fails the loop goes on with it.
func (c *Catalog) postNow(ctx context.Context) {
	if err := c.keepBoard(ctx); err != nil {
		c.trouble(ctx, "windows are not given to the workers for now", err)
		nudge(c.poke)
	}
}

// keepBoard posts the windows, unless the board has them, and has waiting jobs look at them. It does not post what
// the ledger does not say any more: a server that was stopped for a while would bring back windows without the freeze
// that was added, or with the approval that was revoked since. Should it be stopped between asking and posting, the next look
// of any server mends it.
func (c *Catalog) keepBoard(ctx context.Context) error {
	c.boarding.Lock()
	defer c.boarding.Unlock()
	now, b := c.Current(), &c.board
	if now.Set == nil {
		return nil
	}
	data, version, err := c.cfg.Board.Posted(ctx, BoardName, b.version)
	switch {
	case errors.Is(err, core.ErrNotFound):
		data, version = nil, 0
	case err != nil:
		return fmt.Errorf("look at the windows that workers ask: %w", err)
	case data == nil:
		data = b.data
	}
	if data == nil || !bytes.Equal(data, now.posted) || time.Since(b.at) > boardAgain {
		newest, err := c.cfg.Ledger.DocumentVersion(ctx, kindDefinitions, "", nameCurrent)
		if err != nil {
			return err
		}
		given, err := c.cfg.Ledger.DocumentVersion(ctx, kindApprovals, "", nameWindows)
		if err != nil {
			return err
		}
		if newest != now.Version || given != now.given {
			nudge(c.poke)
			return nil
		}
		if version, err = c.cfg.Board.Post(ctx, BoardName, now.posted, boardKeep); err != nil {
			return fmt.Errorf("give the windows to the workers: %w", err)
		}
		data, b.at = now.posted, time.Now()
		c.say(Event{Kind: WindowsPosted, Version: now.Version})
	}
	b.version, b.data = version, data
	if !bytes.Equal(b.woken, data) {
		c.cfg.Controller.WakeWindows()
		b.woken = data
	}
	return nil
}
