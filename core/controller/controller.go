package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// Config holds what a controller works on. Ledger, Queue, Board and Name must be set.
type Config struct {
	Name   string // of this server; no two that run at the same time have the same
	Ledger *ledger.Ledger
	Queue  queue.Queue
	Board  board.Board // of the same backend
	// Intact names runs of the queue before this one, which was stopped as intended: it passed on the
	// progress of their jobs, so that nothing is repeated blindly.
	Intact []string
	// Types finds a job type, to read playbooks again as they were read when they were launched.
	Types func(name string) (playbooks.Type, bool)
	// Events gets what happens to runs. It is called by many goroutines and must not block.
	Events func(Event)
	// Measure gets what is counted.
	Measure Measure
	// Report, if set, makes an event durable before the next action. It gets the events that the
	// ledger does not record and that would not be reported again.
	Report func(ctx context.Context, e Event) error
	// Alone is set for a process that drives only the runs that it accepted itself, also beside other
	// processes on the same ledger or queue. It does not announce itself on the board, and does not
	// put a run in again that the queue has lost. Its Name is never used again.
	Alone bool
	// Windows are the newest windows of the runs, for engine.EventWaiting of runs that this process
	// launched; nil: nobody asks.
	Windows func() *admission.Calendar
	// Status gets the status in the queue of a run each time that it is checked. It must not block.
	Status func(queue.Status)
	Log    *slog.Logger // discarded when nil
	// Traces makes the spans of what runs without a caller; nil makes none. Calls continue with the
	// span in their context.
	Traces trace.TracerProvider
}

// Times of the loops.
const (
	tickEvery  = time.Second      // between the duties of a server, and checks the ledger for runs that the queue lacks
	claimFor   = 2 * time.Second  // a server that died or lost the ledger in between delays runs by so long; putting one in twice is the same as once
	claimMost  = time.Minute      // of a claim after a slow attempt
	claimMax   = 256              // runs of one claim
	claimJobs  = 20_000           // of one claim, beside its last run: all of it is in memory together
	aliveFor   = 10 * time.Second // a server counts among those that share the parts for so long after its last report
	followPage = 1000
	stuckAfter = time.Minute // a round that takes longer is stuck: calls of ledger and queue have limits far below
)

// Controller is one server's part. Its methods are safe for concurrent use.
type Controller struct {
	cfg      Config
	watch    queue.Watch
	launches *launches
	restorer launch.Restorer
	creates  batches[ledger.NewRun, ledger.Accepted]
	cancels  batches[ledger.Cancellation, ledger.Cancelled]
	claim    func(ctx context.Context, incarnation string) ([]ledger.Claim, error) // of runs that the queue does not have; claimNext except a negative control

	putNow       chan struct{} // to putIn; has room for one, as those below
	wake         chan struct{} // to Run: there is something to check
	partsChanged chan struct{} // to listen

	pulse   core.Pulse // of Run
	putting core.Pulse // of putIn

	took time.Duration // of the goroutine of putIn: its last attempt

	// Of the goroutine of Run.
	posted  uint64          // version of this server's document on the board
	sweepAt time.Time       // when to look for runs that have ended
	scanAt  time.Time       // when to scan
	scans   int             // how often that was done
	scanned string          // the incarnation for which it was done
	endings map[string]bool // cancelled runs that were checked
	setBack bool            // the board has an older document of this server than it posted
	known   queue.Doubt     // for which the queue was compared with the ledger

	mu          sync.Mutex
	own         map[string]bool // unfinished runs that it accepted itself, of one that is alone
	agenda      *agenda
	parts       map[int]bool    // of the queue, that are this server's
	lost        map[int]bool    // parts to be scanned
	entering    map[string]bool // runs that are put into the queue now; true: there were news of them
	peers       []string        // servers that live, including this one, as last seen
	changes     int             // how often windows have changed
	incarnation string          // of the queue, as last asked for; "" while it is away
	doubt       bool            // the queue may have lost changes, and was not compared with the ledger yet
	away        error           // why it does not answer
	outage      core.Outage
	waiting     map[string]time.Time // since when a run has news that are not recorded
	polls       int64
}

// New checks the configuration. Errors wrap core.ErrInvalid.
func New(cfg Config) (*Controller, error) {
	if cfg.Name == "" || cfg.Ledger == nil || cfg.Queue == nil || cfg.Board == nil {
		return nil, fmt.Errorf("controller: a name, a ledger, a queue and a board are needed: %w", core.ErrInvalid)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c := &Controller{
		cfg: cfg, watch: cfg.Queue, launches: newLaunches(), own: map[string]bool{}, agenda: newAgenda(), entering: map[string]bool{}, waiting: map[string]time.Time{},
		putNow: make(chan struct{}, 1), wake: make(chan struct{}, 1), partsChanged: make(chan struct{}, 1),
	}
	c.creates.write, c.creates.size = cfg.Ledger.AcceptAll, func(n ledger.NewRun) int { return len(n.Snapshot) + len(n.Queue) + 64*len(n.Jobs) }
	c.cancels.write, c.cancels.size = cfg.Ledger.CancelAll, func(ledger.Cancellation) int { return 0 }
	c.restorer.Types = cfg.Types
	c.claim = c.claimNext
	if cfg.Alone {
		c.claim = c.claimOwn
	}
	return c, nil
}

// Run works until ctx ends, and then leaves all runs to other servers, or to the next start.
// It returns nil.
func (c *Controller) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	helpers.Go(func() { c.putIn(ctx) })
	helpers.Go(func() { c.listen(ctx) })
	var dutyAt time.Time
	for ctx.Err() == nil {
		c.pulse.Beat()
		if now := time.Now(); !now.Before(dutyAt) {
			c.duties(ctx)
			dutyAt = now.Add(tickEvery)
		}
		if c.missed() {
			c.catchUp(ctx)
		}
		runs, next := c.due()
		if len(runs) > 0 {
			c.pollAt(ctx, runs)
			continue
		}
		if next.IsZero() || dutyAt.Before(next) {
			next = dutyAt
		}
		core.Pause(ctx, time.Until(next), c.wake)
	}
	helpers.Wait()
	c.pulse.End()
	return nil
}

// due returns runs to check now, and when there are more if there are none. While the queue is
// away, nothing is checked.
func (c *Controller) due() (runs []*watched, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.incarnation == "" {
		return nil, time.Time{}
	}
	runs = c.agenda.take(time.Now(), pollRuns)
	c.polls += int64(len(runs))
	return runs, c.agenda.next()
}

// attention makes runs due for a check now: they have changed.
func (c *Controller) attention(runs ...string) {
	if len(runs) == 0 {
		return
	}
	c.mu.Lock()
	for _, id := range runs {
		c.agenda.touch(id)
	}
	c.mu.Unlock()
	core.Notify(c.wake)
}

func (c *Controller) replan(w *watched, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agenda.plan(w, at)
}

func (c *Controller) forget(w *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agenda.drop(w)
}

// Stuck returns an error if Run has not checked its runs, or put none into the queue, for longer
// than a busy machine, or a ledger or queue that is away, explains. Then only a new process helps.
// It is nil otherwise, and before and after Run.
func (c *Controller) Stuck() error {
	if since := max(c.pulse.Stuck(stuckAfter), c.putting.Stuck(stuckAfter)); since > 0 {
		return fmt.Errorf("runs have not been checked for %v", since.Round(time.Second))
	}
	return nil
}

// Notify has runs put into the queue that it lacks, as after a run was accepted.
func (c *Controller) Notify() { core.Notify(c.putNow) }

// Away reports why the queue does not answer, or nil.
func (c *Controller) Away() error { return core.Locked(&c.mu, &c.away) }

// currentIncarnation is that of the queue, "" while it is away.
func (c *Controller) currentIncarnation() string { return core.Locked(&c.mu, &c.incarnation) }

// duties runs every second. It checks whether the queue is there, which parts of it are this
// server's, and whether something was missed.
func (c *Controller) duties(ctx context.Context) {
	incarnation, err := c.nameQueue(ctx)
	c.setIncarnation(incarnation, err)
	if err != nil {
		c.sweepAt, c.scanned = time.Time{}, ""
		return
	}
	if c.cfg.Alone {
		c.takeAll()
		c.warn(ctx, "cannot compare the queue with the ledger", c.checkRestart(ctx, incarnation))
		return
	}
	if err := c.share(ctx); err != nil {
		c.warn(ctx, "cannot share out the runs among servers", err)
		return
	}
	c.warn(ctx, "cannot compare the queue with the ledger", c.checkRestart(ctx, incarnation))
	c.warn(ctx, "cannot list the runs to check", c.rescan(ctx, incarnation))
	c.sweep(ctx)
}

// warn logs a failure, except one because ctx has ended.
func (c *Controller) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn(what, "error", err)
	}
}

// missed reports whether news were missed.
func (c *Controller) missed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lost) > 0 && c.incarnation != ""
}

// catchUp makes all runs due for a check whose news were missed.
func (c *Controller) catchUp(ctx context.Context) {
	if c.cfg.Alone {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = nil
		for id := range c.agenda.runs {
			c.agenda.touch(id)
		}
		return
	}
	if err := c.rescan(ctx, c.currentIncarnation()); err != nil {
		core.Pause(ctx, tickEvery, nil)
	}
}

// SignalWindows makes the jobs of this server's runs that wait for windows check again, because
// windows have changed. It does not block. Catalogs of other servers notify those servers. Jobs of
// a run that moves from one server to another check again in time.
func (c *Controller) SignalWindows() {
	c.mu.Lock()
	c.changes++
	for _, w := range c.agenda.runs {
		if w.suspended > 0 || c.cfg.Windows != nil {
			c.agenda.touch(w.id)
		}
	}
	c.mu.Unlock()
	core.Notify(c.wake)
}

// windowChanges is how often windows have changed. A change after that sees how many jobs of the
// run are suspended, and makes it due for a check.
func (c *Controller) windowChanges(l *poll) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.w.suspended = l.sight.Status.Suspended
	return c.changes
}

// Load is how much a controller has to do.
type Load struct {
	Watched  int   // unfinished runs that are this server's
	Launches int   // kept in memory
	Polls    int64 // at runs, since the start
}

// Load returns how much this controller has to do.
func (c *Controller) Load() Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Watched: len(c.agenda.runs), Launches: c.launches.len(), Polls: c.polls}
}

func (c *Controller) setIncarnation(incarnation string, err error) {
	c.mu.Lock()
	was, wasAway := c.incarnation, c.away
	c.incarnation, c.away = incarnation, err
	c.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, context.Canceled), err == nil && wasAway != nil:
		c.emitOutage(&c.outage, err)
	case err == nil && was != "" && was != incarnation:
		c.emit(Event{Kind: QueueLost})
	}
	if err == nil && was != incarnation {
		c.Notify()
		core.Notify(c.partsChanged)
	}
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	RunEnqueued EventKind = "run_enqueued"
	RunEnded    EventKind = "run_ended"
	RunEvent    EventKind = "run_event"    // Engine is the event
	RunPaused   EventKind = "run_paused"   // paused by the service; Reason is why
	RunRepeated EventKind = "run_repeated" // Count jobs ended again that were recorded before: they ran twice
	RunRefused  EventKind = "run_refused"  // ended by the service, for Reason: it cannot be run
	RunGone     EventKind = "run_gone"     // the queue does not have it any more, as Err reports; of one that is alone
	WaveAsks    EventKind = "wave_asks"    // wave Wave of it, from 0, waits for an approval
	// Count jobs missed their windows, or nothing fits before they end; Reason is one of theirs.
	WindowMissed EventKind = "window_missed"
	// Count jobs are suspended until people send the event Reason. It is reported again while that
	// lasts.
	StepStalled EventKind = "step_stalled"
	QueueAway   EventKind = "queue_away" // Err is why
	QueueBack   EventKind = "queue_back" // after Lasted, in which Count polls of it failed
	QueueLost   EventKind = "queue_lost" // it was emptied, and is being rebuilt
)

// Event is something that an operator, or a metric, should know.
type Event struct {
	Kind   EventKind
	Run    string
	Engine *engine.Event // of RunEvent
	Status *queue.Status // of RunEnded
	Count  int
	Lasted time.Duration // of QueueBack
	Wave   int
	Reason core.Reason
	Err    error
}

// report is emit for what must not be forgotten.
func (c *Controller) report(ctx context.Context, e Event) error {
	c.emit(e)
	if c.cfg.Report == nil {
		return nil
	}
	return c.cfg.Report(ctx, e)
}

func (c *Controller) emit(e Event) {
	if c.cfg.Events != nil {
		c.cfg.Events(e)
	}
}
