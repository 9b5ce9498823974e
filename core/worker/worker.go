// Package worker owns the node: one poller, its concurrency, heartbeat, the step machine of a job,
// admission at dispatch, timeouts and drain.
//
// It must not know where the queue lives, how a plugin process is kept, or how
// SSH works; it asks those rooms.
package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/plugins/host"
)

// Plugins is how the worker calls job types; *host.Supervisor is the real one.
type Plugins interface {
	// Type finds a job type by name.
	Type(name string) (host.Type, bool)
	// Warm starts in the background what calls of the job types need, in that order, and returns
	// immediately. A failure is left to the calls.
	Warm(types []string)
	// Run calls a job type. It returns within 2·Grace after ctx ended.
	Run(ctx context.Context, c host.Call) (host.Outcome, error)
}

// Config holds what a worker works on and with. Queue, Payload and Plugins must be set.
type Config struct {
	Queue       queue.Worker
	Payload     func(ctx context.Context, run string) ([]byte, error) // queue.Inspect has it
	Plugins     Plugins
	Name        string // of the node, in results and sessions; "worker" when empty
	Concurrency int    // jobs at the same time; 64 when zero
	Pool        string // whose hosts it reaches: jobs on hosts of another pool fail; "" takes every host

	// Load measures the node, each from 0 to 1. While it is over Limits no new job is
	// taken. Nil means that the node's load does not matter; NodeLoad is the real one.
	Load   func() (cpu, memory float64)
	Limits Limits

	// FilesDir is the folder that a run's artifacts are read from; files is the
	// name in the snapshot. Nil, or "", refuses artifacts.
	FilesDir func(run, files string) string
	// Withheld are files and folders of this machine that no step sends to a host, even if they are in
	// FilesDir.
	Withheld []string
	FetchDir string // folder that fetched files are written under; "" refuses
	// Configs keeps versions of hosts' configurations; nil refuses.
	Configs *configs.Repo
	// Secret fetches the value of a secret for a step that lists it, right before each attempt; nil
	// refuses such steps. An error that a later attempt may not have is core.ErrUnavailable. The
	// function is a method of secrets.Store.
	Secret func(ctx context.Context, a secrets.Ask) ([]byte, error)
	// Board has the windows of runs and the incarnation of the queue. Without it a step that
	// waits for a window waits on, and hosts compare no leases.
	Board board.Board

	// KeepOutput stores what a step wrote where that is more than its result holds; nil keeps the head
	// and the tail only. It is called before the step's result is known to the queue, by the one that
	// has the job's lease.
	KeepOutput KeepOutput

	// Grace is the grace of Plugins: how long a job may take to end itself; 5 s.
	Grace time.Duration

	// Events gets each event as it happens. Many goroutines call it at the same time. It must not
	// block for long.
	Events func(Event)
	Log    *slog.Logger // discarded when nil
	// Traces makes the spans of jobs and of what they do; nil makes none.
	Traces trace.TracerProvider
}

// Limits are shares of the node's CPU and memory over which no new job is taken,
// 0.9 each when zero. A node that runs nothing takes one job all the same: its load is
// then not its own doing, and a busy neighbour must not stop maintenance for good.
type Limits struct{ CPU, Memory float64 }

// New checks the configuration. Errors wrap core.ErrInvalid.
func New(c Config) (*Worker, error) {
	switch {
	case c.Queue == nil, c.Payload == nil, c.Plugins == nil:
		return nil, fmt.Errorf("worker: Queue, Payload and Plugins must be set: %w", core.ErrInvalid)
	case c.Concurrency < 0:
		return nil, fmt.Errorf("worker: concurrency %d: expected 1 or more: %w", c.Concurrency, core.ErrInvalid)
	}
	c.Name = cmp.Or(c.Name, "worker")
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	if c.Grace <= 0 {
		c.Grace = 5 * time.Second
	}
	if c.Limits.CPU <= 0 {
		c.Limits.CPU = 0.9
	}
	if c.Limits.Memory <= 0 {
		c.Limits.Memory = 0.9
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Events == nil {
		c.Events = func(Event) {}
	}
	w := &Worker{
		cfg:       c,
		kill:      make(chan struct{}),
		drain:     make(chan struct{}),
		programs:  newPrograms(c.Payload, c.Plugins),
		windows:   admission.NewCalendarReader(c.Board),
		admit:     askCalendar,
		conceal:   (*redact.Set).Add,
		pace:      pace{beat: queue.BeatEvery, ttl: queue.SessionTTL, poll: backstop},
		running:   map[uint64]*job{},
		suspended: newSuspension(suspended).total,
	}
	w.clock.beat = w.pace.beat
	return w, nil
}

// Worker is one node.
type Worker struct {
	cfg       Config
	kill      chan struct{} // closed by Kill
	killOnce  sync.Once
	drain     chan struct{} // closed when Run's context ends: jobs are suspended between steps
	programs  *programs
	windows   *admission.CalendarReader
	clock     clock
	pace      pace
	admit     func(stepAdmission) (admission.Answer, error) // askCalendar; tests put defective ones in its place
	conceal   func(*redact.Set, ...redact.Value) error      // (*redact.Set).Add; the same
	suspended func() time.Duration                          // how long the machine was suspended since its boot; the same

	cordoned atomic.Bool  // nothing new is taken
	draining atomic.Bool  // Run's context has ended
	pulse    core.Pulse   // of the poller, which looks around
	spooled  atomic.Int64 // bytes of outputs in files
	missed   atomic.Int64 // windows
	leaps    atomic.Int64 // of the queue's clock

	away core.Outage // of the queue

	mu      sync.Mutex
	running map[uint64]*job // by lease token; a job is in it until its goroutine has ended
}

// Run takes jobs until ctx ends, then drains: nothing new is taken, steps that
// run may end, jobs with steps left are suspended for others, and the session is closed.
// It returns nil after a clean drain, also one that Kill cut short. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	return newPoller(w).run(ctx)
}

// Kill stops all running jobs immediately and ends Run. It is safe to call many times, from any
// goroutine, also before Run.
func (w *Worker) Kill() { w.killOnce.Do(func() { close(w.kill) }) }

// Running is a job that runs now.
type Running struct {
	Job     core.JobID
	Host    string
	Step    string // "" before the first
	Started time.Time
}

// Running lists the jobs that run now, longest first. Safe for concurrent use.
func (w *Worker) Running() []Running {
	w.mu.Lock()
	jobs := slices.Collect(maps.Values(w.running))
	w.mu.Unlock()
	out := core.Map(jobs, (*job).snapshot)
	slices.SortFunc(out, func(a, b Running) int { return a.Started.Compare(b.Started) })
	return out
}

// Stats is how a node is.
type Stats struct {
	Concurrency, Running int
	QueueAway            bool
	WindowsMissed        int64 // since the start: a job missed a window that it was promised
	ClockLeaps           int64 // since the start: of the queue's clock
}

// Stats returns the state of the node. It is safe for concurrent use.
func (w *Worker) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{Concurrency: w.cfg.Concurrency, Running: len(w.running), QueueAway: w.away.Lasts(), WindowsMissed: w.missed.Load(), ClockLeaps: w.leaps.Load()}
}

// Name is the node's.
func (w *Worker) Name() string { return w.cfg.Name }

// count is how many jobs run now.
func (w *Worker) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// stopJobs cancels the running jobs that match.
func (w *Worker) stopJobs(cause error, match func(*job) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.running {
		if match(j) {
			j.stop(cause, w.patience())
		}
	}
}

// patience is how long a job may continue after it was asked to end. Plugins.Run promises 2·Grace;
// the node stops waiting for a job over it.
func (w *Worker) patience() time.Duration { return 2*w.cfg.Grace + 2*time.Second }

// queueAway and queueBack report that the queue went away, and that it is back.
func (w *Worker) queueAway(err error) {
	report, lasts := w.away.Failed()
	if !report {
		return
	}
	w.cfg.Log.Warn("the queue does not answer; running jobs continue while their leases are safe, then they are stopped: check Redis, its Sentinels and the network",
		"for", lasts.Round(time.Second).String(), "err", err)
	if lasts == 0 {
		w.report(Event{Kind: QueueAway, Text: core.ErrorText(err)})
	}
}

func (w *Worker) queueBack() {
	lasted, failed := w.away.Over()
	if failed == 0 {
		return
	}
	text := fmt.Sprintf("the queue answers again after %v; calls that failed: %d", lasted.Round(time.Second/10), failed)
	w.cfg.Log.Info(text)
	w.report(Event{Kind: QueueBack, Text: text})
}

// heard takes in the queue's clock, and reports a leap of it once.
func (w *Worker) heard(sent, said time.Time) {
	leap := w.clock.report(sent, said, w.suspended())
	if leap == 0 {
		return
	}
	w.leaps.Add(1)
	w.cfg.Log.Warn("the queue's clock leaped: leases and delays continue, times of day follow it; check the clocks of the Redis servers (chronyc tracking)", "by", leap.Round(time.Second/10).String())
	w.report(Event{Kind: ClockLeaped, After: leap, Text: fmt.Sprintf("the queue's clock leaped by %v", leap.Round(time.Second/10))})
}

func (w *Worker) report(e Event) {
	e.Time = time.Now()
	w.cfg.Events(e)
}
