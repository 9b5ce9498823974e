package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
)

// ReportConfig defines which reports a node sends, and where. Worker and Board must be set.
type ReportConfig struct {
	Worker  *Worker
	Board   board.Board
	Feed    board.Feed // nil: events of jobs are not published
	Version string
	// Load measures the node as Config.Load does; nil reports none.
	Load func() (cpu, memory float64)
	// Metrics are posted for servers to export, for nodes that are not scraped; nil posts none.
	Metrics func(ctx context.Context) ([]byte, error)
	// Drain is called once, when people want the node to give its jobs away and end. Nil: it is
	// cordoned instead.
	Drain func()
	Log   *slog.Logger // discarded when nil
}

// Reporter reports the node's state to the service, does what the service orders, and publishes
// events of its jobs. It never delays a job: reports that cannot be sent in time are dropped, and
// their number is reported.
type Reporter struct {
	cfg     ReportConfig
	started time.Time
	feed    *publisher // nil: there is none

	mu         sync.Mutex
	overloaded bool
	draining   bool
	drained    bool      // Drain was called
	leap       *api.Leap // not posted yet
}

// NewReporter makes a node's reporter. Its Event is to get the worker's events, and Run to run
// beside the worker.
func NewReporter(c ReportConfig) *Reporter {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	r := &Reporter{cfg: c, started: time.Now()}
	if c.Feed != nil {
		r.feed = newPublisher(c.Feed, c.Worker.cfg.Name)
	}
	return r
}

// Event takes an event of the worker. It does not block.
func (r *Reporter) Event(e Event) {
	switch e.Kind {
	case Overloaded, Eased, Draining, ClockLeaped:
		r.mu.Lock()
		switch e.Kind {
		case ClockLeaped:
			r.leap = &api.Leap{By: e.After, Worker: r.cfg.Worker.cfg.Name, At: e.Time.UTC()}
		case Draining:
			r.draining = true
		default:
			r.overloaded = e.Kind == Overloaded
		}
		r.mu.Unlock()
		return
	}
	if r.feed != nil && e.Job.Run != "" {
		r.feed.add(e)
	}
}

// Run reports until ctx ends, which should be after the worker's Run has returned; then it reports
// that the node is gone.
func (r *Reporter) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if r.feed != nil {
		wg.Go(func() { r.feed.run(ctx) })
	}
	ticker := time.NewTicker(api.WorkerEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		r.obey(ctx)
		r.post(ctx, r.state(), api.WorkerKeep)
		r.postLeap(ctx)
		if r.cfg.Metrics != nil && n%metricsEvery == 0 {
			r.measure(ctx)
		}
		select {
		case <-ctx.Done():
			r.post(context.WithoutCancel(ctx), api.WorkerAway, time.Second)
			return
		case <-ticker.C:
		}
	}
}

// state is how the node is, in one word.
func (r *Reporter) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch w := r.cfg.Worker; {
	case r.draining:
		return api.WorkerDraining
	case w.cordoned.Load():
		return api.WorkerCordoned
	case r.overloaded:
		return api.WorkerOverloaded
	case w.count() >= w.cfg.Concurrency:
		return api.WorkerBusy
	}
	return api.WorkerReady
}

// post puts what is known of the node on the board.
func (r *Reporter) post(ctx context.Context, state string, keep time.Duration) {
	w := r.cfg.Worker
	doc := api.Worker{
		Name: w.cfg.Name, Version: r.cfg.Version, Pool: w.cfg.Pool, State: state, Concurrency: w.cfg.Concurrency, Running: w.count(), Fixed: r.cfg.Drain == nil,
		Started: r.started.UTC(), Reported: time.Now().UTC(),
	}
	if r.cfg.Load != nil {
		doc.CPU, doc.Memory = r.cfg.Load()
	}
	text, err := json.Marshal(doc)
	if err != nil {
		r.cfg.Log.Error("the node's report cannot be written", "err", err)
		return
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := r.cfg.Board.Post(call, api.WorkerDocument(w.cfg.Name), text, keep); err != nil && ctx.Err() == nil {
		r.cfg.Log.Debug("the node's report was not taken", "err", err)
	}
}

// postLeap puts a leap of the queue's clock on the board, until that has taken it.
func (r *Reporter) postLeap(ctx context.Context) {
	r.mu.Lock()
	leap := r.leap
	r.mu.Unlock()
	if leap == nil {
		return
	}
	text, err := json.Marshal(leap)
	if err == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err = r.cfg.Board.Post(call, api.LeapDocument, text, api.LeapKeep)
	}
	if err != nil {
		r.cfg.Log.Debug("the leap of the queue's clock was not taken", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leap == leap {
		r.leap = nil
	}
}

// metricsEvery is after how many reports metrics are posted.
const metricsEvery = int(api.MetricsEvery / api.WorkerEvery)

// measure puts the node's metrics on the board.
func (r *Reporter) measure(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := r.cfg.Metrics(call)
	if err == nil {
		_, err = r.cfg.Board.Post(call, api.MetricsDocument(r.cfg.Worker.cfg.Name), text, api.MetricsKeep)
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Debug("the node's metrics were not taken", "err", err)
	}
}

// obey reads what people want of the node, and does it. While the board cannot be read the last
// order holds.
func (r *Reporter) obey(ctx context.Context) {
	w := r.cfg.Worker
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, _, err := r.cfg.Board.Posted(call, api.OrderDocument(w.cfg.Name), 0)
	var order api.Order
	switch {
	case errors.Is(err, core.ErrNotFound):
	case err != nil:
		return
	default:
		if err := json.Unmarshal(text, &order); err != nil {
			r.cfg.Log.Warn("an order to this node cannot be read", "err", err)
			return
		}
	}
	if cordoned := order.Cordoned || order.Draining; w.cordoned.Swap(cordoned) != cordoned {
		r.cfg.Log.Info("an order came", "cordoned", cordoned, "by", order.By, "reason", order.Reason)
	}
	if !order.Draining || r.cfg.Drain == nil || order.At.Before(r.started) { // an order to the process that was here before
		return
	}
	r.mu.Lock()
	first := !r.drained
	r.drained = true
	r.mu.Unlock()
	if first {
		r.cfg.Drain()
	}
}
