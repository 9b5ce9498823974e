package pages

import (
	"net/http"
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
		has(t, path, text, "25 of 100 hosts done, 2 waves", `<th scope="row">1</th><td class="n">25</td><td class="n">25</td>`, "03:00:00 UTC", "04:00:00 UTC", `<th scope="row">2</th><td class="n">75</td><td class="n">0</td>`, "05:00:00 UTC", "06:00:00 UTC", "07:00:00 UTC", "08:00:00 UTC", "09:00:00 UTC", "&lt;script&gt;")
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
	has(t, "of many waves those around the first that is open", text, `<th scope="row">151</th>`, `<th scope="row">250</th>`, "200 more are left out")
	lacks(t, "of many waves those around the first that is open", text, `<th scope="row">150</th>`, `<th scope="row">251</th>`)
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
