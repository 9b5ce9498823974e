package telemetry

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Health serves GET /healthz and GET /readyz, without a token. They report the node's own state,
// and nothing of its work. stuck returns why only a new process helps, unready why the node takes
// no new job now; both return nil otherwise. Each request calls them.
func (l *Listener) Health(stuck, unready func() error) {
	l.HandleOpen("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := stuck(); err != nil {
			l.cfg.Log.Error("this process does not do its work any more", "error", err)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}))
	l.HandleOpen("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Ready  bool   `json:"ready"`
			Reason string `json:"reason,omitempty"`
		}{Ready: true}
		if err := unready(); err != nil {
			answer.Ready, answer.Reason = false, err.Error()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
}
