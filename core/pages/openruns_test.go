package pages

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// runLists answers as operations do, and lists runs by phase and page.
type runLists struct {
	*operations
	runs []api.Run // the newest first
}

func (l *runLists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/runs" {
		l.operations.ServeHTTP(w, r)
		return
	}
	q := r.URL.Query()
	since, _ := time.Parse(time.RFC3339Nano, q.Get("since")) // "" is no bound
	runs := slices.DeleteFunc(slices.Clone(l.runs), func(run api.Run) bool {
		other := func(name, value string) bool { return q.Get(name) != "" && q.Get(name) != value }
		return other("phase", string(run.Phase)) || other("playbook", run.Playbook) || run.Created.Before(since)
	})
	from, _ := strconv.Atoi(q.Get("cursor")) // "" is the beginning
	limit, _ := strconv.Atoi(q.Get("limit"))
	to := min(from+limit, len(runs))
	page := map[string]any{"items": runs[from:to]}
	if to < len(runs) {
		page["next"] = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// lists serves pages to an operator who is logged in.
func lists(t *testing.T, answers map[string]any, runs ...api.Run) visitor {
	t.Helper()
	answers["GET /v1/schedules"] = map[string]any{"items": []api.Schedule{}}
	answers["GET /v1/approvals"] = map[string]any{"items": []api.WindowApproval{}}
	answers["GET /v1/shares"] = map[string]any{"items": []api.Share{}}
	web, browser := site(t, &runLists{&operations{tenant: "acme", roles: []string{"operator"}, answers: answers}, runs})
	logIn(t, web, browser, "good", "/schedules")
	return visitor{t, web, browser, "acme"}
}

// The page of a run that was stopped or cancelled changes until its last host ends, and shows what
// runs there. A retry is only offered afterwards.
func TestARunIsOpenUntilItsLastHostEnds(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	page := func(path string, phase api.Phase, ended time.Time) string {
		f.mu.Lock()
		f.run.Phase, f.run.Ended = phase, ended
		f.mu.Unlock()
		_, text := get(t, browser, web.URL+path)
		return text
	}
	for _, phase := range []api.Phase{api.Stopped, api.Cancelled} {
		text := page("/runs/r1", phase, time.Time{})
		has(t, "a run with open hosts", text, `data-over="false"`, "What hosts wait for")
		lacks(t, "a run with open hosts", text, "/runs/r1/retry", "/runs/r1/pause")
		if phase == api.Stopped {
			has(t, "a stopped run", text, `action="/runs/r1/cancel"`)
		} else {
			lacks(t, "a cancelled run", text, `action="/runs/r1/cancel"`)
		}
		has(t, "a host that runs", page("/runs/r1/hosts/2", phase, time.Time{}), `data-live="/runs/r1/hosts/2/live"`)
		text = page("/runs/r1", phase, time.Unix(300, 0))
		has(t, "a complete run", text, `data-over="true"`, "/runs/r1/retry")
		lacks(t, "a complete run", text, `action="/runs/r1/cancel"`, "What hosts wait for")
		lacks(t, "a host of a complete run", page("/runs/r1/hosts/2", phase, time.Unix(300, 0)), "data-live")
	}
}

// The page of the queue has runs that were stopped or cancelled, until their last host ends.
func TestTheQueueHasRunsWithOpenHosts(t *testing.T) {
	var runs []api.Run
	for _, phase := range []api.Phase{api.Active, api.Paused, api.Stopped, api.Cancelled, api.Queued} {
		id := string(phase)
		runs = append(runs, api.Run{ID: id, Playbook: "patch", Phase: phase}, api.Run{ID: "old" + id, Playbook: "old", Phase: phase, Ended: time.Unix(300, 0)})
	}
	_, text := lists(t, map[string]any{}, runs...).get("/queue")
	has(t, "the queue", text, `href="/runs/active"`, `href="/runs/paused"`, `href="/runs/stopped"`, `href="/runs/cancelled"`)
	lacks(t, "the queue", text, "/runs/old")
}

// Active runs come first on the page of the queue, also before newer ones that are paused. A page
// that leaves runs out shows how many it has.
func TestTheQueueHasActiveRunsFirst(t *testing.T) {
	var runs []api.Run
	for i := range queueRuns {
		id := "paused-" + strconv.Itoa(i)
		runs = append(runs, api.Run{ID: id, Playbook: "patch", Phase: api.Paused, Created: time.Unix(1000-int64(i), 0)})
	}
	runs = append(runs, api.Run{ID: "active", Playbook: "patch", Phase: api.Active, Created: time.Unix(1, 0)})
	_, text := lists(t, map[string]any{}, runs...).get("/queue")
	has(t, "the queue", text, `href="/runs/active"`, "51 runs are not complete; 50 are shown and counted, active ones first.")
}

// Runs that are open stay on the overview, however many newer ones have ended. Each is there once.
func TestTheOverviewKeepsOpenRuns(t *testing.T) {
	at := time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC)
	var runs []api.Run
	add := func(id string, phase api.Phase, ended time.Time) {
		at = at.Add(-time.Minute)
		runs = append(runs, api.Run{ID: id, Playbook: "patch", Phase: phase, Created: at, Ended: ended})
	}
	phases := []api.Phase{api.Approval, api.Paused, api.Active, api.Queued, api.Stopped, api.Cancelled}
	for _, phase := range phases {
		add("new-"+string(phase), phase, time.Time{})
	}
	for i := range recentRuns {
		add("ended-"+strconv.Itoa(i), api.Finished, at)
	}
	for _, phase := range phases {
		add("old-"+string(phase), phase, time.Time{})
		add("gone-"+string(phase), phase, at)
	}
	_, text := lists(t, map[string]any{}, runs...).get("/")
	for _, phase := range phases {
		for _, id := range []string{"new-" + string(phase), "old-" + string(phase)} {
			if n := strings.Count(text, `href="/runs/`+id+`"`); n != 1 {
				t.Errorf("run %s is on the overview %d times, expected once", id, n)
			}
		}
	}
	lacks(t, "the overview", text, "/runs/gone-")
	has(t, "the overview", text, "Older runs are left out")
}

// A stopped run stays on the overview behind many newer runs, until its playbook is launched again
// by its tenant.
func TestTheOverviewKeepsStoppedRuns(t *testing.T) {
	at := time.Now()
	var runs []api.Run
	add := func(id, tenant, playbook string, phase api.Phase) {
		at = at.Add(-time.Minute)
		runs = append(runs, api.Run{ID: id, Tenant: tenant, Playbook: playbook, Phase: phase, Created: at, Ended: at})
	}
	for i := range recentRuns {
		add("good-"+strconv.Itoa(i), "acme", "often", api.Finished)
	}
	add("globex", "globex", "patch", api.Finished)
	add("stopped", "acme", "patch", api.Stopped)
	add("before", "acme", "patch", api.Stopped)
	add("repeated", "acme", "users", api.Finished)
	add("was-stopped", "acme", "users", api.Stopped)
	add("often", "acme", "often", api.Stopped)
	_, text := lists(t, map[string]any{}, runs...).get("/")
	waiting, _, _ := strings.Cut(text, `id="active"`)
	has(t, "what waits", waiting, `href="/runs/stopped"`, "A stopped run is here for 7 days, or until its playbook is launched again.")
	lacks(t, "the overview", text, "/runs/before", "/runs/was-stopped", "/runs/often", "/runs/globex")
}
