package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Health answers GET /healthz and GET /readyz, without a token: they say how the node is, and
// nothing of what it works on. stuck says why only a new process helps, unready why the node takes
// no new job now; both are nil otherwise, and are asked at each request.
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
