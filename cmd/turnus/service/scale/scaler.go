package scale

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Wish is how much a pool should have.
type Wish struct {
	Concurrency int `json:"concurrency"`
	Workers     int `json:"workers"`
}

// MarshalJSON implements json.Marshaler. Hooks of the former version read "slots".
func (w Wish) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"concurrency": w.Concurrency, "slots": w.Concurrency, "workers": w.Workers})
}

// Request is the message to a hook: the wanted state, not a difference, so that it may be sent
// twice.
type Request struct {
	Version int       `json:"version"` // 1
	Pool    string    `json:"pool"`
	At      time.Time `json:"at"`
	Desired Wish      `json:"desired"`
	Workers int       `json:"workers"` // that are there and take jobs
	Running int       `json:"running"` // jobs
	Waiting int       `json:"waiting"` // jobs that are due
	Soon    int       `json:"soon"`    // jobs that become due shortly
	// Drained are the workers that were asked to go and have nothing left, or have ended: their
	// machines may be taken away.
	Drained []string `json:"drained"`
	// Leaving are those that were asked to go and still work.
	Leaving []string `json:"leaving"`
}

// Parts are the functions that a Scaler works with. All functions must be set; they return within
// the context's time.
type Parts struct {
	// Poll reads what there is to do and which workers there are.
	Poll func(ctx context.Context) (Demand, []Worker, error)
	// Mine reports whether this server is the one that calls the hook, of all that run. For a moment
	// after one came or went, two may be.
	Mine func() bool
	// Drain orders a worker to give its jobs away and end; Forget removes an order to one that is
	// gone.
	Drain  func(ctx context.Context, worker string) error
	Forget func(ctx context.Context, worker string) error
	// Call calls the hook. If it is nil, no hook is called, no worker is drained, and Poll is called
	// by Desired only.
	Call func(ctx context.Context, r Request) error
	// Done is called after each call.
	Done func(err error)
	Log  *slog.Logger // discarded when nil
}

// Times of polls and of the hook.
const (
	pollEvery   = 2 * time.Second // between polls, or longer:
	pollShare   = 20              // times what a poll takes
	callTime    = time.Minute     // the longest call
	repeatAfter = time.Minute     // until a hook is called again while there are not as many workers as wanted
	failMost    = 5 * time.Minute // the longest wait after calls that failed
)

// Scaler follows one pool. Its methods are safe for concurrent use; Run may be called once.
type Scaler struct {
	cfg   Config
	parts Parts

	mu   sync.Mutex
	wish Wish
	know bool

	looking sync.Mutex // during a look
	memory  memory

	// Of Run's goroutine.
	reported   Request
	reportedAt time.Time
	failed     int
	leaving    map[string]time.Time // workers that were asked to go, since when
}

// New checks. Errors wrap core.ErrInvalid.
func New(cfg Config, parts Parts) (*Scaler, error) {
	cfg, err := cfg.Defaults()
	if err != nil {
		return nil, err
	}
	if parts.Poll == nil || parts.Mine == nil || parts.Drain == nil || parts.Forget == nil || parts.Done == nil {
		return nil, fmt.Errorf("scale: a part is missing: %w", core.ErrInvalid)
	}
	parts.Log = cmp.Or(parts.Log, slog.New(slog.DiscardHandler))
	return &Scaler{cfg: cfg, parts: parts, leaving: map[string]time.Time{}}, nil
}

// Desired returns the wanted state of the pool; known is false before the first check. Without a
// hook the call itself checks, because nobody else uses the result.
func (s *Scaler) Desired(ctx context.Context) (w Wish, known bool) {
	if s.parts.Call == nil {
		_, _ = s.look(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wish, s.know
}

// Run polls and calls the hook until ctx ends. Without a hook it has nothing to do.
func (s *Scaler) Run(ctx context.Context) {
	for s.parts.Call != nil && ctx.Err() == nil {
		began := time.Now()
		l, ok := s.look(ctx)
		took := time.Since(began)
		if ok {
			s.follow(ctx, l)
		}
		core.Pause(ctx, time.Until(began.Add(max(min(pollEvery, s.cfg.Every), pollShare*took))), nil)
	}
}

// look is one poll, and what follows from it.
type look struct {
	demand  Demand
	workers []Worker
	there   int // workers that stay
	wish    Wish
}

// look looks once. While that fails what was wanted last stays.
func (s *Scaler) look(ctx context.Context) (l look, ok bool) {
	s.looking.Lock()
	defer s.looking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var err error
	if l.demand, l.workers, err = s.parts.Poll(ctx); err != nil {
		s.parts.Log.Debug("cannot compute how many workers the pool needs", "pool", s.cfg.Pool, "err", err)
		return l, false
	}
	for _, w := range l.workers {
		if !w.Leaving {
			l.there++
		}
	}
	each := s.cfg.perWorker(l.workers)
	n := s.memory.remember(time.Now(), s.cfg.wish(l.demand, each), s.cfg.Calm, min(l.there, s.cfg.Max))
	l.wish = Wish{Concurrency: n * each, Workers: n}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wish, s.know = l.wish, true
	return l, true
}

// follow has workers and hook follow a look, where that is this server's part.
func (s *Scaler) follow(ctx context.Context, l look) {
	if !s.parts.Mine() {
		s.reported, s.reportedAt, s.leaving = Request{}, time.Time{}, map[string]time.Time{} // another server may have called the hook meanwhile
		return
	}
	s.keepLeaving(l.workers)
	s.release(ctx, l.workers, l.wish)
	s.call(ctx, s.request(l))
}

// keepLeaving adds workers that another process asked to go, and drops those whose drain a person
// ended: they take jobs again.
func (s *Scaler) keepLeaving(workers []Worker) {
	for _, w := range workers {
		since, known := s.leaving[w.Name]
		switch {
		case w.Asked && !known:
			s.leaving[w.Name] = time.Now()
		case known && !w.Leaving && time.Since(since) > 2*pollEvery: // before, the order may not show yet
			delete(s.leaving, w.Name)
		}
	}
}

// release drains workers beyond the wish.
func (s *Scaler) release(ctx context.Context, workers []Worker, wish Wish) {
	for _, name := range leave(workers, wish.Workers) {
		if _, reported := s.leaving[name]; reported {
			continue
		}
		if err := s.parts.Drain(ctx, name); err != nil {
			s.parts.Log.Warn("cannot ask a worker to stop", "worker", name, "err", err)
			continue
		}
		s.leaving[name] = time.Now()
	}
}

// request returns the state that the hook should know now.
func (s *Scaler) request(l look) Request {
	r := Request{
		Version: 1, Pool: s.cfg.Pool, At: time.Now().UTC(), Desired: l.wish, Workers: l.there,
		Running: l.demand.Leased, Waiting: l.demand.Due, Soon: l.demand.Soon,
		Drained: []string{}, Leaving: []string{},
	}
	busy := map[string]int{}
	for _, w := range l.workers {
		busy[w.Name] = w.Running
	}
	for name, since := range s.leaving {
		running, here := busy[name]
		if here && (running > 0 || time.Since(since) < 2*pollEvery) { // its report about itself is up to 2 s old
			r.Leaving = append(r.Leaving, name)
		} else {
			r.Drained = append(r.Drained, name)
		}
	}
	slices.Sort(r.Drained)
	slices.Sort(r.Leaving)
	return r
}

// call calls the hook if there is a change for it, and the last call was long enough ago.
func (s *Scaler) call(ctx context.Context, r Request) {
	news := s.reportedAt.IsZero() || r.Desired != s.reported.Desired || !slices.Equal(r.Drained, s.reported.Drained)
	since, wait := time.Since(s.reportedAt), s.cfg.Every
	if s.failed > 0 {
		news = true
		wait = core.Backoff{Interval: s.cfg.Every, Max: max(failMost, s.cfg.Every)}.Delay(s.failed-1, 0)
	}
	differs := r.Workers != r.Desired.Workers && since > max(repeatAfter, s.cfg.Every)
	if !news && !differs || !s.reportedAt.IsZero() && since < wait {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTime)
	err := s.parts.Call(limited, r)
	cancel()
	if ctx.Err() != nil && err != nil {
		return
	}
	s.reportedAt = time.Now()
	s.parts.Done(err)
	if err != nil {
		s.failed++
		s.parts.Log.Warn("the hook of scaling failed; it is tried again", "pool", s.cfg.Pool, "err", err)
		return
	}
	s.failed, s.reported = 0, r
	for _, name := range r.Drained { // the hook knows: they are its business now
		if err := s.parts.Forget(ctx, name); err != nil && !errors.Is(err, core.ErrNotFound) {
			s.parts.Log.Debug("an order to a worker that is gone stays", "worker", name, "err", err)
			continue
		}
		delete(s.leaving, name)
	}
}
