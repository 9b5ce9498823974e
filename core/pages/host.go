package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// hostJobs is how many open jobs of a host its page has.
const hostJobs = 20

// hostView is a host, what happens there, and what was done on it.
type hostView struct {
	Host    api.Host
	History []api.Job
	Next    string

	Now         []hostTask
	Open        string // where Now begins; "" for the oldest run
	MoreOpen    string // where a page with further ones begins; "" where all runs were searched
	NowUnseen   string // why Now is not shown
	Locks       []api.Lock
	LocksUnseen string // why Locks is not shown
	Handlers    []api.PendingHandler
	MoreLeft    bool   // there are more handlers
	LeftUnseen  string // why Handlers is not shown
	Windows     api.WindowSet
	WindowsText string // why Windows is not shown

	Configs       []api.ConfigVersion // for people who may read them
	ConfigsUnseen string              // why they are not shown
	From, To      string              // versions that are compared
	Diff          *api.ConfigDiff     // nil: DiffProblem, or there is nothing to compare
	DiffProblem   string
}

// configs reads the kept versions of a host's configuration, and compares those of a form, or the
// newest two.
func (view *hostView) configs(ctx context.Context, v visit, sent url.Values) {
	var err error
	if view.Configs, err = v.client.ConfigVersions(ctx, view.Host.Name); err != nil {
		view.ConfigsUnseen = reasonOf(err)
	}
	if len(view.Configs) == 0 {
		return
	}
	diff, err := v.client.ConfigDiff(ctx, view.Host.Name, sent.Get("from"), sent.Get("to"))
	if err != nil {
		view.From, view.To, view.DiffProblem = sent.Get("from"), sent.Get("to"), reasonOf(err)
		return
	}
	view.From, view.To, view.Diff = diff.From, diff.To, &diff
}

// hostTask is a job of a host without an outcome.
type hostTask struct {
	Job api.Job
	Why api.Explanation
}

// now lists open jobs of a host, and why each waits.
func (view *hostView) now(ctx context.Context, v visit) error {
	jobs, err := v.client.HostJobs(ctx, view.Host.Name, client.Page{Cursor: view.Open, Limit: hostJobs})
	if err != nil {
		return err
	}
	view.MoreOpen = jobs.Next
	for _, job := range jobs.Items {
		why, err := v.client.Explain(ctx, core.JobID{Run: job.Run, Index: job.Index})
		if err != nil {
			return err
		}
		view.Now = append(view.Now, hostTask{job, why})
	}
	return nil
}

// findHost leads to the host whose name was typed.
func (p *Pages) findHost(w http.ResponseWriter, r *http.Request, _ visit) {
	name := strings.TrimSpace(r.FormValue("host"))
	if name == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, "/hosts/"+url.PathEscape(name), http.StatusSeeOther)
}

func (p *Pages) host(w http.ResponseWriter, r *http.Request, v visit) {
	p.showLive(w, r, v, hostPage(r.PathValue("host")))
}

func hostPage(name string) *livePage {
	read := func(ctx context.Context, v visit, q url.Values) (any, error) { return readHost(ctx, v, name, q) }
	configs := func(ctx context.Context, v visit, q url.Values) any {
		view := hostView{Host: api.Host{Name: name}}
		if v.who.Operates() {
			view.configs(ctx, v, q)
		}
		return view
	}
	return &livePage{template: "host", title: name, topics: []api.Topic{api.TopicRuns, api.TopicQueue, api.TopicFleet, api.TopicProject}, every: time.Minute, read: read, below: configs}
}

func readHost(ctx context.Context, v visit, name string, q url.Values) (any, error) {
	host, err := v.client.Host(ctx, name)
	if err != nil {
		return nil, err
	}
	history, err := v.client.HostHistory(ctx, name, client.Page{Cursor: q.Get("cursor"), Limit: 50})
	if err != nil {
		return nil, err
	}
	view := hostView{Host: host, History: history.Items, Next: history.Next, Open: q.Get("open")}
	if err := view.now(ctx, v); err != nil { // one panel that fails leaves the rest
		view.NowUnseen = reasonOf(err)
	}
	if view.Locks, err = v.client.Locks(ctx, name); err != nil {
		view.LocksUnseen = reasonOf(err)
	}
	pending, err := v.client.Handlers(ctx, client.HandlerFilter{Host: name}, client.Page{Limit: leftoversShown})
	if view.Handlers, view.MoreLeft = pending.Items, pending.Next != ""; err != nil {
		view.LeftUnseen = reasonOf(err)
	}
	if host.WindowSet != "" {
		if view.Windows, err = v.client.Window(ctx, host.WindowSet); err != nil {
			view.WindowsText = reasonOf(err)
		}
	}
	return view, nil
}
