// Package board owns the contract of what reaches every worker and every watcher: the few documents
// of a board, and the messages of a feed. boardtest holds the conformance suite. The queues in
// memory and on Redis implement it, because a board has to be as available as the queue.
//
// It must not know queues, runs, or what the bytes mean.
package board

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
)

// Incarnation is the document that holds a random name, and nothing else. It lasts as long as the
// backend keeps anything: one that was emptied gets another. It outlasts any key, so it is never
// encrypted.
const Incarnation = "incarnation"

// Store is a board and a feed, as a backend keeps them.
type Store interface {
	Board
	Feed
}

// Bounds of a board.
const (
	MaxName     = 128     // bytes of the name of a document or a topic
	MaxDocument = 4 << 20 // bytes of one document
	MaxKeep     = 400 * 24 * time.Hour
)

// Board holds the few small documents that every node reads beside its jobs: the windows of
// a run or of a whole service. It is as available as the queue, so that a node which cannot read it
// gets no job either.
//
// Once Post has returned, no node reads an older version: a window that a customer has just revoked
// starts no work. The versions of a document also grow over its expiry, and none is 0: 0 means that
// the caller knows none. A document that was posted without bytes is one: its data is empty and not
// nil. Methods are safe for concurrent use.
type Board interface {
	// Post puts the document in the place of what name had, for keep from now on, and
	// returns its version, which grows with each Post. A name is 1 to MaxName bytes;
	// a larger document than MaxDocument, or keep outside 1 s … MaxKeep, is core.ErrInvalid.
	Post(ctx context.Context, name string, data []byte, keep time.Duration) (version uint64, err error)
	// PostFirst posts the document if the board has none of that name, and returns the one that it has
	// then: of several callers at the same time, all get the same.
	PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) (have []byte, err error)
	// Posted returns the document and its version; data is nil when known is that version.
	// A name that was never posted, or was kept long enough, is core.ErrNotFound.
	Posted(ctx context.Context, name string, known uint64) (data []byte, version uint64, err error)
	// Names lists the documents whose name begins with prefix, sorted.
	Names(ctx context.Context, prefix string) ([]string, error)
}

// ValidateDocument reports what a board refuses to post.
func ValidateDocument(name string, data []byte, keep time.Duration) error {
	switch {
	case !validName(name):
		return fmt.Errorf("document %q: its name has to be 1 to %d bytes of UTF-8: %w", name, MaxName, core.ErrInvalid)
	case len(data) > MaxDocument+core.EncryptionRoom:
		return fmt.Errorf("document %q has %d bytes: at most %d can be posted: %w", name, len(data), MaxDocument, core.ErrInvalid)
	case keep < time.Second || keep > MaxKeep:
		return fmt.Errorf("document %q: kept for %v, expected 1s to %v: %w", name, keep, MaxKeep, core.ErrInvalid)
	}
	return nil
}

func validName(s string) bool { return s != "" && len(s) <= MaxName && utf8.ValidString(s) }
