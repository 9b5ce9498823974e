package controller

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// incarnationOf is the name that the queue has for as long as it keeps its runs. One that was emptied has
// forgotten it and gets a new one, and every run that was in it before is put in again. Of two servers
// that find it empty at once the later one's name stays; runs that were put in under the earlier
// one are put in again, which changes nothing.
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
	if _, err := board.Post(ctx, queue.IncarnationDocument, []byte(fresh), queue.MaxKeep); err != nil {
		return "", fmt.Errorf("name the queue's incarnation: %w", err)
	}
	if name, _, err = board.Posted(ctx, queue.IncarnationDocument, 0); err != nil {
		return "", fmt.Errorf("read the queue's incarnation back: %w", err)
	}
	return string(name), nil
}
