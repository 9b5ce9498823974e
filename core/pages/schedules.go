package pages

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// listed is how many schedules, playbooks, window sets or calendar feeds a page has.
const listed = 100

// scheduleDeedsShown is how many actions of people the page of a schedule has.
const scheduleDeedsShown = 20

// maxForm bounds what a form sends.
const maxForm = 64 << 10

// scheduleRoutes registers the pages of schedules.
func (p *Pages) scheduleRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /schedules", p.signedIn(p.livePage("/schedules")))
	mux.HandleFunc("GET /schedules/{schedule}", p.signedIn(p.schedule))
	mux.HandleFunc("POST /schedules/{schedule}/{verb}", p.signedIn(p.actOnSchedule))
}

func readSchedules(ctx context.Context, v visit, q url.Values) (any, error) {
	return v.client.Schedules(ctx, client.Page{Cursor: q.Get("cursor"), Limit: listed})
}

// scheduleFacts is a schedule, and what was just done to it.
type scheduleFacts struct {
	Schedule api.Schedule
	Done     string // an action that was just taken
	Run      string // that a trigger launched
	Runs     string // that a backfill launches
	Deeds    []deed // the newest first
	Unseen   string // why Deeds is not shown
}

// scheduleView is a schedule with its launch of now. It stays as it was loaded, so that a form
// launches what its reader saw.
type scheduleView struct {
	Schedule api.Schedule
	Plan     *api.Plan // nil: Unknown is why
	Unknown  string
	Key      string // of a trigger
	Problem  string // why a trigger launched nothing
	Backfill backfillView
}

// Wide reports whether a trigger needs the number of hosts.
func (view scheduleView) Wide() bool {
	return view.Plan != nil && wide(view.Plan.Hosts, view.Plan.Disruptive, view.Plan.Check)
}

// untriggered explains why a form does not confirm a trigger that would do what view shows; ""
// where it does.
func (view scheduleView) untriggered(sent url.Values) (status int, problem string) {
	hosts := 0
	if view.Plan != nil {
		hosts = view.Plan.Hosts
		if seen := sent.Get("hosts"); seen != strconv.Itoa(hosts) {
			return http.StatusConflict, fmt.Sprintf("Nothing was launched: the page had %q hosts, and a trigger is for %s now. Trigger again.", seen, core.Plural(hosts, "host"))
		}
	}
	return http.StatusUnprocessableEntity, unconfirmed(sent, "host", hosts, view.Wide())
}

func (p *Pages) schedule(w http.ResponseWriter, r *http.Request, v visit) {
	p.showLive(w, r, v, schedulePage(r.PathValue("schedule")))
}

func schedulePage(name string) *livePage {
	read := func(ctx context.Context, v visit, q url.Values) (any, error) {
		schedule, err := v.client.Schedule(ctx, name)
		if err != nil {
			return nil, err
		}
		facts := scheduleFacts{Schedule: schedule, Done: q.Get("done"), Run: q.Get("run"), Runs: q.Get("runs")}
		entries, err := v.client.Audit(ctx, client.AuditFilter{Kind: "schedule", Object: schedule.Name}, client.Page{Limit: deedsShown})
		if err != nil { // one panel that fails leaves the rest
			facts.Unseen = reasonOf(err)
		}
		facts.Deeds = scheduleDeeds(entries.Items, schedule.Tenant)
		facts.Deeds = facts.Deeds[:min(len(facts.Deeds), scheduleDeedsShown)]
		return facts, nil
	}
	launches := func(ctx context.Context, v visit, q url.Values) any {
		view, err := scheduleOf(ctx, v, name)
		if err != nil {
			view.Unknown = reasonOf(err)
		} else if q.Has("from") && v.who.Operates() {
			view.Backfill = backfillOf(ctx, v, view, q)
		}
		return view
	}
	_, title, _ := strings.Cut(name, ":")
	return &livePage{template: "schedule", title: cmp.Or(title, name), topics: []api.Topic{api.TopicSchedules, api.TopicProject}, read: read, below: launches}
}

// notLaunched shows a schedule again, with why a form launched nothing.
func (p *Pages) notLaunched(w http.ResponseWriter, r *http.Request, v visit, status int, name string, view scheduleView) {
	one := schedulePage(name)
	facts, err := one.read(r.Context(), v, nil)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.showWith(w, status, v, one, "/schedules/"+url.PathEscape(name), facts, view)
}

// scheduleOf reads a schedule. For people who may trigger it, the page shows what that does.
func scheduleOf(ctx context.Context, v visit, name string) (scheduleView, error) {
	view := scheduleView{Key: rand.Text()}
	var err error
	if view.Schedule, err = v.client.Schedule(ctx, name); err != nil || !v.who.Operates() || view.Schedule.Damaged != "" {
		return view, err
	}
	plan, err := v.client.PlanSchedule(ctx, name)
	if err != nil { // one panel that fails leaves the rest
		view.Unknown = reasonOf(err)
		return view, nil
	}
	view.Plan = &plan
	return view, nil
}

// actOnSchedule does the action of a button, and shows the schedule again.
func (p *Pages) actOnSchedule(w http.ResponseWriter, r *http.Request, v visit) {
	name, verb, reason := r.PathValue("schedule"), r.PathValue("verb"), r.PostFormValue("reason")
	back := url.Values{"done": {verb}}
	if verb == "trigger" && v.who.Operates() { // the API refuses others
		view, err := scheduleOf(r.Context(), v, name)
		if err != nil {
			p.problem(w, r, v, err)
			return
		}
		var status int
		if status, view.Problem = view.untriggered(r.PostForm); view.Problem != "" {
			p.notLaunched(w, r, v, status, name, view)
			return
		}
	}
	if verb == "backfill" { // which asks the API first
		p.backfill(w, r, v, name)
		return
	}
	var err error
	switch verb {
	case "pause":
		_, err = v.client.PauseSchedule(r.Context(), name, reason)
	case "resume":
		_, err = v.client.ResumeSchedule(r.Context(), name, reason)
	case "trigger":
		var launched api.Launched
		launched, err = v.client.TriggerSchedule(r.Context(), name, r.PostFormValue("key"), reason)
		back.Set("run", launched.Run)
	default:
		p.show(w, http.StatusNotFound, "problem", v, "Not found", "a schedule has no action "+verb)
		return
	}
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/schedules/"+url.PathEscape(name)+"?"+back.Encode(), http.StatusSeeOther)
}
