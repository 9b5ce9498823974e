package client

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// An output is sent again from its beginning where the server was away, and read by its name.
func TestOutputsAreSentAndRead(t *testing.T) {
	var asked, opened atomic.Int32
	var got atomic.Value
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/runs/r%201/jobs/7/outputs/2/stdout-3" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "all of it")
			return
		}
		text, _ := io.ReadAll(r.Body)
		if asked.Add(1) == 1 {
			answer(w, http.StatusServiceUnavailable, map[string]any{"status": 503})
			return
		}
		got.Store(string(text))
		answer(w, http.StatusOK, api.Output{Name: "2/stdout-3", Size: int64(len(text))})
	})
	id := core.JobID{Run: "r 1", Index: 7}
	err := c.PutOutput(t.Context(), id, "2/stdout-3", func() (io.Reader, error) { opened.Add(1); return strings.NewReader("long text"), nil })
	if err != nil || got.Load() != "long text" || opened.Load() != 2 {
		t.Fatal(err, got.Load(), opened.Load())
	}
	r, err := c.Output(t.Context(), id, "2/stdout-3")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || r.Close() != nil || string(text) != "all of it" {
		t.Fatal(string(text), err)
	}
	if err := c.PutOutput(t.Context(), id, "stdout", nil); err == nil {
		t.Fatal("a name without a step is taken")
	}
}
