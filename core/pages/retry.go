package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// retryRoutes registers the page that tries hosts of a run again.
func (p *Pages) retryRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /runs/{run}/retry", p.signedIn(p.retryPage))
	mux.HandleFunc("POST /runs/{run}/retry", p.signedIn(p.retry))
}

// retryView is a run that has ended, and the plan of its retry.
type retryView struct {
	Run     api.Run
	Choices []outcomeChoice
	From    bool // continue at the failed step
	Else    bool // and begin with the first step where that cannot be
	Problem string
	Plan    *api.Plan
	Preview preview
}

// outcomeChoice is hosts of a run that ended alike.
type outcomeChoice struct {
	Outcome core.Outcome
	Hosts   int
	Ticked  bool
}

func (p *Pages) retryPage(w http.ResponseWriter, r *http.Request, v visit) {
	view, status, err := retryOf(r.Context(), v, r.PathValue("run"), r.URL.Query())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, status, "retry", v, "Retry "+view.Run.Playbook, view)
}

// retryOf plans a retry of a run on hosts with the outcomes of a form. status is that of the page.
func retryOf(ctx context.Context, v visit, id string, sent url.Values) (view retryView, status int, err error) {
	if view.Run, err = v.client.Run(ctx, id); err != nil {
		return view, 0, err
	}
	view.Choices = choicesOf(view.Run.Outcomes, sent["outcome"])
	asked := retryAsked(sent)
	view.From, view.Else = asked.From != "", sent.Get("else") != ""
	plan, err := v.client.PlanRetry(ctx, id, asked)
	if err != nil {
		view.Problem = reasonOf(err)
		status, _ = statusOf(err)
		return view, status, nil
	}
	var again []input
	for _, outcome := range sent["outcome"] {
		again = append(again, input{"outcome", outcome})
	}
	for _, key := range []string{"from", "else"} {
		if value := sent.Get(key); value != "" {
			again = append(again, input{key, value})
		}
	}
	view.Plan, view.Preview = &plan, previewOf("/runs/"+url.PathEscape(id)+"/retry", "Retry on ", plan, again)
	view.Preview.Reason, view.Preview.Former = sent.Get(fieldReason), view.Run.LaunchReason
	return view, http.StatusOK, nil
}

// retryAsked returns the retry that a form asks for. The choice for hosts that cannot continue
// needs the one before it.
func retryAsked(sent url.Values) api.Retry {
	asked := api.Retry{Outcomes: outcomesOf(sent), From: sent.Get("from")}
	if asked.From != "" {
		asked.Else = sent.Get("else")
	}
	return asked
}

func outcomesOf(sent url.Values) (all []core.Outcome) {
	for _, outcome := range sent["outcome"] {
		all = append(all, core.Outcome(outcome))
	}
	return all
}

// choicesOf are the outcomes that hosts have, the worst first. Without a choice those are ticked
// that are not good, as the API takes them.
func choicesOf(outcomes map[core.Outcome]int, chosen []string) (all []outcomeChoice) {
	for _, outcome := range append(slices.Clone(badOutcomes), core.Skipped, core.Changed, core.Unchanged) {
		if n := outcomes[outcome]; n > 0 {
			ticked := slices.Contains(chosen, string(outcome)) || len(chosen) == 0 && !outcome.Good()
			all = append(all, outcomeChoice{outcome, n, ticked})
		}
	}
	return all
}

// retry launches the run that was previewed, once. Where its hosts have changed, the page
// shows the plan as it is now, and asks again.
func (p *Pages) retry(w http.ResponseWriter, r *http.Request, v visit) {
	id, sent := r.PathValue("run"), r.PostForm
	again := func(status int, problem string) {
		view, _, err := retryOf(r.Context(), v, id, sent)
		if err != nil {
			p.problem(w, r, v, err)
			return
		}
		view.Problem = problem
		p.show(w, status, "retry", v, "Retry "+view.Run.Playbook, view)
	}
	if problem := typed(sent); problem != "" {
		again(http.StatusUnprocessableEntity, problem)
		return
	}
	asked := retryAsked(sent)
	asked.SkipNoWindow, asked.Plan, asked.Reason = sent.Get(fieldSkip) != "", sent.Get("hash"), sent.Get(fieldReason)
	run, err := v.client.RetryRun(r.Context(), id, sent.Get("key"), asked)
	switch {
	case errors.Is(err, core.ErrConflict):
		again(http.StatusConflict, "Not launched: "+reasonOf(err)+". The preview had "+sent.Get("hosts")+" hosts. Read the new one.")
	case errors.Is(err, core.ErrInvalid):
		again(http.StatusUnprocessableEntity, "Not launched: "+reasonOf(err))
	case err != nil:
		p.problem(w, r, v, err)
	default:
		http.Redirect(w, r, "/runs/"+url.PathEscape(run.ID), http.StatusSeeOther)
	}
}
