package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// healthTime is how long a health check waits for what it asks.
const healthTime = 3 * time.Second

// health registers the two routes that need no token. They report the health of the server, and
// none of its data.
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

// ledgerFailed logs what the ledger did not do. While it is away, that is one line at first, and
// one a minute.
func (s *Server) ledgerFailed(what string, err error) {
	if !core.NoAnswer(err) {
		s.cfg.Log.Error(what, "error", err)
		return
	}
	if report, lasts := s.ledger.Failed(); report {
		text := "the ledger does not answer; nothing is accepted, running jobs continue: check the database, or the disk of --data"
		if refused(err) {
			text = "the ledger takes no writes; nothing is accepted, running jobs continue, and their outcomes wait in the queue"
		}
		s.cfg.Log.Error(text, "what", what, "for", lasts.Round(time.Second).String(), "error", err)
	}
}

// refused reports whether the ledger answered that it takes no writes.
func refused(err error) bool {
	_, ok := errors.AsType[*ledger.RefusedError](err)
	return ok
}

// ledgerBack logs that the ledger answers again.
func (s *Server) ledgerBack() {
	if lasted, failed := s.ledger.Over(); failed > 0 {
		s.cfg.Log.Warn("the ledger answers again", "after", lasted.Round(time.Second/10).String(), "failed", failed)
	}
}

// ready asks what the server needs. Without the queue it is ready: it accepts runs, and answers.
func (s *Server) ready(ctx context.Context) api.Health {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	h := api.Health{Ledger: "ok", Queue: "ok", Project: "ok", Version: s.cfg.Version}
	if err := s.cfg.Ledger.Ping(ctx); err != nil {
		h.Ledger = "away"
		if refused(err) {
			h.Ledger = "read_only"
		}
		s.ledgerFailed("a probe asked for it", err)
	} else {
		s.ledgerBack()
	}
	if s.cfg.Controller.Away() != nil {
		h.Queue = "away"
	}
	if s.cfg.Catalog.Set() == nil {
		h.Project = "none"
	}
	h.Ready = h.Ledger == "ok" && h.Project == "ok"
	return h
}
