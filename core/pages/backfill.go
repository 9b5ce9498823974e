package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/turnus/turnus/core/api"
)

// backfillView is a range of the past, and the runs that a backfill of it launches.
type backfillView struct {
	From, To string // as typed
	Asked    bool   // Runs and Before are known
	Runs     int    // to launch
	Before   int    // fire times of the range that have a run
	Hosts    int    // of each run; 0 is not known
	Wide     bool   // the number of host tasks is typed
	Problem  string

	from, to time.Time
	status   int // of the API's refusal; 0: there is none
}

// Tasks is the host tasks of all runs.
func (b backfillView) Tasks() int { return b.Runs * b.Hosts }

// backfillOf asks what a backfill of the range in a form launches.
func backfillOf(ctx context.Context, v visit, schedule scheduleView, sent url.Values) backfillView {
	b := backfillView{From: sent.Get("from"), To: sent.Get("to")}
	if b.from, b.to, b.Problem = rangeTyped(b.From, b.To); b.Problem != "" {
		return b
	}
	plan, err := v.client.BackfillSchedule(ctx, nameOf(schedule.Schedule), api.Backfill{From: b.from, To: b.to, DryRun: true})
	if err != nil {
		b.Problem = reasonOf(err)
		b.status, _ = statusOf(err)
		return b
	}
	b.Asked, b.Runs, b.Before = true, plan.Triggers, plan.Before
	if p := schedule.Plan; p != nil {
		b.Hosts = p.Hosts
		b.Wide = b.Runs > 0 && wide(b.Tasks(), p.Disruptive, p.Check)
	}
	return b
}

// nameOf names a schedule to the API.
func nameOf(s api.Schedule) string { return s.Tenant + ":" + s.Name }

// unconfirmed explains why a form does not confirm the backfill; "" where it does.
func (b backfillView) unconfirmed(sent url.Values) (status int, problem string) {
	switch {
	case b.Problem != "":
		return cmp.Or(b.status, http.StatusUnprocessableEntity), b.Problem
	case b.Runs == 0:
		return http.StatusUnprocessableEntity, "Nothing was launched: each fire time of this range has a run, or there is none in it."
	}
	for name, now := range map[string]int{"runs": b.Runs, "hosts": b.Hosts} {
		if seen := sent.Get(name); seen != strconv.Itoa(now) {
			return http.StatusConflict, fmt.Sprintf("Nothing was launched: the page had %q %s, and there are %d now. Read the range again.", seen, name, now)
		}
	}
	return http.StatusUnprocessableEntity, unconfirmed(sent, "host task", b.Tasks(), b.Wide)
}

// backfill launches what the form shows, and shows the schedule again.
func (p *Pages) backfill(w http.ResponseWriter, r *http.Request, v visit, name string) {
	view, err := scheduleOf(r.Context(), v, name)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	view.Backfill = backfillOf(r.Context(), v, view, r.PostForm)
	var status int
	if status, view.Problem = view.Backfill.unconfirmed(r.PostForm); view.Problem != "" {
		p.notLaunched(w, r, v, status, name, view)
		return
	}
	b := view.Backfill
	if _, err := v.client.BackfillSchedule(r.Context(), name, api.Backfill{From: b.from, To: b.to, Reason: r.PostForm.Get("reason")}); err != nil {
		p.problem(w, r, v, err)
		return
	}
	back := url.Values{"done": {"backfill"}, "runs": {strconv.Itoa(b.Runs)}}
	http.Redirect(w, r, "/schedules/"+url.PathEscape(name)+"?"+back.Encode(), http.StatusSeeOther)
}
