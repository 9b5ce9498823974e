package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ScrapeTime is how long the sources of one scrape may take together.
const ScrapeTime = 5 * time.Second

// maxScrapes is how many are answered at the same time.
const maxScrapes = 2

// Emit reports a value of a metric that is no histogram, with its labels in the table's order.
// Values that come together under Other are added up, or the largest of them counts.
type Emit func(id MetricID, value float64, labels ...string)

// Source reads values at a scrape, and passes each to emit. It leaves out values that it cannot
// read before ctx ends.
type Source func(ctx context.Context, emit Emit)

// Registry counts and exports the metrics of a process. Its methods are safe for concurrent use. A
// metric that is not in the table, or a wrong number of labels, is a programming error, and panics.
type Registry struct {
	prom    *prometheus.Registry
	bounds  *bounds
	descs   [last]*prometheus.Desc
	handler http.Handler

	mu         sync.Mutex
	counters   map[MetricID]*prometheus.CounterVec
	histograms map[MetricID]*prometheus.HistogramVec
	sources    []Source
}

// NewRegistry makes a registry with the metrics of every process: its version, and the metrics of
// Go and of the process. The first tenants have labels of their own; further ones count as Other.
// tenants 0 is DefaultTenants.
func NewRegistry(version string, tenants int) *Registry {
	r := &Registry{
		prom: prometheus.NewRegistry(), bounds: newBounds(tenants),
		counters: map[MetricID]*prometheus.CounterVec{}, histograms: map[MetricID]*prometheus.HistogramVec{},
	}
	for id := range table {
		m := &table[id]
		r.descs[id] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	r.prom.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), sourced{r})
	r.Source(func(_ context.Context, emit Emit) { emit(BuildInfo, 1, version) })
	r.handler = promhttp.HandlerFor(withFormer(r.prom), promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: 2 * ScrapeTime})
	return r
}

// Add adds to a counter; 0 makes it appear, so that its first increase is seen.
func (r *Registry) Add(id MetricID, n float64, labels ...string) {
	if n < 0 {
		return
	}
	m := check(id, Counter, labels)
	r.mu.Lock()
	vec := r.counters[id]
	if vec == nil {
		vec = prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		r.counters[id] = vec
		r.prom.MustRegister(vec)
	}
	r.mu.Unlock()
	vec.WithLabelValues(r.bounds.values(m, labels)...).Add(n)
}

// Observe adds a value to a histogram.
func (r *Registry) Observe(id MetricID, v float64, labels ...string) {
	m := check(id, Histogram, labels)
	r.mu.Lock()
	vec := r.histograms[id]
	if vec == nil {
		vec = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.Labels)
		r.histograms[id] = vec
		r.prom.MustRegister(vec)
	}
	r.mu.Unlock()
	vec.WithLabelValues(r.bounds.values(m, labels)...).Observe(v)
}

// Source adds a source.
func (r *Registry) Source(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// ServeHTTP answers a scrape in Prometheus's text format. Its caller decides who may ask.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.handler.ServeHTTP(w, req) }

// sourced is the collector of the sources' values.
type sourced struct{ r *Registry }

// Describe implements prometheus.Collector. It describes nothing, because a scrape leaves out
// values that cannot be read.
func (sourced) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c sourced) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), ScrapeTime) // a collector is given no context
	defer cancel()
	for _, s := range c.r.read(ctx) {
		kind := prometheus.GaugeValue
		if table[s.id].Kind == Counter {
			kind = prometheus.CounterValue
		}
		metric, err := prometheus.NewConstMetric(c.r.descs[s.id], kind, s.value, s.labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(c.r.descs[s.id], err)
		}
		out <- metric
	}
}

// series is one value of a source.
type series struct {
	id     MetricID
	labels []string
	value  float64
}

// read asks all sources at the same time.
func (r *Registry) read(ctx context.Context) []series {
	r.mu.Lock()
	sources := append([]Source(nil), r.sources...)
	r.mu.Unlock()
	var mu sync.Mutex
	at := map[string]int{}
	reported := map[string]map[string]bool{} // of passing labels
	var all []series
	emit := func(id MetricID, v float64, labels ...string) {
		m := check(id, "", labels)
		bounded := r.bounds.values(m, labels)
		key := fmt.Sprint(id, "\x00", strings.Join(bounded, "\x00"))
		mu.Lock()
		defer mu.Unlock()
		for i, label := range m.Labels {
			if !passing(label) {
				continue
			}
			if reported[label] == nil {
				reported[label] = map[string]bool{}
			}
			reported[label][bounded[i]] = true
		}
		i, ok := at[key]
		switch {
		case !ok:
			at[key] = len(all)
			all = append(all, series{id, bounded, v})
		case m.Largest:
			all[i].value = max(all[i].value, v)
		default:
			all[i].value += v
		}
	}
	var wg sync.WaitGroup
	for _, s := range sources {
		wg.Go(func() { s(ctx, emit) })
	}
	wg.Wait()
	r.bounds.forget(reported)
	return all
}

// check finds the line of the table; kind "" is any but a histogram.
func check(id MetricID, kind MetricKind, labels []string) *Metric {
	if id < 0 || id >= last {
		panic(fmt.Sprintf("metrics: there is no metric %d", id))
	}
	m := &table[id]
	if kind != "" && m.Kind != kind || kind == "" && m.Kind == Histogram || len(labels) != len(m.Labels) {
		panic(errors.New("metrics: " + m.Name + " is not used as in the table"))
	}
	return m
}

// clean makes a text that is no UTF-8 one, and a long one short: names are of people.
func clean(v string) string {
	const most = 128
	if len(v) > most {
		v = v[:most]
	}
	return strings.ToValidUTF8(v, "\uFFFD")
}
