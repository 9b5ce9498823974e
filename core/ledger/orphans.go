package ledger

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
)

// Swept counts what was found among the objects of the bucket.
type Swept struct {
	Looked  int   // objects
	Orphans int   // that no row names, and are older than they may be
	Bytes   int64 // of these
}

// Sweep checks the objects of the bucket for those that no row names and that were written before a
// time: a process died between the object and the row. With remove they go. An object comes before
// its row, so before has to lie further back than any write takes. Objects from before this ledger
// was made stay: they may be of another ledger, which somebody may still use. pause, which may be
// nil, is called between every few hundred. A ledger without a bucket has none.
func (l *Ledger) Sweep(ctx context.Context, before time.Time, remove bool, pause func(context.Context) error) (s Swept, err error) {
	const rest = 200
	if l.bucket == nil {
		return s, nil
	}
	own, err := l.made(ctx)
	if err != nil {
		return s, err
	}
	for it := l.bucket.List(&blob.ListOptions{Prefix: outputPrefix}); ; {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, BucketError(err)
		}
		if s.Looked++; s.Looked%rest == 0 && pause != nil {
			if err := pause(ctx); err != nil {
				return s, err
			}
		}
		if !o.ModTime.Before(before) || o.ModTime.Before(own) {
			continue
		}
		orphan, err := l.orphan(ctx, o.Key)
		if err != nil {
			return s, err
		}
		if !orphan {
			continue
		}
		s.Orphans++
		s.Bytes += o.Size
		if !remove {
			continue
		}
		if err := BucketError(l.bucket.Delete(ctx, o.Key)); err != nil && !errors.Is(err, core.ErrNotFound) {
			return s, err
		}
	}
}

// made returns when this ledger's tables were made, less a minute: the bucket's clock may differ.
func (l *Ledger) made(ctx context.Context) (time.Time, error) {
	var at int64
	err := l.db.row(ctx, `SELECT coalesce(min(applied), 0) FROM migrations WHERE version > 0`).Scan(&at)
	return fromMicros(at).Add(-time.Minute), translate("read when the ledger was made", err)
}

// orphan reports whether no row names an object. An object whose key is not of our form is none.
func (l *Ledger) orphan(ctx context.Context, key string) (bool, error) {
	parts := strings.Split(strings.TrimPrefix(key, outputPrefix), "/")
	if len(parts) != 3 {
		return false, nil
	}
	run, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // somebody else's
	}
	index, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // somebody else's
	}
	var one int
	err = l.db.row(ctx, `SELECT 1 FROM outputs WHERE run = $1 AND idx = $2 AND object = $3`, run, index, key).Scan(&one)
	if none(err) {
		return true, nil
	}
	return false, translate("look for the row of "+key, err)
}
