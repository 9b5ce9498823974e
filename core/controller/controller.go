package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// Config says what a controller works on. Ledger, Queue and Name must be set.
type Config struct {
	Name   string // of this server; no two that run at once have the same
	Ledger *ledger.Ledger
	Queue  queue.Queue
	// Intact names runs that the queue before this one ended in good order: it hands on what their jobs had reached, so
	// that nothing is repeated blindly.
	Intact []string
	// Types finds a job type, to read playbooks again as they were read when they were launched.
	Types func(name string) (playbooks.Type, bool)
	// Events gets what happens to runs. It is called by many goroutines and must not block.
	Events func(Event)
	// Measure gets what is counted.
	Measure Measure
	// Tell, where it is set, makes an event durable before what follows from it is: of those that the ledger does not write down by
	// itself, and that nothing would tell again.
	Tell func(ctx context.Context, e Event) error
	Log  *slog.Logger // discarded when nil
	// Traces makes the spans of what runs by itself; nil makes none. Calls go on with the span in their context.
	Traces trace.TracerProvider
}

// Times of the loops.
const (
	tickEvery   = time.Second      // between looks at the ledger when nobody pokes
	claimFor    = 5 * time.Second  // a server that died or lost the ledger in between holds runs up for so long; putting one in twice is the same as once
	claimMax    = 64               // runs of one look
	aliveFor    = 10 * time.Second // a server is counted among those that follow for so long after it last said so
	followPage  = 1000
	maxAsking   = 16 // followers that block on the queue at once, each on a connection of its own; the others ask it now and then
	retryFollow = time.Second
	stuckAfter  = time.Minute // a look that takes longer will not end by itself: calls of ledger and queue have limits far below
)

// Controller is one server's part. Its methods are safe for concurrent use.
type Controller struct {
	cfg      Config
	recorder *recorder
	claim    func(ctx context.Context, incarnation string) ([]ledger.Claim, error) // of runs that the queue does not have; claimNext but for a negative control
	poke     chan struct{}                                                         // has room for one
	accepted atomic.Bool                                                           // a run was put into the queue: find out at once who follows it

	pulse core.Pulse // of Run, which looks at its runs

	posted  uint64    // version of this server's document on the board; of the goroutine of Run
	sweepAt time.Time // when to look for runs that are over; of the same

	mu          sync.Mutex
	wakes       int    // how often windows have changed
	incarnation string // of the queue, as last asked for; "" while it is away
	away        error  // why it does not answer
	outage      core.Outage
	followers   map[string]*follower
	recording   map[*follower]struct{} // those with outcomes that are not recorded
	watched     map[string]*watched    // unfinished runs that are this server's
	looks       int64                  // at resting runs
	peers       []string               // servers that live, this one too, as last seen
	shared      time.Time              // when it was last found out which runs are this server's
	sharing     time.Duration          // how long that took
}

// New checks the configuration. Errors wrap core.ErrInvalid.
func New(cfg Config) (*Controller, error) {
	if cfg.Name == "" || cfg.Ledger == nil || cfg.Queue == nil {
		return nil, fmt.Errorf("controller: a name, a ledger and a queue are needed: %w", core.ErrInvalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Controller{cfg: cfg, recorder: newRecorder(cfg.Ledger), poke: make(chan struct{}, 1), followers: map[string]*follower{},
		recording: map[*follower]struct{}{},
		watched:   map[string]*watched{}}
	c.claim = c.claimNext
	return c, nil
}

// Run works until ctx ends, and then leaves all runs to other servers, or to the next start.
// It returns nil.
func (c *Controller) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { c.recorder.run(recording) })
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.pulse.Beat()
		c.tick(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-c.poke:
		}
	}
	c.leaveAll()    // followers first: they hand over what they read
	stopRecording() // then what they hand over to
	wg.Wait()
	c.pulse.End()
	return nil
}

// Stuck says for how long Run has not looked at its runs, where that is longer than it can be on a busy machine or with ledger
// and queue away: only a new process helps then. It is nil otherwise, and before and after Run.
func (c *Controller) Stuck() error {
	if since := c.pulse.Stuck(stuckAfter); since > 0 {
		return fmt.Errorf("runs have not been looked at for %v", since.Round(time.Second))
	}
	return nil
}

// Poke makes Run look at once, as after a run was accepted.
func (c *Controller) Poke() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Away tells why the queue does not answer, or nil.
func (c *Controller) Away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// tick looks once: is the queue there, which runs does it lack, which ones are this server's to follow.
func (c *Controller) tick(ctx context.Context) {
	incarnation, err := c.nameQueue(ctx)
	c.setIncarnation(incarnation, err)
	if err != nil {
		c.sweepAt = time.Time{}
		return
	}
	for {
		n, err := c.enqueueSome(ctx, incarnation)
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("runs were not put into the queue", "error", err)
		}
		if err != nil || n < claimMax {
			break
		}
	}
	if began := time.Now(); c.accepted.Swap(false) || began.Sub(c.shared) > max(tickEvery, 20*c.sharing) {
		if err := c.share(ctx, incarnation); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("which runs are to be followed could not be found out", "error", err)
		}
		c.shared, c.sharing = began, time.Since(began)
	}
	c.sweep(ctx)
	c.attend(ctx)
}

func (c *Controller) setIncarnation(incarnation string, err error) {
	c.mu.Lock()
	was, wasAway := c.incarnation, c.away
	c.incarnation, c.away = incarnation, err
	c.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		if report, lasts := c.outage.Failed(); report && lasts == 0 {
			c.say(Event{Kind: QueueAway, Err: err})
		}
	case err == nil && wasAway != nil:
		lasted, failed := c.outage.Over()
		c.say(Event{Kind: QueueBack, Count: failed, Lasted: lasted})
	case err == nil && was != "" && was != incarnation:
		c.say(Event{Kind: QueueLost})
	}
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	RunEnqueued EventKind = "run_enqueued"
	RunEnded    EventKind = "run_ended"
	RunEvent    EventKind = "run_event"    // Launch says what
	RunHeld     EventKind = "run_held"     // paused by the service; Reason says why
	RunRepeated EventKind = "run_repeated" // Count jobs ended again that were recorded before: they ran twice
	RunRefused  EventKind = "run_refused"  // ended by the service, for Reason: it cannot be run
	WaveAsks    EventKind = "wave_asks"    // wave Wave of it, from 0, waits for an approval
	// Count jobs missed their windows, or nothing fits before they end; Reason is one of theirs.
	WindowMissed EventKind = "window_missed"
	// Count jobs are parked until people send the event Reason. It is told again while that lasts.
	StepStalled EventKind = "step_stalled"
	QueueAway   EventKind = "queue_away" // Err says why
	QueueBack   EventKind = "queue_back" // after Lasted, in which Count looks at it failed
	QueueLost   EventKind = "queue_lost" // it was emptied, and is being rebuilt
)

// Event is something that an operator, or a metric, should be told.
type Event struct {
	Kind   EventKind
	Run    string
	Launch *launch.Event // of RunEvent
	Status *queue.Status // of RunEnded
	Count  int
	Lasted time.Duration // of QueueBack
	Wave   int
	Reason string
	Err    error
}

// tell is say for what must not be forgotten.
func (c *Controller) tell(ctx context.Context, e Event) error {
	c.say(e)
	if c.cfg.Tell == nil {
		return nil
	}
	return c.cfg.Tell(ctx, e)
}

func (c *Controller) say(e Event) {
	if c.cfg.Events != nil {
		c.cfg.Events(e)
	}
}
