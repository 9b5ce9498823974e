package securefile

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxAge is how old a check of the files may be: users of the files check each time.
const MaxAge = time.Second

// Watch reports when files have changed. It is safe for concurrent use.
type Watch struct {
	paths  []string
	from   time.Time    // monotonic zero of looked
	looked atomic.Int64 // nanoseconds since from

	mu   sync.Mutex
	seen []os.FileInfo // one a path; nil: it could not be read
}

// NewWatch makes the first check of the files. Files are read after it, not before: what is written
// in between shows as a change.
func NewWatch(paths ...string) *Watch {
	w := &Watch{paths: paths, from: time.Now()}
	w.seen = w.check()
	return w
}

// Due reports whether the last check is older than that. It does not check.
func (w *Watch) Due(old time.Duration) bool {
	return int64(time.Since(w.from))-w.looked.Load() >= int64(old)
}

// Changed checks the files, if the last check is older than that, and reports whether one has
// changed since: replaced, written, opened to others, gone or back. Of several calls at the same
// time one reports a change: a caller that caches the contents must hold a lock of its own from the
// call until it has read again.
func (w *Watch) Changed(old time.Duration) bool {
	if !w.Due(old) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.Due(old) { // somebody else looked
		return false
	}
	w.looked.Store(int64(time.Since(w.from)))
	now := w.check()
	changed := !slices.EqualFunc(now, w.seen, same)
	w.seen = now
	return changed
}

// Again makes the next check report a change in any case: the contents could not be used, and the
// files may not be the cause.
func (w *Watch) Again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = nil
}

func (w *Watch) check() []os.FileInfo {
	all := make([]os.FileInfo, len(w.paths))
	for i, path := range w.paths {
		if info, err := os.Stat(path); err == nil {
			all[i] = info
		}
	}
	return all
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime()) && sameOwner(a, b)
}
