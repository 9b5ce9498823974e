package pages

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// runView is a run: its state, groups of equal results, what hosts wait for, and who decided
// what.
type runView struct {
	Run     api.Run
	Bars    []bar
	Groups  api.ResultGroups
	Steps   []api.GridStep
	Waves   []waveRow // of waves that have begun
	Waits   api.Waits
	Away    bool // the queue does not answer: what runs and what waits is unknown
	Deeds   []deed
	Left    leftovers
	Missing []string // parts that cannot be shown, and why
}

// Links begins the addresses of the hosts' logs.
func (v *runView) Links() string { return "/runs/" + url.PathEscape(v.Run.ID) + "/hosts/" }

// Stop counts what a cancel does now.
func (v *runView) Stop() stopping { return stoppingOf(v.Run, v.Away) }

// Seen names the last action of a person that the page shows.
func (v *runView) Seen() string {
	if len(v.Deeds) == 0 {
		return "0"
	}
	return strconv.FormatInt(v.Deeds[len(v.Deeds)-1].At.UnixMicro(), 10)
}

// Question is the approval that the run waits for; nil for none.
func (v *runView) Question() *question { return questionOf(v.Run) }

// bar is one part of the picture of all hosts, in per mille of the width.
type bar struct {
	Kind  string // an outcome, running, waiting or unknown
	Hosts int
	From  int
	Width int
}

// badOutcomes come first, the worst first.
var badOutcomes = []core.Outcome{core.Lost, core.Failed, core.Unreachable, core.RolledBack, core.Cancelled}

// allOutcomes are those, then the good ones.
var allOutcomes = append(slices.Clone(badOutcomes), core.Changed, core.Unchanged, core.Skipped)

// runPage is the view of a run, and the rows of its grid.
type runPage struct {
	runView
	Timeline timelineView
	Grid     gridView
	Forecast forecastView
	Launch   string // of a dry run: where it is launched for real
	Same     bool   // Launch has the values of the dry run
}

func (p *Pages) run(w http.ResponseWriter, r *http.Request, v visit) {
	id := r.PathValue("run")
	view, err := p.runView(r.Context(), v, id)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	shown := runPage{runView: view}
	if view.Run.Check && view.Run.Kind == "" && v.who.Operates() {
		shown.Launch = "/playbooks/" + url.PathEscape(view.Run.Playbook)
		if sent := r.URL.Query(); sent.Has("launch") {
			shown.Launch, shown.Same = shown.Launch+previewQuery(sent.Get("launch")), true
		}
	}
	if grid, err := v.client.WholeGrid(r.Context(), id); err != nil {
		shown.Missing = append(shown.Missing, "The grid cannot be shown: "+reasonOf(err))
	} else {
		shown.Grid = gridOf(grid, r.URL.Query())
	}
	var late sync.WaitGroup
	late.Go(func() { shown.Timeline = timelineOf(r.Context(), v, id, forecastWithin) })
	shown.Forecast = forecastOf(r.Context(), v, view.Run, forecastWithin)
	late.Wait()
	p.show(w, http.StatusOK, "run", v, view.Run.Playbook, &shown)
}

// runView reads a run. A part of it that cannot be read leaves the rest.
func (p *Pages) runView(ctx context.Context, v visit, id string) (view runView, err error) {
	if view.Run, err = v.client.Run(ctx, id); err != nil {
		return view, err
	}
	part := func(what string, err error) {
		if err != nil {
			view.Missing = append(view.Missing, what+" cannot be shown: "+reasonOf(err))
		}
	}
	view.Groups, err = v.client.ResultGroups(ctx, id)
	part("Groups of results", err)
	counts, err := v.client.StepCounts(ctx, id)
	part("Steps by wave", err)
	view.Steps, view.Waves = counts.Steps, wavesOf(counts)
	if !view.Run.Complete() {
		view.Waits, err = v.client.Waits(ctx, id)
		part("The waits of hosts", err)
		view.Away = slices.ContainsFunc(view.Waits.Items, func(w api.Wait) bool { return w.Code == core.QueueAway })
	}
	view.Left = leftoversOf(ctx, v, view.Run, part)
	view.Bars = barsOf(view.Run, view.Away)
	view.Deeds, err = deedsOf(ctx, v.client, view.Run)
	part("Who did what", err)
	return view, nil
}

// picture is the waves and windows of a run, as the command line draws them. The document has its
// own style and loads nothing.
func (p *Pages) picture(w http.ResponseWriter, r *http.Request, v visit) {
	run, err := v.client.Run(r.Context(), r.PathValue("run"))
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	wave := 0
	if text := r.URL.Query().Get("wave"); text != "" {
		if wave, err = strconv.Atoi(text); err != nil || wave < 1 {
			p.show(w, http.StatusUnprocessableEntity, "problem", v, "Timeline", fmt.Sprintf("wave %q: expected a number from 1", text))
			return
		}
	}
	t, err := v.client.Timeline(r.Context(), run.ID, wave)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = io.WriteString(w, pictures.RunDocument(&t, pictures.RunTitle(&run))) //nolint:gosec // pictures escapes each text
}

// barsOf divides a width of 1000 among outcomes, what runs and what waits; whatever there is can be
// seen. While the queue is away, hosts without an outcome are unknown.
func barsOf(run api.Run, away bool) []bar {
	running, rest := 0, "waiting"
	if away {
		rest = "unknown"
	} else if run.Live != nil {
		running = run.Live.InFlight
	}
	parts := []bar{}
	left := run.Total - running
	for _, outcome := range allOutcomes {
		if n := run.Outcomes[outcome]; n > 0 {
			parts = append(parts, bar{Kind: string(outcome), Hosts: n})
			left -= n
		}
	}
	if running > 0 {
		parts = append(parts, bar{Kind: "running", Hosts: running})
	}
	if left > 0 {
		parts = append(parts, bar{Kind: rest, Hosts: left})
	}
	at, total := 0, max(run.Total, 1)
	for i := range parts {
		parts[i].From = at
		parts[i].Width = min(max(parts[i].Hosts*1000/total, 4), max(1000-at, 0))
		at += parts[i].Width
	}
	return parts
}

// actTries is how often an action is sent again because the run changed while it was sent.
const actTries = 5

// act does the action of a button of a run's page, and shows the page again.
func (p *Pages) act(w http.ResponseWriter, r *http.Request, v visit) {
	id, verb, reason := r.PathValue("run"), r.PathValue("verb"), r.PostFormValue("reason")
	if final := verb == "cancel" && v.who.Operates() || (verb == "approve" || verb == "refuse") && v.who.Approves(); final { // the API refuses others
		run, err := v.client.Run(r.Context(), id)
		if err != nil {
			p.problem(w, r, v, err)
			return
		}
		if status, problem := refused(run, verb, r.PostForm); problem != "" {
			p.show(w, status, "problem", v, run.Playbook, problem)
			return
		}
	}
	var err error
	for range actTries { // the service itself also changes a run, which is no reason not to act
		acts, others := v.client, ""
		if seen := r.PostFormValue("seen"); seen != "" {
			acts, others, err = actsSince(r.Context(), v, id, seen)
		}
		if others != "" {
			p.show(w, http.StatusPreconditionFailed, "problem", v, "The run has changed", "Nothing was done, because the run changed after the page was loaded: "+others+". Open its page again to decide.")
			return
		}
		if err != nil {
			break
		}
		switch verb {
		case "pause":
			_, err = acts.PauseRun(r.Context(), id, reason)
		case "resume":
			_, err = acts.ResumeRun(r.Context(), id, reason)
		case "cancel":
			_, err = acts.CancelRun(r.Context(), id, reason)
		case "approve", "refuse":
			wave, _ := strconv.Atoi(r.PostFormValue("wave")) // "" is the run as a whole; the API refuses what is not waited for
			_, err = acts.ApproveRun(r.Context(), id, api.Approve{Wave: wave, Approve: verb == "approve", Reason: reason})
		default:
			p.show(w, http.StatusNotFound, "problem", v, "Not found", "a run has no action "+verb)
			return
		}
		if err == nil {
			http.Redirect(w, r, "/runs/"+url.PathEscape(id), http.StatusSeeOther)
			return
		}
		if status, _ := statusOf(err); status != http.StatusPreconditionFailed {
			break
		}
	}
	p.problem(w, r, v, err)
}
