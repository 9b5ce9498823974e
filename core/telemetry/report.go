package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/turnus/turnus/core"
)

// maxReport is how many series a node's report has.
const maxReport = 2000

// reported is one series on its way from a worker that nobody can scrape to the servers.
type reported struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
	Value  float64  `json:"value"`
}

// Report returns the values of a worker's sources as bytes, for Reported of a server.
func (r *Registry) Report(ctx context.Context) ([]byte, error) {
	list := []reported{}
	for _, s := range r.read(ctx) {
		if table[s.id].Side == OfWorker && len(list) < maxReport {
			list = append(list, reported{table[s.id].Name, s.labels, s.value})
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("write the node's metrics: %w", err)
	}
	return data, nil
}

// Reported emits the values of a worker's report, under the worker's own name, also if the report
// has another. It accepts the metrics of workers only, and skips metrics that this server does not
// know, as of a newer worker. Errors wrap core.ErrInvalid.
func Reported(worker string, data []byte, emit Emit) error {
	var list []reported
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("read a node's metrics: %w: %w", core.ErrInvalid, err)
	}
	known := map[string]MetricID{}
	for id := range table {
		if table[id].Side == OfWorker {
			known[table[id].Name] = MetricID(id)
		}
	}
	for _, s := range list[:min(len(list), maxReport)] {
		if now := former[s.Metric]; now != "" { // of an older worker
			s.Metric = now
		}
		id, ok := known[s.Metric]
		if !ok || table[id].Kind == Histogram || len(s.Labels) != len(table[id].Labels) || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		s.Labels[0] = worker
		emit(id, s.Value, s.Labels...)
	}
	return nil
}
