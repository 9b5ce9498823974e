package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/turnus/turnus/core/api"
)

// healthTime is how long a health check waits for what it asks.
const healthTime = 3 * time.Second

// health registers the two routes that need no token. They say how the server is, and nothing of what it holds.
func (s *Server) health() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if s.cfg.Stuck != nil {
			if err := s.cfg.Stuck(); err != nil {
				s.cfg.Log.Error("this process does not do its work any more", "error", err)
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprintln(w, err)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		h := s.ready(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !h.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h)
	})
}

// ready asks what the server needs. Without the queue it is ready: it accepts runs, and answers.
func (s *Server) ready(ctx context.Context) api.Health {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	h := api.Health{Ledger: "ok", Queue: "ok", Definitions: "ok", Version: s.cfg.Version}
	if err := s.cfg.Ledger.Ping(ctx); err != nil {
		h.Ledger = "away"
		s.cfg.Log.Warn("the ledger does not answer", "error", err)
	}
	if s.cfg.Controller.Away() != nil {
		h.Queue = "away"
	}
	if s.cfg.Catalog.Set() == nil {
		h.Definitions = "none"
	}
	h.Ready = h.Ledger == "ok" && h.Definitions == "ok"
	return h
}
