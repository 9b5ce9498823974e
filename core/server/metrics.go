package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const metricsWorkers = 1000 // of more, those that come first by name are counted

// metricsTime is how long a scrape waits for ledger and queue.
const metricsTime = 3 * time.Second

// metrics are told in Prometheus's text format. They are of all tenants, so they need a token as GET /v1/queue does.
type metrics struct {
	registry *prometheus.Registry
	events   *prometheus.CounterVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnus_events_total", Help: "Events of this server since it started, by kind: those of its log.",
		}, []string{"kind"}),
	}
	m.registry.MustRegister(m.events, state{s})
	return m
}

// CountEvent counts an event of the service, by kind. It may be called by any goroutine.
func (s *Server) CountEvent(kind string) { s.metrics.events.WithLabelValues(kind).Inc() }

// scrape registers the route. It is no part of the document: its answer is no JSON.
func (s *Server) scrape() {
	answer := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 2 * metricsTime})
	needs := route{role: Viewer, everyone: true}
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if _, status, why := s.admit(r.Context(), r.Header.Get("Authorization"), needs); status != 0 {
			plainProblem(w, status, why)
			return
		}
		answer.ServeHTTP(w, r)
	})
}

// state is what is read at each scrape; nothing is kept between two.
type state struct{ s *Server }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// What a scrape reads. A figure that cannot be read is left out, and turnus_up of its part is 0.
var (
	descBuild       = desc("turnus_build_info", "1, with the version.", "version")
	descUp          = desc("turnus_up", "1 if the part answers: ledger or queue.", "part")
	descDefinitions = desc("turnus_definitions_info", "1, with the revision that holds and its source.", "revision", "source")
	descSince       = desc("turnus_definitions_applied_timestamp_seconds", "When the definitions that hold were applied.")
	descRejected    = desc("turnus_definitions_rejected", "1 while newer definitions are not taken: the last good ones hold.")
	descPlaybooks   = desc("turnus_playbooks", "Playbooks in the definitions.")
	descHosts       = desc("turnus_hosts", "Hosts in the definitions.")
	descWorkers     = desc("turnus_workers", "Workers, by state.", "state")
	descRuns        = desc("turnus_queue_runs", "Runs in the queue that are not complete.")
	descReady       = desc("turnus_queue_ready_runs", "Runs with a job that could be leased now.")
	descInFlight    = desc("turnus_queue_in_flight", "Leased jobs.")
	descTimed       = desc("turnus_queue_timed", "What waits for a time: segments of runs, retries, suspended jobs.")
	descOldest      = desc("turnus_queue_oldest_overdue_seconds", "How long the oldest due job has waited.")
	descStale       = desc("turnus_queue_stale_acks_total", "Acks that came too late and did not count.")
	descReaped      = desc("turnus_queue_reaped_sessions_total", "Sessions of workers that fell silent.")
)

// Describe implements prometheus.Collector: nothing is promised, for what cannot be read is left out.
func (c state) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c state) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTime) // a collector has no context
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descBuild, 1, c.s.cfg.Version)
	gauge(descUp, truth(c.s.cfg.Ledger.Ping(ctx) == nil), "ledger")
	c.definitions(gauge)
	stats, err := c.s.cfg.Queue.Stats(ctx)
	gauge(descUp, truth(err == nil), "queue")
	if err != nil {
		return
	}
	gauge(descRuns, float64(stats.Runs))
	gauge(descReady, float64(stats.Ready))
	gauge(descInFlight, float64(stats.InFlight))
	gauge(descTimed, float64(stats.Timed))
	gauge(descOldest, stats.Oldest.Seconds())
	out <- prometheus.MustNewConstMetric(descStale, prometheus.CounterValue, float64(stats.StaleAcks))
	out <- prometheus.MustNewConstMetric(descReaped, prometheus.CounterValue, float64(stats.Reaped))
	workers, err := c.s.listWorkers(ctx, caller{}, &struct{ Page }{Page{Limit: metricsWorkers}})
	if err != nil {
		return
	}
	states := map[string]int{}
	for _, w := range workers.Body.Items {
		states[w.State]++
	}
	for name, n := range states {
		gauge(descWorkers, float64(n), name)
	}
}

func (c state) definitions(gauge func(*prometheus.Desc, float64, ...string)) {
	d := c.s.definitionsOf(c.s.cfg.Catalog.Current())
	gauge(descRejected, truth(d.Rejected != nil))
	if d.Applied.IsZero() {
		return
	}
	gauge(descDefinitions, 1, d.Revision, d.Source)
	gauge(descSince, float64(d.Applied.Unix()))
	gauge(descPlaybooks, float64(d.Playbooks))
	gauge(descHosts, float64(d.Hosts))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
