package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
)

const (
	keepFor   = 30 * 24 * time.Hour // without a Publisher for so long, windows are closed
	postAgain = 24 * time.Hour
	// signalAgain is when suspended host tasks are asked once more after a change: a worker that read
	// the windows before it may suspend a host task after the first signal, but not after its session.
	signalAgain = 2 * queue.SessionTTL
)

// PublisherOptions are the parts of a Publisher. All must be set.
type PublisherOptions struct {
	Name  string // of the document on the board
	Board board.Board
	// Current returns the windows that workers are to have.
	Current func() Edition
	// Signal has suspended host tasks ask again whether their window is open. It must not block.
	Signal func()
}

// Edition is windows at one moment.
type Edition struct {
	Data []byte // as EncodeCalendar writes them; nil: there are none yet
	// Newest reports whether no newer ones are known to anybody. It is called before each post: a
	// process that was stopped for a while must not bring back windows that lack a new freeze. nil:
	// this process is the only one that knows.
	Newest func(ctx context.Context) (bool, error)
}

// Publisher keeps the document on the board at the current windows. It is safe for concurrent use.
type Publisher struct {
	o PublisherOptions

	mu       sync.Mutex
	version  uint64 // of the document, as last seen
	data     []byte // which this is
	posted   time.Time
	signaled []byte    // the windows that the last signal was about
	again    time.Time // of the second signal; zero: none is due
}

// NewPublisher publishes nothing before Publish.
func NewPublisher(o PublisherOptions) *Publisher { return &Publisher{o: o} }

// Publish posts the current windows unless the board has them, and signals a change, whichever
// process posted it. Call it after each edit and every second: it also fills a board that was
// emptied. posted reports whether it had to post.
func (p *Publisher) Publish(ctx context.Context) (posted bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Current()
	if now.Data == nil {
		return false, nil
	}
	data, version, err := p.o.Board.Posted(ctx, p.o.Name, p.version)
	switch {
	case errors.Is(err, core.ErrNotFound):
		data, version = nil, 0
	case err != nil:
		return false, fmt.Errorf("read the published windows: %w", err)
	case data == nil:
		data = p.data
	}
	if data == nil || !bytes.Equal(data, now.Data) || time.Since(p.posted) > postAgain {
		if now.Newest != nil {
			if newest, err := now.Newest(ctx); !newest || err != nil {
				return false, err
			}
		}
		if version, err = p.o.Board.Post(ctx, p.o.Name, now.Data, keepFor); err != nil {
			return false, fmt.Errorf("publish the windows: %w", err)
		}
		data, posted, p.posted = now.Data, true, time.Now()
	}
	p.version, p.data = version, data
	p.signal(posted)
	return posted, nil
}

// signal has suspended host tasks ask again after a change, twice; and once at the start, because
// the process before this one may have ended after it posted.
func (p *Publisher) signal(posted bool) {
	now := time.Now()
	switch {
	case !bytes.Equal(p.signaled, p.data):
		if posted || p.signaled != nil {
			p.again = now.Add(signalAgain)
		}
		p.signaled = p.data
	case !p.again.IsZero() && !now.Before(p.again):
		p.again = time.Time{}
	default:
		return
	}
	p.o.Signal()
}
