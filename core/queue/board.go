package queue

import (
	"context"
	"time"
)

// Bounds of a board.
const (
	MaxDocument = 4 << 20 // bytes of one document
	MaxKeep     = 400 * 24 * time.Hour
)

// IncarnationDocument holds a random name, and nothing else, that lasts as long as the queue keeps its runs: a queue that was emptied gets
// another. It outlasts any key, so it is never sealed.
const IncarnationDocument = "incarnation"

// Board holds the few small documents that every node reads besides its jobs: the
// service windows of a run or of a whole service. It is as available as the queue, so
// that a node which cannot read it gets no job either.
//
// Once Post has returned, no node reads an older version: what a customer forbade a
// moment ago starts nowhere. Methods are safe for concurrent use.
type Board interface {
	// Post puts the document in the place of what name had, for keep from now on, and
	// returns its version, which grows with each Post. A name is 1 to MaxIDLength bytes;
	// a larger document than MaxDocument, or keep outside 1 s … MaxKeep, is core.ErrInvalid.
	Post(ctx context.Context, name string, data []byte, keep time.Duration) (version uint64, err error)
	// PostFirst posts the document if the board has none of that name, and returns the one that it has
	// then: of several callers at once, all get the same.
	PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) (have []byte, err error)
	// Posted returns the document and its version; data is nil when known is that version.
	// A name that was never posted, or was kept long enough, is core.ErrNotFound.
	Posted(ctx context.Context, name string, known uint64) (data []byte, version uint64, err error)
	// Names lists the documents whose name begins with prefix, sorted.
	Names(ctx context.Context, prefix string) ([]string, error)
}
