//go:build linux && labs

package pages

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// endingHost is a run whose host 2 writes a line, and ends when a test closes end.
type endingHost struct {
	*fakeAPI
	end   chan struct{}
	ended atomic.Bool
}

func (e *endingHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/runs/r1/jobs/2" && e.ended.Load():
		_ = json.NewEncoder(w).Encode(api.Job{Run: "r1", Index: 2, Host: "web2", Outcome: core.Failed, Step: "look", Steps: []api.StepResult{{Name: "look", Outcome: core.Failed, Reason: hostile}}})
	case r.URL.Path == "/v1/runs/r1/jobs/2/events":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: output\ndata: {\"event\":\"output\",\"stdout\":\"first line\\n\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-e.end:
		case <-r.Context().Done():
			return
		}
		e.ended.Store(true)
		fmt.Fprint(w, "event: job_done\ndata: {\"event\":\"job_done\",\"result\":{\"outcome\":\"failed\"}}\n\n")
	default:
		e.fakeAPI.ServeHTTP(w, r)
	}
}

// When a host ends, its open page shows the outcome and the steps. The lines that somebody reads
// stay, and the focus is where the facts are.
func TestLabALogShowsTheOutcome(t *testing.T) {
	e := &endingHost{fakeAPI: newFake(), end: make(chan struct{})}
	p, err := New(Config{API: e, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	tab := tabs(t, web.URL, "good", "/")[0]
	if err := chromedp.Do(tab, chromedp.Navigate(web.URL+"/runs/r1/hosts/2")); err != nil {
		t.Fatal(err)
	}
	waitFor(tab, t, `document.querySelector("#lines li")?.textContent === "first line"`)
	if inPage[bool](tab, t, `document.querySelector("#facts a").focus() || document.getElementById("steps") !== null`) {
		t.Fatal("a host at work has steps")
	}
	close(e.end)
	waitFor(tab, t, `document.querySelector("#facts .reason")?.textContent.includes("<script>")`)
	if text := inPage[string](tab, t, `document.getElementById("facts").innerText`); len(text) == 0 || !inPage[bool](tab, t, `document.querySelector("#facts dl .o.failed") !== null`) {
		t.Errorf("the page shows %q", text)
	}
	waitFor(tab, t, `document.getElementById("follow").textContent.includes("has its outcome.")`)
	if !inPage[bool](tab, t, `document.querySelector("#lines li").textContent === "first line" && document.activeElement.id === "facts"`) {
		t.Error("the lines that are read are gone, or the focus is")
	}
}
