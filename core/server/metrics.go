package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
)

const (
	metricsWorkers = 1000             // of more, those that come first by name are counted
	metricsTime    = 3 * time.Second  // how long a scrape waits for ledger and queue
	censusAge      = 5 * time.Second  // how old what was read of the queue may be: several scrapers cost no more than one
	defaultAhead   = 10 * time.Minute // see Config.Ahead
)

// measure makes what the server reports about itself. Metrics are of all tenants, so they need a
// token as GET /v1/queue does.
func (s *Server) measure() {
	s.metrics = s.cfg.Metrics
	if s.metrics == nil {
		s.metrics = telemetry.NewRegistry(s.cfg.Version, 0)
	}
	for _, kind := range eventKinds() {
		s.metrics.Add(telemetry.Events, 0, kind)
	}
	for _, reason := range refusals() {
		s.metrics.Add(telemetry.AccessRefused, 0, reason)
	}
	s.metrics.Source(s.measureParts)
	s.metrics.Source(s.measureQueue)
}

// eventKinds are there from the beginning, so that the first event of a kind is seen as an
// increase.
func eventKinds() (kinds []string) {
	for _, k := range []controller.EventKind{
		controller.RunEnqueued, controller.RunEnded, controller.RunEvent, controller.RunPaused, controller.RunRepeated, controller.RunRefused,
		controller.WaveAsks, controller.WindowMissed, controller.StepStalled, controller.QueueAway, controller.QueueBack, controller.QueueLost,
	} {
		kinds = append(kinds, string(k))
	}
	for _, k := range []catalog.EventKind{
		catalog.ProjectChanged, catalog.ProjectRejected, catalog.WindowsPosted, catalog.SchedulesChanged, catalog.SourceChanged, catalog.SourceWaiting, catalog.SourceFailed, catalog.TriggerLaunched,
		catalog.TriggerSkipped, catalog.TriggerFailed, catalog.Trouble,
	} {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// CountEvent counts an event of the service, by kind. It may be called by any goroutine.
func (s *Server) CountEvent(kind string) { s.metrics.Add(telemetry.Events, 1, kind) }

// count counts the requests of a route, also refused ones, and how long they took.
func (s *Server) count(r route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		began := time.Now()
		next(ctx)
		s.metrics.Add(telemetry.APIRequests, 1, r.id, strconv.Itoa(cmp.Or(ctx.Status(), http.StatusOK)))
		if !r.stream {
			s.metrics.Observe(telemetry.APISeconds, time.Since(began).Seconds(), r.id)
		}
	}
}

// scrape registers the route. It is no part of the document: its answer is no JSON.
func (s *Server) scrape() {
	needs := route{role: Viewer, everyone: true}
	var known scrapers
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		authorization := r.Header.Get("Authorization")
		ctx, cancel := context.WithTimeout(r.Context(), metricsTime)
		_, status, why := s.admit(ctx, authorization, needs)
		cancel()
		if !known.admit(authorization, status, time.Now()) {
			plainProblem(w, status, why)
			return
		}
		s.metrics.ServeHTTP(w, r)
	})
}

// scrapers are the tokens that lately read metrics. They may do so while the ledger, which knows
// all tokens, is away: its absence is what they must report. The zero value has none.
type scrapers struct {
	mu   sync.Mutex
	last map[[sha256.Size]byte]time.Time
}

const (
	scrapersMost = 64
	scrapersKeep = 24 * time.Hour // a token that is revoked while the ledger is away reads metrics for no longer
)

// admit takes the ledger's answer about a token: 0 allows it, 503 means that nobody knows.
func (k *scrapers) admit(authorization string, status int, now time.Time) bool {
	sum := sha256.Sum256([]byte(authorization))
	k.mu.Lock()
	defer k.mu.Unlock()
	switch status {
	case 0:
		maps.DeleteFunc(k.last, func(_ [sha256.Size]byte, at time.Time) bool { return now.Sub(at) > scrapersKeep })
		if k.last == nil {
			k.last = map[[sha256.Size]byte]time.Time{}
		}
		if _, ok := k.last[sum]; ok || len(k.last) < scrapersMost {
			k.last[sum] = now
		}
		return true
	case http.StatusServiceUnavailable:
		at, ok := k.last[sum]
		return ok && now.Sub(at) <= scrapersKeep
	}
	delete(k.last, sum)
	return false
}

// measureParts reports what is near: whether the ledger answers, the definitions, the recorder.
func (s *Server) measureParts(ctx context.Context, emit telemetry.Emit) {
	ctx, cancel := context.WithTimeout(ctx, metricsTime)
	defer cancel()
	emit(telemetry.Up, truth(s.cfg.Ledger.Ping(ctx) == nil), "ledger")
	emit(telemetry.RecorderLag, s.cfg.Controller.Lag().Seconds())
	d := s.definitionsOf(s.cfg.Catalog.Current())
	emit(telemetry.ProjectRejected, truth(d.Rejected != nil))
	if d.Applied.IsZero() {
		return
	}
	emit(telemetry.DefinitionsInfo, 1, d.Revision, d.Source)
	emit(telemetry.DefinitionsApplied, float64(d.Applied.Unix()))
	emit(telemetry.Playbooks, float64(d.Playbooks))
	emit(telemetry.Hosts, float64(d.Hosts))
}

// measureQueue reports the queue and the workers. Values that cannot be read are left out, and
// turnus_up of the queue is 0.
func (s *Server) measureQueue(ctx context.Context, emit telemetry.Emit) {
	ctx, cancel := context.WithTimeout(ctx, metricsTime)
	defer cancel()
	c, err := s.census.read(ctx, s)
	emit(telemetry.Up, truth(err == nil), "queue")
	if err != nil {
		return
	}
	emitLoad(emit, &c.load)
	for _, w := range c.workers {
		pool := cmp.Or(w.Pool, s.cfg.Pool) // of one that is away nothing is known
		emit(telemetry.Workers, 1, pool, w.State)
		emit(telemetry.PoolRunning, float64(w.Running), pool)
		concurrency := 0
		switch w.State {
		case api.WorkerReady, api.WorkerBusy, api.WorkerOverloaded:
			concurrency = w.Concurrency
		}
		emit(telemetry.PoolConcurrency, float64(concurrency), pool)
	}
	if len(c.workers) == 0 { // also a pool without workers is reported
		emit(telemetry.PoolConcurrency, 0, s.cfg.Pool)
		emit(telemetry.PoolRunning, 0, s.cfg.Pool)
		emit(telemetry.Workers, 0, s.cfg.Pool, api.WorkerReady)
	}
	for name, report := range c.reports {
		if err := telemetry.Reported(name, report, emit); err != nil {
			s.cfg.Log.Debug("a worker's metrics cannot be read", "worker", name, "error", err)
		}
	}
}

func emitLoad(emit telemetry.Emit, l *queue.Load) {
	for id, v := range map[telemetry.MetricID]float64{
		telemetry.QueueRuns: float64(l.Runs), telemetry.QueueReady: float64(l.Ready), telemetry.QueueInFlight: float64(l.InFlight), telemetry.QueueTimed: float64(l.Timed),
		telemetry.QueueDue: float64(l.Due), telemetry.QueueRunnable: float64(l.Runnable), telemetry.QueueSoon: float64(l.Soon), telemetry.QueueOldest: l.Oldest.Seconds(),
		telemetry.QueueStale: float64(l.StaleAcks), telemetry.QueueReaped: float64(l.Reaped), telemetry.Fairness: l.Fairness(),
	} {
		emit(id, v)
	}
	for name, t := range l.ByTenant {
		emit(telemetry.TenantWaiting, float64(t.Waiting), name)
		emit(telemetry.TenantDue, float64(t.Due), name)
		emit(telemetry.TenantLeased, float64(t.Leased), name)
		emit(telemetry.TenantOldest, t.Oldest.Seconds(), name)
		if l.InFlight > 0 {
			emit(telemetry.TenantShare, float64(t.Leased)/float64(l.InFlight), name)
		}
	}
}

// census is the last reading of the queue and its workers.
type census struct {
	mu      sync.Mutex // held while it is read: a request that comes meanwhile waits, and gets the same
	at      time.Time
	load    queue.Load
	workers []api.Worker
	reports map[string][]byte
}

// read reads it again where it is too old. After an error, the next call reads again.
func (c *census) read(ctx context.Context, s *Server) (*census, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < censusAge {
		return &census{load: c.load, workers: c.workers, reports: c.reports}, nil
	}
	next := census{at: time.Now(), reports: map[string][]byte{}}
	var err error
	if next.load, err = s.cfg.Queue.Load(ctx, s.ahead()); err != nil {
		return nil, err
	}
	list, err := s.listWorkers(ctx, caller{}, &struct{ Page }{Page{Limit: metricsWorkers}})
	if err != nil {
		return nil, err
	}
	next.workers = list.Body.Items
	names, err := s.cfg.Board.Names(ctx, api.MetricsPrefix)
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), metricsWorkers)] {
		data, _, err := s.cfg.Board.Posted(ctx, name, 0)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			next.reports[strings.TrimPrefix(name, api.MetricsPrefix)] = data
		}
	}
	c.at, c.load, c.workers, c.reports = next.at, next.load, next.workers, next.reports
	return &next, nil
}

// Census returns what the queue has to do and the workers, as metrics report them: read not long
// ago.
func (s *Server) Census(ctx context.Context) (queue.Load, []api.Worker, error) {
	c, err := s.census.read(ctx, s)
	if err != nil {
		return queue.Load{}, nil, err
	}
	return c.load, c.workers, nil
}

func (s *Server) ahead() time.Duration {
	if s.cfg.Ahead > 0 {
		return s.cfg.Ahead
	}
	return defaultAhead
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
