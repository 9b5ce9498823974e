package scale

import (
	"context"
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
	Concurrency int `json:"slots"`
	Workers     int `json:"workers"`
}

// Request is what a hook is told: how things should be, not what to add, so that it may be told twice.
type Request struct {
	Version int       `json:"version"` // 1
	Pool    string    `json:"pool"`
	At      time.Time `json:"at"`
	Desired Wish      `json:"desired"`
	Workers int       `json:"workers"` // that are there and take jobs
	Running int       `json:"running"` // jobs
	Waiting int       `json:"waiting"` // jobs that are due
	Soon    int       `json:"soon"`    // jobs that become due shortly
	// Drained are the workers that were told to go and have nothing left, or have ended: their machines may be taken away.
	Drained []string `json:"drained"`
	// Leaving are those that were told to go and still work.
	Leaving []string `json:"leaving"`
}

// Parts is what a Scaler works with. All functions must be set; they return within the context's time.
type Parts struct {
	// Poll reads what there is to do and which workers there are.
	Poll func(ctx context.Context) (Demand, []Worker, error)
	// Mine tells whether this server is the one that calls the hook, of all that run. For a moment after one came or went, two may be.
	Mine func() bool
	// Drain tells a worker to give its jobs away and end; Forget takes back an order to one that is gone.
	Drain  func(ctx context.Context, worker string) error
	Forget func(ctx context.Context, worker string) error
	// Call calls the hook. Nil: nobody is told, and no worker is drained.
	Call func(ctx context.Context, r Request) error
	// Done hears of each call.
	Done func(err error)
	Log  *slog.Logger // discarded when nil
}

// pollEvery is how often there is a look, callTime how long a call may take, repeatAfter after how long a hook that was told is told
// again while there are not as many workers as wanted, and failMost the longest wait after calls that failed.
const (
	pollEvery   = 2 * time.Second
	callTime    = time.Minute
	repeatAfter = time.Minute
	failMost    = 5 * time.Minute
)

// Scaler follows one pool. Its methods are safe for concurrent use; Run may be called once.
type Scaler struct {
	cfg   Config
	parts Parts

	mu   sync.Mutex
	wish Wish
	know bool

	// Of Run's goroutine.
	memory     memory
	reported   Request
	reportedAt time.Time
	failed     int
	leaving    map[string]time.Time // workers that were told to go, since when
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
	if parts.Log == nil {
		parts.Log = slog.New(slog.DiscardHandler)
	}
	return &Scaler{cfg: cfg, parts: parts, leaving: map[string]time.Time{}}, nil
}

// Desired is what the pool should have; known is false before the first look.
func (s *Scaler) Desired() (w Wish, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wish, s.know
}

// Run looks and calls until ctx ends.
func (s *Scaler) Run(ctx context.Context) {
	tick := time.NewTicker(min(pollEvery, s.cfg.Every))
	defer tick.Stop()
	for {
		s.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// step looks once. While the look fails what was wanted last stays, and nobody is told anything.
func (s *Scaler) step(ctx context.Context) {
	poll, cancel := context.WithTimeout(ctx, pollEvery)
	demand, workers, err := s.parts.Poll(poll)
	cancel()
	if err != nil {
		s.parts.Log.Debug("what the pool should have could not be found out", "pool", s.cfg.Pool, "err", err)
		return
	}
	there := 0
	for _, w := range workers {
		if !w.Leaving {
			there++
		}
	}
	each := s.cfg.perWorker(workers)
	n := s.memory.settle(time.Now(), s.cfg.wish(demand, each), s.cfg.Calm, min(there, s.cfg.Max))
	wish := Wish{Concurrency: n * each, Workers: n}
	s.mu.Lock()
	s.wish, s.know = wish, true
	s.mu.Unlock()
	if s.parts.Call == nil {
		return
	}
	if !s.parts.Mine() {
		s.reported, s.reportedAt, s.leaving = Request{}, time.Time{}, map[string]time.Time{} // another may have told the hook otherwise meanwhile
		return
	}
	s.release(ctx, workers, wish)
	s.call(ctx, s.request(demand, workers, wish, there))
}

// release tells workers beyond the wish to go.
func (s *Scaler) release(ctx context.Context, workers []Worker, wish Wish) {
	for _, name := range leave(workers, wish.Workers) {
		if _, reported := s.leaving[name]; reported {
			continue
		}
		if err := s.parts.Drain(ctx, name); err != nil {
			s.parts.Log.Warn("a worker was not told to go", "worker", name, "err", err)
			continue
		}
		s.leaving[name] = time.Now()
	}
}

// request is what the hook should be told now.
func (s *Scaler) request(d Demand, workers []Worker, wish Wish, there int) Request {
	r := Request{
		Version: 1, Pool: s.cfg.Pool, At: time.Now().UTC(), Desired: wish, Workers: there, Running: d.Leased, Waiting: d.Due, Soon: d.Soon,
		Drained: []string{}, Leaving: []string{},
	}
	busy := map[string]int{}
	for _, w := range workers {
		busy[w.Name] = w.Running
	}
	for name, since := range s.leaving {
		running, here := busy[name]
		if here && (running > 0 || time.Since(since) < 2*pollEvery) { // what it says of itself is up to 2 s old
			r.Leaving = append(r.Leaving, name)
		} else {
			r.Drained = append(r.Drained, name)
		}
	}
	slices.Sort(r.Drained)
	slices.Sort(r.Leaving)
	return r
}

// call tells the hook where it has to know something, and the last call was long enough ago.
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
