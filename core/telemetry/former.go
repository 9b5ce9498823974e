package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// former maps each former name of a metric to its present one. docs/renamed.md lists them.
var former = map[string]string{
	"turnus_definitions_info":                      "turnus_project_info",
	"turnus_definitions_applied_timestamp_seconds": "turnus_project_applied_timestamp_seconds",
	"turnus_definitions_rejected":                  "turnus_project_rejected",
	"turnus_schedule_fires_total":                  "turnus_schedule_triggers_total",
	"turnus_pool_slots":                            "turnus_pool_concurrency",
	"turnus_slots_desired":                         "turnus_concurrency_desired",
	"turnus_notifications_dead_total":              "turnus_notifications_dead_lettered_total",
	"turnus_worker_slots":                          "turnus_worker_concurrency",
	"turnus_plugin_held_back":                      "turnus_plugin_blocked",
}

// withFormer returns what g gathers, also under the former names.
func withFormer(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := g.Gather()
		byName := map[string]*dto.MetricFamily{}
		for _, f := range all {
			byName[f.GetName()] = f
		}
		for old, now := range former {
			if f := byName[now]; f != nil {
				help := "Former name of " + now + "."
				all = append(all, &dto.MetricFamily{Name: &old, Help: &help, Type: f.Type, Metric: f.GetMetric()})
			}
		}
		slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		return all, err
	})
}
