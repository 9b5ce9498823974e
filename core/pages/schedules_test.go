package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

func acmeSchedule() api.Schedule {
	at := time.Date(2026, 12, 7, 2, 0, 0, 0, time.UTC)
	s := api.Schedule{
		Name: "night", Tenant: "acme", Playbook: "patch", Sentence: "At 03:00 on Monday.", Timezone: "Europe/Berlin", Cron: "0 3 * * 1", Next: at, NextLocal: "Mon 2026-12-07 03:00 CET",
		LastSkip: "the run before is not over", LastSkipAt: at.AddDate(0, 0, -7), CatchUp: "skip", Triggers: 7, LastRun: "r0", LastTrigger: at.AddDate(0, 0, -14),
	}
	for i := range 5 {
		next := at.AddDate(0, 0, 7*i)
		s.Upcoming = append(s.Upcoming, api.FireTime{At: next, Local: next.Add(time.Hour).Format("Mon 2006-01-02 15:04") + " CET"})
	}
	return s
}

func scheduleAPI(roles ...string) *operations {
	s := acmeSchedule()
	paused := s
	paused.Paused, paused.PauseReason, paused.Upcoming = true, "freeze", nil
	return &operations{roles: roles, tenant: "acme", answers: map[string]any{
		"GET /v1/schedules":                     map[string]any{"items": []api.Schedule{s}},
		"GET /v1/schedules/acme:night":          s,
		"POST /v1/schedules/acme:night/pause":   paused,
		"POST /v1/schedules/acme:night/resume":  s,
		"POST /v1/schedules/acme:night/trigger": api.Launched{Run: "acme:night-t1"},
		"POST /v1/schedules/acme:night/plan":    api.Plan{Playbook: "patch", Hosts: 12, Waves: []api.PlanWave{{Wave: 1, Total: 2}, {Wave: 2, Total: 10}}},
	}}
}

func TestSchedules(t *testing.T) {
	o := scheduleAPI("operator")
	v := visits(t, o)
	_, text := v.get("/schedules")
	has(t, "the list", text, `href="/schedules/acme:night"`, "At 03:00 on Monday.", "Europe/Berlin", "Mon 2026-12-07 03:00 CET", "the run before is not over", "2026-11-30 02:00:00 UTC")
	_, text = v.get("/schedules/acme:night")
	has(t, "a schedule", text, "Mon 2027-01-04 03:00 CET", "2027-01-04 02:00:00 UTC", "7 times", "are skipped", "on 12 hosts in 2 waves", "Trigger on 12 hosts")
	lacks(t, "a schedule without them", text, "<dt>Tags", "<dt>Skipped tags", "<dt>Hosts at the same time", "<dt>Params")
	has(t, "a schedule", text, "continues</dt><dd>the fire time is skipped")
	more := acmeSchedule()
	more.Tags, more.SkipTags, more.MaxInFlight, more.Overlap, more.Params = []string{"only"}, []string{"slow"}, 7, "cancel_running", map[string]any{"release": "r9"}
	o.set("GET /v1/schedules/acme:night", more)
	_, all := v.get("/schedules/acme:night")
	has(t, "what it launches", all, "<dt>Tags</dt><dd><code>only<", "<dt>Skipped tags</dt><dd><code>slow<", "<dt>Hosts at the same time</dt><dd>7<", "continues</dt><dd>that one is cancelled", "<dt>Params</dt><dd><code>release=r9<")
	more.LeftOut = []string{"limit", "vars.db_password"}
	o.set("GET /v1/schedules/acme:night", more)
	_, withheld := v.get("/schedules/acme:night")
	has(t, "a schedule that is not shown whole", withheld, "<dt>Not shown</dt><dd><code>limit</code> <code>vars.db_password</code>", "on 12 hosts in 2 waves", "Trigger on 12 hosts")
	lacks(t, "a schedule that is shown whole", all, "<dt>Not shown")
	if n := strings.Count(text, " CET <small>"); n != 5 {
		t.Errorf("%d fire times, expected 5: %s", n, text)
	}
	if status, _ := v.get("/schedules/globex:night"); status != http.StatusNotFound {
		t.Errorf("another tenant's schedule: %d", status)
	}
	damaged := api.Schedule{Name: "torn", Tenant: "acme", Timezone: "UTC", Damaged: "its kept data cannot be read\nhint: turnus schedules rm acme:torn; then set it again"}
	o.set("GET /v1/schedules", map[string]any{"items": []api.Schedule{acmeSchedule(), damaged}})
	o.set("GET /v1/schedules/acme:torn", damaged)
	_, text = v.get("/schedules")
	has(t, "a list with a damaged one", text, "At 03:00 on Monday.", `href="/schedules/acme:torn"`, "damaged: its kept data cannot be read\nhint: turnus schedules rm acme:torn")
	_, text = v.get("/schedules/acme:torn")
	has(t, "a damaged one", text, "It is damaged, and launches nothing: its kept data cannot be read", "All audit entries")
	lacks(t, "a damaged one", text, "Launch now", "<button>Pause", "Next fire times")
	o.set("GET /v1/schedules", map[string]any{"items": []api.Schedule{}})
	_, text = v.get("/schedules")
	has(t, "an empty list", text, "There is no schedule", "turnus schedules set")
}

// A pause is undone by one button; a trigger shows what it does, and is sent once.
func TestActionsOnASchedule(t *testing.T) {
	o := scheduleAPI("operator")
	v := visits(t, o)
	_, text := v.get("/schedules/acme:night")
	key := between(t, text, `name="key" value="`, `"`)
	o.set("GET /v1/schedules/acme:night", o.answers["POST /v1/schedules/acme:night/pause"])
	_, at, text := v.post("/schedules/acme:night/pause", url.Values{"reason": {"freeze"}})
	if at != "/schedules/acme:night?done=pause" {
		t.Errorf("after a pause: %s", at)
	}
	has(t, "a paused schedule", text, "paused: freeze", `action="/schedules/acme:night/resume"`, "<button>Undo</button>", "None while the schedule is paused")
	o.set("GET /v1/schedules/acme:night", acmeSchedule())
	_, _, text = v.post("/schedules/acme:night/resume", nil)
	has(t, "a resumed schedule", text, "The schedule is resumed")
	lacks(t, "a resumed schedule", text, "Undo")
	_, _, text = v.post("/schedules/acme:night/trigger", url.Values{"key": {key}, "reason": {"CHG7"}, "hosts": {"12"}})
	has(t, "a triggered schedule", text, `href="/runs/acme:night-t1"`)
	var triggers []operation
	for _, c := range o.changes() {
		if strings.HasSuffix(c.path, "/trigger") {
			triggers = append(triggers, c)
		}
	}
	if len(triggers) != 1 || triggers[0].key != key || triggers[0].body["reason"] != "CHG7" {
		t.Errorf("%+v, expected one with the key %s", triggers, key)
	}
	if status, _, _ := v.post("/schedules/acme:night/delete", nil); status != http.StatusNotFound {
		t.Errorf("an action that is none: %d", status)
	}
}

// A trigger needs a reason and the hosts of the page; a wide one also their number. Control: with
// them it launches.
func TestTriggerIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		plan api.Plan
		form string
		want int
	}{
		{api.Plan{Hosts: 12}, "key=k&hosts=12", http.StatusUnprocessableEntity},
		{api.Plan{Hosts: 12}, "key=k&hosts=11&reason=x", http.StatusConflict},
		{api.Plan{Hosts: 12}, "key=k&hosts=12&reason=x", http.StatusOK},
		{api.Plan{Hosts: 12, Disruptive: true}, "key=k&hosts=12&reason=x", http.StatusUnprocessableEntity},
		{api.Plan{Hosts: 100}, "key=k&hosts=100&reason=x&typed=99", http.StatusUnprocessableEntity},
		{api.Plan{Hosts: 100}, "key=k&hosts=100&reason=x&typed=100", http.StatusOK},
		{api.Plan{Hosts: 100, Check: true}, "key=k&hosts=100&reason=x", http.StatusOK},
	} {
		o := scheduleAPI("operator")
		o.set("POST /v1/schedules/acme:night/plan", c.plan)
		v := visits(t, o)
		_, text := v.get("/schedules/acme:night")
		if asks := strings.Contains(text, "Type the number of hosts"); asks != wide(c.plan.Hosts, c.plan.Disruptive, c.plan.Check) {
			t.Errorf("%+v: it asks for the number: %t", c.plan, asks)
		}
		form, _ := url.ParseQuery(c.form) // of this test
		status, _, text := v.post("/schedules/acme:night/trigger", form)
		launched := slices.ContainsFunc(o.changes(), func(c operation) bool { return strings.HasSuffix(c.path, "/trigger") })
		if status != c.want || launched != (c.want == http.StatusOK) {
			t.Errorf("%s of %+v: status %d, expected %d; launched: %t", c.form, c.plan, status, c.want, launched)
		}
		if c.want != http.StatusOK {
			has(t, c.form, text, `role="alert">Nothing was `)
		}
	}
}

// A backfill shows how many runs on how many hosts it launches, is asked for once, and launches the
// range that was shown. A range of another size than the page had is refused.
func TestBackfillIsShownFirst(t *testing.T) {
	const path = "/schedules/acme:night"
	o := scheduleAPI("operator")
	o.set("POST /v1/schedules/acme:night/backfill", api.Backfilled{Triggers: 9, Before: 2})
	v := visits(t, o)
	_, text := v.get(path + "?from=2026-11-01T00:00&to=2026-11-30T00:00")
	has(t, "a backfill", text, "9 runs, one after the other, each on 12 hosts: 108 host tasks", "2 fire times of the range have runs, and are not repeated", "Type the number of host tasks, 108", ">Launch 9 runs<")
	if b := o.changes()[len(o.changes())-1].body; b["dry_run"] != true || b["from"] != "2026-11-01T00:00:00Z" {
		t.Fatalf("the page asked for %v", b)
	}
	form := formIn(t, text, path+`/backfill" method="post`)
	launched := func() (last map[string]any) {
		for _, c := range o.changes() {
			if strings.HasSuffix(c.path, "/backfill") && c.body["dry_run"] == nil {
				last = c.body
			}
		}
		return last
	}
	for _, c := range []struct {
		reason, typed, runs string
		status              int
	}{{"", "108", "9", 422}, {"CHG7", "12", "9", 422}, {"CHG7", "108", "8", 409}, {"CHG7", "108", "9", 200}} {
		form.Set("reason", c.reason)
		form.Set("typed", c.typed)
		form.Set("runs", c.runs)
		status, _, text := v.post(path+"/backfill", form)
		if got := launched(); status != c.status || (got != nil) != (c.status == 200) {
			t.Errorf("%+v: %d, launched %v", c, status, got)
		}
		if c.status == 200 {
			has(t, "a launched backfill", text, "The runs of 9 fire times are launched")
		}
	}
	if b := launched(); b["reason"] != "CHG7" || b["to"] != "2026-11-30T00:00:00Z" {
		t.Errorf("launched %v", b)
	}
	o.set("POST /v1/schedules/acme:night/backfill", api.Backfilled{Before: 1})
	_, text = v.get(path + "?from=2026-11-01T00:00&to=2026-11-02T00:00")
	has(t, "nothing to launch", text, "Nothing to launch: 1 fire time of the range has a run")
	_, text = v.get(path + "?from=yesterday&to=")
	has(t, "no time", text, "&#34;yesterday&#34; is not a time")
	o.set("POST /v1/schedules/acme:night/backfill", api.Problem{Status: http.StatusConflict, Detail: "it reaches other hosts"})
	_, text = v.get(path + "?from=2026-11-01T00:00&to=2026-11-02T00:00")
	has(t, "a refused range", text, `role="alert">it reaches other hosts`)
}

// A person who may not act has no button, and asks for no plan.
func TestSchedulesOfAViewer(t *testing.T) {
	o := scheduleAPI("viewer")
	v := visits(t, o)
	_, text := v.get("/schedules/acme:night")
	lacks(t, "a viewer's schedule", text, "Trigger", "Pause", `method="post" action="/schedules`)
	if n := len(o.changes()); n != 0 {
		t.Errorf("a viewer's page made %d requests that are no reads", n)
	}
	o.set("POST /v1/schedules/acme:night/backfill", api.Problem{Status: http.StatusForbidden, Detail: "it needs the role operator"})
	form := url.Values{"from": {"2026-11-01T00:00"}, "to": {"2026-11-30T00:00"}, "runs": {"9"}, "hosts": {"12"}, "reason": {"x"}}
	if status, _, text := v.post("/schedules/acme:night/backfill", form); status != http.StatusForbidden || !strings.Contains(text, "it needs the role operator") {
		t.Errorf("a viewer's backfill: %d %s", status, text)
	}
}

// Where nobody knows what a trigger would do, the page shows why, and the rest.
func TestScheduleWithoutAPlan(t *testing.T) {
	o := scheduleAPI("operator")
	o.set("POST /v1/schedules/acme:night/plan", api.Problem{Status: http.StatusUnprocessableEntity, Detail: "no window fits"})
	_, text := visits(t, o).get("/schedules/acme:night")
	has(t, "a schedule", text, "is not known: no window fits", "At 03:00 on Monday.")
}

func TestTextOfSchedulesIsNoMarkup(t *testing.T) {
	s := acmeSchedule()
	s.Name, s.Playbook, s.Sentence, s.LastSkip, s.PauseReason, s.NextLocal = hostile, hostile, hostile, hostile, hostile, hostile
	s.Limit, s.Vars = []string{hostile}, map[string]any{hostile: hostile}
	o := scheduleAPI("operator")
	o.set("GET /v1/schedules", map[string]any{"items": []api.Schedule{s}})
	o.set("GET /v1/schedules/acme:night", s)
	o.set("POST /v1/schedules/acme:night/plan", api.Plan{Playbook: hostile, Hosts: 1})
	v := visits(t, o)
	for _, path := range []string{"/schedules", "/schedules/acme:night"} {
		_, text := v.get(path)
		harmless(t, path, text)
	}
}

// between is the text between two others.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	found, _, end := strings.Cut(rest, to)
	if !ok || !end {
		t.Fatalf("no %q: %s", from, text)
	}
	return found
}
