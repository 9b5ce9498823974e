package pages

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The page of a run shows when it will end and what binds that, beside the picture. The part alone
// has the same, for a page that is open. A run that is over has no forecast.
func TestForecastOfARun(t *testing.T) {
	at := time.Date(2026, 12, 6, 3, 0, 0, 0, time.UTC)
	o := waitingAPI(t, 25, "viewer")
	o.set("GET /v1/runs/r0/forecast", api.Forecast{Run: "r0", Hosts: 75, FinishP50: at, FinishP90: at.Add(time.Hour), Notes: []string{hostile}, Binds: &api.Binds{Cause: "concurrency", Text: "concurrency of the workers", Gain: 1500, Hosts: 2}})
	v := visits(t, o)
	for _, path := range []string{"/runs/r0", "/runs/r0/forecast"} {
		_, text := v.get(path)
		has(t, path, text, "2026-12-06 03:00:00 UTC</time> in half of the cases (P50), <time ", "2026-12-06 04:00:00 UTC</time> in 9 of 10 (P90); 75 hosts left", "concurrency of the workers: 25 min earlier without it; 2 more hosts would end without it", "&lt;script&gt;")
		lacks(t, path, text, "<script>", "<img src=x", "data-late")
	}
	o.set("GET /v1/runs/r0/forecast", api.Problem{Status: http.StatusUnprocessableEntity, Detail: "no job type"})
	_, text := v.get("/runs/r0")
	has(t, "without a forecast", text, "The forecast cannot be shown: no job type", "Steps", "Timeline")
	if status, _ := v.get("/runs/globex1/forecast"); status != http.StatusNotFound {
		t.Errorf("another tenant's forecast: %d", status)
	}
	o.set("GET /v1/runs/r0", api.Run{ID: "r0", Playbook: "shop", Phase: api.Finished, Ended: at.Add(2 * time.Hour), Expected: &api.Expectation{FinishP50: at, FinishP90: at.Add(time.Hour)}})
	_, text = v.get("/runs/r0")
	has(t, "a run that is over", text, "2026-12-06 03:00:00 UTC</time> in half of the cases (P50), by <time", "2026-12-06 04:00:00 UTC</time> in 9 of 10 (P90): it ended 1h0m after its P90")
	lacks(t, "a run that is over", text, "Ends by", "The forecast cannot be shown")
}

// A page does not wait for a forecast that takes long, and links to it.
func TestForecastThatIsLate(t *testing.T) {
	o := waitingAPI(t, 25, "viewer")
	p, err := New(Config{API: o})
	if err != nil {
		t.Fatal(err)
	}
	v := visit{client: p.client(&http.Request{Host: "turnus.example.net"}, "good")}
	if view := forecastOf(t.Context(), v, api.Run{ID: "r0"}, -time.Second); !view.Late || view.Problem != "" {
		t.Errorf("%+v", view)
	}
	if view := forecastOf(t.Context(), v, api.Run{ID: "r0"}, time.Hour); view.Late || view.Problem == "" {
		t.Errorf("not found: %+v", view)
	}
}
