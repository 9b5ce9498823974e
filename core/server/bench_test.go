package server

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/core/testparts/servers"
)

// The cost of the two hottest reads in process: huma, the token cache, the ledger and JSON, without
// a network.
func BenchmarkReads(b *testing.B) {
	bed := newBed(b)
	run := bed.launch("acme", api.NewRun{})
	bed.finish(run)
	secret := bed.token("acme", Viewer)
	for name, path := range map[string]string{"run": "/v1/runs/" + run.ID, "job": "/v1/runs/" + run.ID + "/jobs/1", "whoami": "/v1/whoami"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
				req.Header.Set("Authorization", "Bearer "+secret)
				w := httptest.NewRecorder()
				bed.server.ServeHTTP(w, req)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// The cost of reading a run of 3000 hosts that is under way: its wave comes from what it was
// launched with.
func BenchmarkRunUnderWay(b *testing.B) {
	bed := newBed(b)
	large := tree()
	var hosts strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&hosts, "  acme-x%04d: {address: 192.0.2.9, customer: acme}\n", i)
	}
	large["inventory/hosts.yaml"] += hosts.String()
	_, err := bed.cat.Apply(b.Context(), "test", documents(large), definitions.Revision{}, catalog.AnyVersion)
	must(b, err)
	run := bed.launch("acme", api.NewRun{})
	bed.work()
	until(b, "the run is in the queue", func() bool {
		kept, err := bed.ledger.Run(b.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Incarnation != ""
	})
	secret := bed.token("acme", Viewer)
	b.ReportAllocs()
	for b.Loop() {
		want[api.Run](b, bed.ask(secret, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK)
	}
}

// The cost of a scrape with 1000 tenants, 5000 runs in the queue, and a million in the ledger.
// "again" reads the queue each time, "again" is within the 5 s for which that is kept.
func BenchmarkScrape(b *testing.B) {
	const tenants, each, old = 1000, 5, 1_000_000
	r, err := redis.New(servers.StartRedis(b).Client(), redis.Options{})
	must(b, err)
	bed := newBed(b, func(c *Config) { c.Queue, c.Metrics = r, telemetry.NewRegistry("bench", tenants) })
	db, err := sql.Open("sqlite", filepath.Join(filepath.Dir(bed.outputs), "ledger.db"))
	must(b, err)
	_, err = db.ExecContext(b.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, ended, criticality, phase, request, total, recorded, changed)
		SELECT 'old-' || i, 't' || (i % 1000), 'p', '', 'bench', i, i + 1, 0, 'finished', x'00', 10, 10, 10 FROM n`, old)
	must(b, err)
	must(b, db.Close())
	for i := range tenants * each {
		run := queue.Run{ID: fmt.Sprint("run-", i), Tenant: fmt.Sprint("t", i%tenants)}
		for j := range 10 {
			run.Targets = append(run.Targets, queue.Target{Host: fmt.Sprint("h-", i, "-", j)})
		}
		_, err := queue.SubmitOne(b.Context(), r, run)
		must(b, err)
		for _, outcome := range []string{"changed", "failed"} {
			bed.server.metrics.Add(telemetry.JobsEnded, 1, run.Tenant, outcome)
		}
		bed.server.metrics.Observe(telemetry.StartDelay, 1, run.Tenant)
	}
	secret := bed.token(everyTenant, Viewer)
	for _, name := range []string{"anew", "again"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				if name == "anew" {
					bed.server.census.at = time.Time{}
				}
				got := bed.ask(secret, "GET", "/metrics", nil)
				if got.status != http.StatusOK || !strings.Contains(got.body, `turnus_tenant_due{tenant="t999"} 50`) {
					b.Fatal(got.status)
				}
				size = len(got.body)
			}
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric(float64(strings.Count(bed.ask(secret, "GET", "/metrics", nil).body, "\nturnus_")), "series")
		})
	}
}
