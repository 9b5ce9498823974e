package runview

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// A person who begins to watch after hosts failed sees why they did; an event of such a host does
// not count it again.
func TestEarlierFailuresAreShownOnce(t *testing.T) {
	jobs := []api.Job{
		{Run: "r1", Index: 0, Host: "web1", Outcome: core.Failed, Step: "push", Reason: "no such rule"},
		{Run: "r1", Index: 4, Host: "web5", Outcome: core.Failed, Step: "push", Reason: "no such rule"},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Query().Get("outcome") != string(core.Failed) {
			t.Errorf("asked for %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(client.List[api.Job]{Items: jobs})
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	w := &watcher{con: console.New(strings.NewReader(""), io.Discard, &said), c: c, id: "r1", t: NewTally(Outline{Total: 3000}), reported: map[string]bool{}}
	w.earlier(t.Context(), api.Run{ID: "r1", Total: 3000, Outcomes: map[core.Outcome]int{core.Changed: 5}})
	w.earlier(t.Context(), api.Run{ID: "r1", Total: 3000, Outcomes: map[core.Outcome]int{core.Failed: maxEarlier + 1}})
	if asked != 0 {
		t.Errorf("%d requests, expected 0 if no host failed, and if too many did", asked)
	}
	w.earlier(t.Context(), api.Run{ID: "r1", Total: 3000, Outcomes: map[core.Outcome]int{core.Failed: 2}})
	w.event(api.Event{Event: "job_started", Job: "r1/4", Host: "web5"})
	w.event(api.Event{Event: api.JobDone, Job: "r1/4", Result: &api.Result{Host: "web5", Outcome: core.Failed, Step: "push", Reason: "no such rule"}})
	if p := w.t.snapshot(1); asked != 1 || p.running != 0 || len(p.failures) != 1 || p.failures[0].hosts != 2 || strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "web1: push: no such rule") {
		t.Errorf("%d requests, %+v, %q", asked, p.failures, said.String())
	}
}

// The kind of a run decides whether its hosts are shown in groups, as for other views. Control: a
// run of a playbook shows them one by one.
func TestTheKindOfARunDecidesItsView(t *testing.T) {
	for kind, grouped := range map[string]bool{api.KindExec: true, api.KindHostKeys: false, "": false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/runs/r1" { // its events
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_ = json.NewEncoder(w).Encode(api.Run{ID: "r1", Kind: kind, Phase: api.Finished, Ended: time.Now()})
		}))
		c, err := client.New(client.Config{Server: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := follow(t.Context(), console.New(strings.NewReader(""), io.Discard, io.Discard), c, "r1", false)
		server.Close()
		if err != nil || w.grouped != grouped {
			t.Errorf("kind %q: %+v, %v", kind, w, err)
		}
	}
}
