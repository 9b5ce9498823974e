package pages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// namesShown is how many names of a wave's hosts are written out.
const namesShown = 12

// playbookRoutes registers the pages of playbooks.
func (p *Pages) playbookRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /playbooks", p.signedIn(p.playbookList))
	mux.HandleFunc("GET /playbooks/{playbook}", p.signedIn(p.playbook))
	mux.HandleFunc("POST /playbooks/{playbook}/launch", p.signedIn(p.launch))
}

func (p *Pages) playbookList(w http.ResponseWriter, r *http.Request, v visit) {
	list, err := v.client.Playbooks(r.Context(), client.Page{Cursor: r.URL.Query().Get("cursor"), Limit: listed})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "playbooks", v, "Playbooks", list)
}

// playbookView is a playbook with its launch form, and what the launch would do.
type playbookView struct {
	Playbook api.Playbook
	Form     launchForm
	Problem  string // with what was sent
	Plan     *api.Plan
	Preview  preview
}

// preview is the data of a launch beside its plan.
type preview struct {
	Path   string  // of the launch
	Inputs []input // what the launch sends again
	Key    string
	Verb   string // of the button
	Wide   bool   // the number of hosts is typed
	Reason string // that was sent
	Former string // that of the run before, which a retry without one has
}

// playbook shows a playbook. With plan in the URL it shows also what the launch would do: a link to
// it can be sent to somebody else.
func (p *Pages) playbook(w http.ResponseWriter, r *http.Request, v visit) {
	sent := r.URL.Query()
	view, err := playbookOf(r.Context(), v, r.PathValue("playbook"), sent)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	status := http.StatusOK
	if sent.Has("plan") && v.who.Operates() {
		status = view.plan(r.Context(), v, sent)
	}
	p.show(w, status, "playbook", v, view.Playbook.Name, view)
}

func playbookOf(ctx context.Context, v visit, name string, sent url.Values) (playbookView, error) {
	playbook, err := v.client.Playbook(ctx, name)
	return playbookView{Playbook: playbook, Form: formOf(playbook, sent)}, err
}

// plan adds what the launch would do, or what is wrong with the form, and returns the status of the
// page.
func (view *playbookView) plan(ctx context.Context, v visit, sent url.Values) int {
	n, err := launchOf(view.Playbook, sent)
	if err != nil {
		view.Problem = err.Error()
		return http.StatusUnprocessableEntity
	}
	plan, err := v.client.PlanRun(ctx, n)
	if err != nil {
		view.Problem = reasonOf(err)
		status, _ := statusOf(err)
		return status
	}
	view.Plan, view.Preview = &plan, previewOf("/playbooks/"+url.PathEscape(view.Playbook.Name)+"/launch", "Launch on ", plan, inputs(sent))
	view.Preview.Reason = sent.Get(fieldReason)
	return http.StatusOK
}

// previewOf describes what the launch button does.
func previewOf(path, verb string, plan api.Plan, sent []input) preview {
	out := preview{Path: path, Inputs: sent, Key: rand.Text(), Verb: verb, Wide: wide(plan.Hosts, plan.Disruptive, plan.Check)}
	if plan.Check {
		out.Verb = "Dry run on "
	}
	out.Verb += core.Plural(plan.Hosts, "host")
	return out
}

// launch creates the run that was previewed, once. Where the hosts have changed, the page
// shows the plan as it is now, and asks again.
func (p *Pages) launch(w http.ResponseWriter, r *http.Request, v visit) {
	sent := r.PostForm
	view, err := playbookOf(r.Context(), v, r.PathValue("playbook"), sent)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	again := func(status int, problem string) {
		view.plan(r.Context(), v, sent)
		if view.Problem == "" || strings.Contains(problem, view.Problem) {
			view.Problem = problem
		} else {
			view.Problem = problem + "\n" + view.Problem
		}
		p.show(w, status, "playbook", v, view.Playbook.Name, view)
	}
	n, err := launchOf(view.Playbook, sent)
	if err != nil {
		again(http.StatusUnprocessableEntity, "Not launched: "+err.Error())
		return
	}
	if problem := typed(sent); problem != "" {
		again(http.StatusUnprocessableEntity, problem)
		return
	}
	n.Plan, n.Reason = sent.Get("hash"), sent.Get(fieldReason)
	run, err := v.client.CreateRun(r.Context(), sent.Get("key"), n)
	switch {
	case errors.Is(err, core.ErrConflict):
		again(http.StatusConflict, "Not launched: "+reasonOf(err)+". The preview had "+sent.Get("hosts")+" hosts. Read the new one.")
	case errors.Is(err, core.ErrInvalid):
		again(http.StatusUnprocessableEntity, "Not launched: "+reasonOf(err))
	case err != nil:
		p.problem(w, r, v, err)
	default:
		to := "/runs/" + url.PathEscape(run.ID)
		if query := (url.Values{"launch": {realLaunch(inputs(sent))}}).Encode(); n.Check && len(query) <= longestAddress {
			to += "?" + query
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// typed explains why a wide launch is not confirmed; "" where it is, or is not wide. The API's hash
// makes sure that the number is that of the hosts.
func typed(sent url.Values) string {
	hosts, err := strconv.Atoi(sent.Get("hosts"))
	if err != nil || sent.Get("hash") == "" {
		return "Not launched: read the preview first."
	}
	if sent.Get("wide") != "" && strings.TrimSpace(sent.Get("typed")) != strconv.Itoa(hosts) {
		return fmt.Sprintf("Not launched: the number of hosts that was typed is %q, and the launch is for %s.", sent.Get("typed"), core.Plural(hosts, "host"))
	}
	return ""
}
