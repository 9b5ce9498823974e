package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// The requests of the page of a run of 3000 hosts and 20 steps. "first" reads each record, "again"
// is the cost of every further look, "changed" the look after one more host has its outcome.
func BenchmarkGrid(b *testing.B) {
	const hosts, steps = 3000, 20
	bed := newBed(b)
	large := tree()
	var names, calls strings.Builder
	for i := range hosts {
		fmt.Fprintf(&names, "  acme-x%04d: {address: 192.0.2.9, customer: acme}\n", i)
	}
	for i := range steps {
		fmt.Fprintf(&calls, "  - {name: step %d, uses: command, with: {run: uptime}}\n", i)
	}
	large["inventory/hosts.yaml"] += names.String()
	large["playbooks/grid.yaml"] = "playbook: grid\ntenant: acme\ntargets: host.customer == \"acme\"\nwindow: none\nsteps:\n" + calls.String()
	_, err := bed.cat.Apply(b.Context(), "test", documents(large), definitions.Revision{}, catalog.AnyVersion)
	must(b, err)
	run := bed.launch("acme", api.NewRun{Playbook: "grid"})
	outcome := func(i, attempt int) ledger.Outcome {
		r := core.Result{Outcome: core.Changed, Attempt: attempt}
		for k := range steps {
			r.Steps = append(r.Steps, core.StepResult{Name: fmt.Sprint("step ", k), Uses: "command", Outcome: core.Changed, Attempts: 1, Stdout: " 10:02:11 up 41 days, 3:02, 1 user, load average: 0.00, 0.01, 0.05\n"})
		}
		detail, err := launch.EncodeResult(r)
		must(b, err)
		return ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: attempt, Started: time.Now(), Took: time.Second, Detail: detail}
	}
	record := func(all ...ledger.Outcome) {
		recorded, err := bed.ledger.Record(b.Context(), ledger.Batch{Run: run.ID, Outcomes: all})
		must(b, err)
		must(b, recorded[0].Err)
	}
	const left = 500
	for from := 0; from < run.Total-left; from += 500 {
		var all []ledger.Outcome
		for i := from; i < min(from+500, run.Total-left); i++ {
			all = append(all, outcome(i, 1))
		}
		record(all...)
	}
	secret, next := bed.token("acme", Viewer), run.Total-left
	for _, c := range []struct {
		name, path string
		before     func()
	}{
		{"first", "/grid", func() { clear(bed.server.sheets.runs) }},
		{"again", "/grid", func() {}},
		{"groups", "/groups", func() {}},
		{"changed", "/groups", func() {
			if next < run.Total-1 {
				record(outcome(next, 1))
				next++
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			size := 0
			for b.Loop() {
				b.StopTimer()
				c.before()
				b.StartTimer()
				from := time.Now()
				a := bed.ask(secret, "GET", "/v1/runs/"+run.ID+c.path, nil)
				took = append(took, time.Since(from))
				if size = len(a.body); a.status != http.StatusOK {
					b.Fatal(a.body)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
