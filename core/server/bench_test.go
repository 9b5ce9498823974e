package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/turnus/turnus/core/api"
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
