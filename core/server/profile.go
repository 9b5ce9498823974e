package server

import (
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

const (
	profileTime = 60 * time.Second // the longest profile
)

// profiling registers Go's profiles of this process. They show memory and names of everything that
// it does, so they need an admin of all tenants; each one is in the audit log, and one is made at a
// time.
func (s *Server) profiling() {
	needs := route{role: Admin, everyone: true}
	busy := make(chan struct{}, 1)
	s.mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		by, status, why := s.admit(r.Context(), r.Header.Get("Authorization"), needs)
		if status != 0 {
			plainProblem(w, status, why)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/debug/pprof/")
		seconds := r.URL.Query().Get("seconds")
		if d, err := time.ParseDuration(seconds + "s"); seconds != "" && (err != nil || d <= 0 || d > profileTime) {
			plainProblem(w, http.StatusUnprocessableEntity, "seconds: expected a number of at most 60")
			return
		}
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
		default:
			w.Header().Set("Retry-After", "5")
			plainProblem(w, http.StatusServiceUnavailable, "another profile is being made: try again")
			return
		}
		if _, err := s.cfg.Ledger.AppendAudit(r.Context(), ledger.Entry{Who: by.name, Action: "server.profile", Kind: "server", Subject: clip(name, 100)}); err != nil {
			plainProblem(w, http.StatusServiceUnavailable, "the audit log could not be written: try again")
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTime + writeTime))
		profileHandler(name).ServeHTTP(w, r)
	})
}

func profileHandler(name string) http.Handler {
	switch name {
	case "profile":
		return http.HandlerFunc(pprof.Profile)
	case "trace":
		return http.HandlerFunc(pprof.Trace)
	case "cmdline": // arguments may hold what is not for everybody, even of admins
		return http.NotFoundHandler()
	case "symbol":
		return http.HandlerFunc(pprof.Symbol)
	case "":
		return http.HandlerFunc(pprof.Index)
	}
	return pprof.Handler(name)
}
