package pages

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// hostsShown is how many hosts a run's page lists at a time; groupedHosts how many it reads to
// group what went wrong.
const (
	hostsShown   = 100
	groupedHosts = 1000
)

// runView is a run: how it stands, what went wrong, its hosts, and who decided what.
type runView struct {
	Run       api.Run
	Bars      []bar
	Groups    []group
	Partial   bool // more hosts went wrong than Groups counts
	Hosts     []api.Job
	Filter    core.Outcome
	State     string
	Next      string // of the page of hosts after this one; "" at the end
	Decisions []api.Decision
	Problem   string // of an action
}

// bar is one part of the picture of all hosts, in per mille of the width.
type bar struct {
	Kind  string // an outcome, running or waiting
	Hosts int
	From  int
	Width int
}

// group is hosts with the same outcome for the same reason.
type group struct {
	Outcome core.Outcome
	Step    string
	Reason  string
	Hosts   []string
}

// badOutcomes come first, the worst first.
var badOutcomes = []core.Outcome{core.Lost, core.Failed, core.Unreachable, core.RolledBack, core.Cancelled}

func (p *Pages) run(w http.ResponseWriter, r *http.Request, v visit) {
	view, err := p.runView(r.Context(), v, r.PathValue("run"), r.URL.Query())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "run", v, view.Run.Playbook, view)
}

func (p *Pages) runView(ctx context.Context, v visit, id string, q url.Values) (runView, error) {
	view := runView{Filter: core.Outcome(q.Get("outcome")), State: q.Get("state")}
	var err error
	if view.Run, err = v.client.Run(ctx, id); err != nil {
		return view, err
	}
	view.Bars = barsOf(view.Run)
	var bad []api.Job
	for _, outcome := range badOutcomes {
		n := view.Run.Outcomes[outcome]
		if n == 0 {
			continue
		}
		jobs, err := client.All(ctx, groupedHosts, func(ctx context.Context, page client.Page) (client.List[api.Job], error) {
			return v.client.Jobs(ctx, id, client.JobFilter{Outcome: outcome}, page)
		})
		if err != nil {
			return view, err
		}
		view.Partial = view.Partial || len(jobs) < n
		bad = append(bad, jobs...)
	}
	view.Groups = groupsOf(bad)
	hosts, err := v.client.Jobs(ctx, id, client.JobFilter{Outcome: view.Filter, State: view.State}, client.Page{Cursor: q.Get("cursor"), Limit: hostsShown})
	if err != nil {
		return view, err
	}
	view.Hosts, view.Next = hosts.Items, hosts.Next
	decisions, err := v.client.Decisions(ctx, id)
	view.Decisions = decisions.Items
	return view, err
}

// barsOf divides a width of 1000 among outcomes, what runs and what waits; whatever there is can be
// seen.
func barsOf(run api.Run) []bar {
	running := 0
	if run.Live != nil {
		running = run.Live.InFlight
	}
	parts := []bar{}
	left := run.Total - running
	for _, outcome := range append(slices.Clone(badOutcomes), core.Changed, core.Unchanged, core.Skipped) {
		if n := run.Outcomes[outcome]; n > 0 {
			parts = append(parts, bar{Kind: string(outcome), Hosts: n})
			left -= n
		}
	}
	if running > 0 {
		parts = append(parts, bar{Kind: "running", Hosts: running})
	}
	if left > 0 {
		parts = append(parts, bar{Kind: "waiting", Hosts: left})
	}
	at, total := 0, max(run.Total, 1)
	for i := range parts {
		parts[i].From = at
		parts[i].Width = min(max(parts[i].Hosts*1000/total, 4), max(1000-at, 0))
		at += parts[i].Width
	}
	return parts
}

// groupsOf puts hosts together that ended alike: the worst outcome first, then the largest group.
func groupsOf(jobs []api.Job) []group {
	at := map[[3]string]int{}
	var groups []group
	for _, j := range jobs {
		key := [3]string{string(j.Outcome), j.Step, j.Reason}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{Outcome: j.Outcome, Step: j.Step, Reason: j.Reason})
		}
		groups[i].Hosts = append(groups[i].Hosts, j.Host)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(slices.Index(badOutcomes, a.Outcome), slices.Index(badOutcomes, b.Outcome)), cmp.Compare(len(b.Hosts), len(a.Hosts)))
	})
	return groups
}

// act does what a button of a run's page says, and shows the page again.
func (p *Pages) act(w http.ResponseWriter, r *http.Request, v visit) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	id, reason := r.PathValue("run"), r.PostFormValue("reason")
	var err error
	switch r.PathValue("verb") {
	case "pause":
		_, err = v.client.PauseRun(r.Context(), id, reason)
	case "resume":
		_, err = v.client.ResumeRun(r.Context(), id, reason)
	case "cancel":
		_, err = v.client.CancelRun(r.Context(), id, reason)
	case "approve", "refuse":
		wave, _ := strconv.Atoi(r.PostFormValue("wave")) // "" is the run as a whole; the API refuses what is not waited for
		_, err = v.client.ApproveRun(r.Context(), id, api.Approve{Wave: wave, Approve: r.PathValue("verb") == "approve", Reason: reason})
	default:
		p.show(w, http.StatusNotFound, "problem", v, "Not found", "a run has no action "+r.PathValue("verb"))
		return
	}
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/runs/"+url.PathEscape(id), http.StatusSeeOther)
}
