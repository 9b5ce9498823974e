package configs

import "sync"

// batcher joins the requests of many callers at the same time: one goroutine works while there is
// something to do, and takes all that came meanwhile as its next batch. Close joins it.
type batcher struct {
	most int

	mu      sync.Mutex
	pending []*request
	working bool
	closed  bool
	done    sync.WaitGroup
}

// request is one ask, of either kind.
type request struct {
	change *Change // to keep
	path   string  // to read

	over    chan struct{} // closed when the rest is set
	kept    Kept
	content []byte
	found   bool
	err     error
}

// add hands a request to do; it is false after close.
func (b *batcher) add(r *request, do func([]*request)) bool {
	r.over = make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.pending = append(b.pending, r)
	if !b.working {
		b.working = true
		b.done.Go(func() { b.work(do) })
	}
	return true
}

func (b *batcher) work(do func([]*request)) {
	for {
		b.mu.Lock()
		n := min(len(b.pending), b.most)
		batch := b.pending[:n:n]
		if b.pending = b.pending[n:]; n == 0 {
			b.pending, b.working = nil, false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		do(batch)
		for _, r := range batch {
			close(r.over)
		}
	}
}

// close refuses new requests and waits for the old ones.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.done.Wait()
}
