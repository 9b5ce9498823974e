package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// mostApprovals bounds what the page of approvals reads.
const mostApprovals = 2000

// windowRoutes registers the pages of windows and their approvals.
func (p *Pages) windowRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /windows", p.signedIn(p.livePage("/windows")))
	mux.HandleFunc("GET /windows/{set}", p.signedIn(p.window))
	mux.HandleFunc("POST /windows/{set}/{verb}", p.signedIn(p.actOnWindow))
}

// windowsView shows what waits for a decision, and which windows come next.
type windowsView struct {
	Waiting    []approval
	Unapproved string // why Waiting is not shown; "" where it is
	Sets       []windowSet
	Unseen     string // why Sets is not shown
	Next       string // of the page of sets after this one
}

// windowSet is a window set in sentences.
type windowSet struct {
	api.WindowSet
	Sentences []string
}

// approval is a window set, or a rule of it, that people decide on.
type approval struct {
	api.WindowApproval
	Sentences []string // of the windows that wait
	Key       string   // of the decision; windows that are edited, or decided on, have another one
}

// Affected names the hosts that the decision is about. Steps of a playbook may name the set for
// hosts that do not have it in the inventory.
func (a approval) Affected() string {
	most := a.Hosts
	for _, w := range a.Work {
		most = max(most, w.Hosts)
	}
	if most > a.Hosts && len(a.Work) > 1 {
		return fmt.Sprintf("the hosts of the playbooks above, at least %d,", most)
	}
	return core.Plural(most, "host")
}

func readWindows(ctx context.Context, v visit, q url.Values) (any, error) {
	view := windowsView{}
	waiting, err := approvalsOf(ctx, v, true)
	sets, setsErr := v.client.Windows(ctx, client.Page{Cursor: q.Get("cursor"), Limit: listed})
	if err != nil && setsErr != nil {
		return nil, err
	}
	if err != nil { // one panel that fails leaves the rest
		view.Unapproved = reasonOf(err)
	}
	if setsErr != nil {
		view.Unseen = reasonOf(setsErr)
	}
	view.Waiting, view.Next = waiting, sets.Next
	for _, set := range sets.Items {
		view.Sets = append(view.Sets, windowSetOf(set, time.Now()))
	}
	return view, nil
}

func windowSetOf(set api.WindowSet, now time.Time) windowSet {
	return windowSet{set, sentences(set.Next, set.Timezone, set.Work, now)}
}

// approvalsOf lists what needs an approval.
func approvalsOf(ctx context.Context, v visit, waiting bool) ([]approval, error) {
	list, err := client.All(ctx, mostApprovals, func(ctx context.Context, page client.Page) (client.List[api.WindowApproval], error) {
		return v.client.Approvals(ctx, waiting, page)
	})
	all := make([]approval, len(list))
	for i, a := range list {
		all[i] = approval{a, sentences(a.Waiting, a.Timezone, a.Work, time.Now()), keyOf(a)}
	}
	return all, err
}

// keyOf names what a decision is about: the times of the windows, behind the last decision.
func keyOf(a api.WindowApproval) string {
	last := ""
	if n := len(a.Given); n > 0 {
		last = a.Given[n-1].ID
	}
	return seenOf(strings.Join([]string{a.Set, a.Rule, a.Hash, last}, "\x00"))
}

// windowView is one window set: when it opens, and what was decided.
type windowView struct {
	Set       windowSet
	Approvals []approval
	Unseen    string // why Approvals is not shown
	Edited    *edited
}

// edited is a set that has changed since its approver saw it.
type edited struct {
	Verb      string
	Gone, New []string // sentences
}

func (p *Pages) window(w http.ResponseWriter, r *http.Request, v visit) {
	p.showLive(w, r, v, windowPage(r.PathValue("set")))
}

func windowPage(name string) *livePage {
	return &livePage{template: "window", title: name, topics: []api.Topic{api.TopicProject}, every: time.Minute, read: func(ctx context.Context, v visit, _ url.Values) (any, error) {
		return windowOf(ctx, v, name)
	}}
}

func windowOf(ctx context.Context, v visit, name string) (windowView, error) {
	set, err := v.client.Window(ctx, name)
	if err != nil {
		return windowView{}, err
	}
	view := windowView{Set: windowSetOf(set, time.Now())}
	all, err := approvalsOf(ctx, v, false)
	if err != nil {
		view.Unseen = reasonOf(err)
	}
	view.Approvals = slices.DeleteFunc(all, func(a approval) bool { return a.Set != name })
	return view, nil
}

// actOnWindow decides on the windows that a person has seen. Where they were edited since, the page
// shows what changed, and asks again.
func (p *Pages) actOnWindow(w http.ResponseWriter, r *http.Request, v visit) {
	set, verb := r.PathValue("set"), r.PathValue("verb")
	form := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	var err error
	switch verb {
	case "approve":
		var until time.Time
		if text := form("until"); text != "" {
			if until, err = time.Parse("2006-01-02T15:04", text); err != nil {
				p.show(w, http.StatusUnprocessableEntity, "problem", v, "Not approved", fmt.Sprintf("until %q: expected a time in UTC as 2026-12-31T18:00", text))
				return
			}
		}
		_, err = v.client.ApproveWindow(r.Context(), set, form("key"), api.ApproveWindow{Rule: form("rule"), Window: form("window"), Until: until, Ticket: form("ticket"), Reason: form("reason")})
	case "refuse", "revoke":
		_, err = v.client.RevokeWindow(r.Context(), set, form("key"), api.RevokeWindow{Rule: form("rule"), Window: form("window"), Ticket: form("ticket"), Reason: form("reason")})
	default:
		p.show(w, http.StatusNotFound, "problem", v, "Not found", "a window set has no action "+verb)
		return
	}
	if err == nil {
		http.Redirect(w, r, "/windows/"+url.PathEscape(set), http.StatusSeeOther)
		return
	}
	if errors.Is(err, core.ErrConflict) {
		view, viewErr := windowOf(r.Context(), v, set)
		i := slices.IndexFunc(view.Approvals, func(a approval) bool { return a.Rule == form("rule") && a.Hash != form("window") })
		if viewErr == nil && i >= 0 {
			view.Edited = editedSince(verb, strings.Split(form("seen"), "\n"), view.Approvals[i].Sentences)
			p.show(w, http.StatusPreconditionFailed, "window", v, view.Set.Name, view)
			return
		}
	}
	p.problem(w, r, v, err)
}

// editedSince compares what a person saw with what is there.
func editedSince(verb string, seen, now []string) *edited {
	for i := range seen {
		seen[i] = strings.TrimSpace(seen[i]) // forms send \r\n
	}
	missing := func(from, in []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return s == "" || slices.Contains(in, s) })
	}
	return &edited{Verb: verb, Gone: missing(seen, now), New: missing(now, seen)}
}

// sentences describes when windows are open, and what for: Sat 5 Dec 22:00 to Sun 05:00
// Europe/Berlin: patch on 12 hosts, each needs 25 min, rollback included (if it fails, undone by
// 05:00).
func sentences(windows []api.Occurrence, timezone string, work []api.WindowWork, now time.Time) []string {
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		zone, timezone = time.UTC, "UTC"
	}
	var all []string
	for _, o := range windows {
		all = append(all, span(o.Open.In(zone), o.Close.In(zone), now)+" "+cmp.Or(timezone, "UTC")+clocks(o.Open.In(zone), o.Close.In(zone))+": "+workText(work, o.Open.In(zone), o.Close.In(zone)))
	}
	return all
}

// span formats the time from one moment to another one of the same zone for people.
func span(from, to, now time.Time) string {
	const day, clock = "Mon 2 Jan", " 15:04"
	first, last := day, "Mon"
	if from.Year() != now.In(from.Location()).Year() {
		first += " 2006"
	}
	switch {
	case from.YearDay() == to.YearDay() && from.Year() == to.Year():
		return from.Format(first+clock) + " to " + to.Format("15:04")
	case to.Sub(from) >= 6*24*time.Hour:
		last = first
	}
	return from.Format(first+clock) + " to " + to.Format(last+clock)
}

// clocks reports that clocks change within a window.
func clocks(from, to time.Time) string {
	before, a := from.Zone()
	after, b := to.Zone()
	if a == b {
		return ""
	}
	return " (clocks change from " + before + " to " + after + ")"
}

// workText lists the playbooks that wait for a window, and how long they take. Nothing starts
// unless what it needs fits, so that a rescue has ended when the window closes.
func workText(work []api.WindowWork, open, closes time.Time) string {
	by := closes.Format("15:04")
	if closes.Sub(open) >= 24*time.Hour {
		by = closes.Format("Mon 2 Jan 15:04")
	}
	var all []string
	for _, one := range work {
		text := one.Playbook + " on " + core.Plural(one.Hosts, "host")
		needs := ", each needs " + lasting(one.Need.Duration()) + ", rollback included"
		if one.Took > 0 {
			needs += ", and took about " + lasting(one.Took.Duration()) + " in recent runs"
		}
		switch {
		case one.Need <= 0:
			text += ", which the server refuses to launch: a step has no needs"
		case one.Rescue:
			text += needs + " (if it fails, undone by " + by + ")"
		default:
			text += needs + " (whether a failure is undone is not known)"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no playbook waits for it"
	}
	return strings.Join(all, "; ")
}
