package node

import (
	"context"

	"github.com/turnus/turnus/core/telemetry"
)

// measure returns the source of the metrics of a node.
func (n *Node) measure(pool string) telemetry.Source {
	return func(_ context.Context, emit telemetry.Emit) {
		name, w := n.Worker.Name(), n.Worker.Stats()
		emit(telemetry.WorkerUp, 1, name, pool)
		emit(telemetry.WorkerConcurrency, float64(w.Concurrency), name)
		emit(telemetry.WorkerRunning, float64(w.Running), name)
		emit(telemetry.WorkerQueueUp, truth(!w.QueueAway), name)
		emit(telemetry.ClockLeaps, float64(w.ClockLeaps), name)
		emit(telemetry.WindowsMissed, float64(w.WindowsMissed), name)
		ssh := n.pool.Stats()
		emit(telemetry.SSHConnections, float64(ssh.Open), name)
		for result, dials := range ssh.Results {
			emit(telemetry.SSHDials, float64(dials), name, string(result))
		}
		for _, p := range n.Plugins.Stats() {
			emit(telemetry.PluginStarts, float64(p.Starts), name, p.Plugin)
			emit(telemetry.PluginDeaths, float64(p.Deaths), name, p.Plugin)
			emit(telemetry.PluginBlocked, truth(p.Blocked), name, p.Plugin)
		}
	}
}

// posted returns the metrics that the node's reporter posts for servers to export; nil if this
// process is scraped.
func (o *WorkOptions) posted() func(context.Context) ([]byte, error) {
	if o.Metrics == nil || o.Scraped {
		return nil
	}
	return o.Metrics.Report
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
