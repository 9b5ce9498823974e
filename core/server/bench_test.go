package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// What the two hottest reads cost in process: huma, the token cache, the ledger and JSON, without a network.
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

// What a look at a run of 3000 hosts costs that is under way: its wave comes from what it was launched with.
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
