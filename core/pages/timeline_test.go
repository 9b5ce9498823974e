package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The page of a run has its timeline also in words: when waves begin and end, and windows. The part
// alone has the same, for a page that is open.
func TestTimelineInWords(t *testing.T) {
	at := time.Date(2026, 12, 6, 3, 0, 0, 0, time.UTC)
	o := waitingAPI(t, 25, "viewer")
	o.set("GET /v1/runs/r0/timeline", api.Timeline{
		Run: "r0", Hosts: 100, From: at, To: at.Add(9 * time.Hour), Done: []api.TimelinePoint{{At: at, Hosts: 25}},
		Waves: []api.TimelineWave{
			{Wave: 1, Hosts: 25, Done: 25, From: at, To: at.Add(time.Hour)},
			{Wave: 2, Hosts: 75, From: at.Add(2 * time.Hour), To: at.Add(3 * time.Hour), Late: at.Add(4 * time.Hour)},
		},
		Windows: []api.TimelineSet{{Set: hostile, Hosts: 7, Windows: []api.TimelineSpan{{From: at.Add(5 * time.Hour), To: at.Add(6 * time.Hour)}}}},
	})
	v := visits(t, o)
	for _, path := range []string{"/runs/r0", "/runs/r0/timeline"} {
		_, text := v.get(path)
		has(t, path, text, "25 of 100 hosts done, 2 waves", `>1</a></th><td class="n">25</td><td class="n">25</td>`, "03:00:00 UTC", "04:00:00 UTC", `>2</a></th><td class="n">75</td><td class="n">0</td>`, "05:00:00 UTC", "06:00:00 UTC", "07:00:00 UTC", "08:00:00 UTC", "09:00:00 UTC", "&lt;script&gt;")
		lacks(t, path, text, "more are left out", "<script>alert", "<img src=x")
	}
	_, text := v.get("/runs/r0")
	has(t, "the page", text, "<summary>Timeline in words</summary>", "the same in words below")
	many := make([]api.TimelineWave, 300)
	for i := range many {
		many[i] = api.TimelineWave{Wave: i + 1, Hosts: 1}
		if i < 200 {
			many[i].Done = 1
		}
	}
	o.set("GET /v1/runs/r0/timeline", api.Timeline{Run: "r0", Hosts: 300, Waves: many})
	_, text = v.get("/runs/r0/timeline")
	has(t, "of many waves those around the first that is open", text, `>151</a></th>`, `>250</a></th>`, "200 more are left out")
	lacks(t, "of many waves those around the first that is open", text, `>150</a></th>`, `>251</a></th>`)
	o.set("GET /v1/runs/r0/timeline", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	_, text = v.get("/runs/r0")
	has(t, "without a timeline", text, "The timeline cannot be shown: the ledger is away", "Hosts and steps")
	if status, _ := v.get("/runs/globex1/timeline"); status != http.StatusNotFound {
		t.Errorf("another tenant's timeline: %d", status)
	}
}

// A page does not wait for a timeline that takes long, and links to it.
func TestTimelineThatIsLate(t *testing.T) {
	p, err := New(Config{API: waitingAPI(t, 25, "viewer")})
	if err != nil {
		t.Fatal(err)
	}
	v := visit{client: p.client(&http.Request{Host: "turnus.example.net"}, "good")}
	if view := timelineOf(t.Context(), v, "r0", -time.Second); !view.Late || view.Problem != "" {
		t.Errorf("%+v", view)
	}
}

// The picture of a run zooms to the hosts of a wave, to which the timeline in words links.
func TestPictureOfAWave(t *testing.T) {
	o := &operations{roles: []string{"viewer"}, answers: map[string]any{"GET /v1/runs/r0": api.Run{ID: "r0", Playbook: "patch", Total: 2}}}
	o.set("GET /v1/runs/r0/timeline", api.Timeline{Run: "r0", Hosts: 2, Waves: []api.TimelineWave{{Wave: 1, Hosts: 1}, {Wave: 2, Hosts: 1}}, OfWave: &api.WaveHosts{Wave: 2, Hosts: []api.TimelineHost{{Host: "web2"}}}})
	var wave string
	web, browser := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/r0/timeline" {
			wave = r.URL.Query().Get("wave")
		}
		o.ServeHTTP(w, r)
	}))
	logIn(t, web, browser, "good", "/settings")
	_, text := get(t, browser, web.URL+"/runs/r0/timeline")
	if has(t, "in words", text, `<a href="/runs/r0/timeline.svg?wave=2">2</a>`); wave != "" {
		t.Errorf("the words ask for wave %s", wave)
	}
	resp, text := get(t, browser, web.URL+"/runs/r0/timeline.svg?wave=2")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "image/svg+xml" || wave != "2" || !strings.Contains(text, "web2: no outcome") {
		t.Errorf("%d, asked for wave %q: %s", resp.StatusCode, wave, text)
	}
	for _, bad := range []string{"x", "0", "-1"} {
		if resp, text := get(t, browser, web.URL+"/runs/r0/timeline.svg?wave="+bad); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, "expected a number from 1") {
			t.Errorf("wave %s: %d %s", bad, resp.StatusCode, text)
		}
	}
}
