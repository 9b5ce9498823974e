package pages

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

// queueView shows the waiting work: tenants and their runs, and, for people of all tenants, the
// queue and its workers. A panel that cannot be shown has the reason.
type queueView struct {
	All          bool // the person sees all tenants
	Queue        api.Queue
	QueueProblem string
	Workers      []api.Worker
	WorkersMore  bool
	WorkProblem  string
	Shares       []api.Share // of all tenants, or of the person's
	SharesMore   bool
	ShareProblem string
	Picture      template.HTML
	Past         pastShares
	Runs         []runLoad
	Active       int // runs that are not complete, of which Runs shows the first
	Unknown      int // runs of these of which the queue reports nothing
}

// pastShares is the worker time of tenants in the last 24 hours.
type pastShares struct {
	api.ShareHistory
	Problem string // why it is not shown
	Picture template.HTML
	Shown   []api.TenantHours // those of the picture
	Hours   []string          // their begins
}

// runLoad is a run in the queue.
type runLoad struct {
	api.Run
	Waiting int // hosts that wait for a worker, a host, an attempt or a window
}

// queueRuns is how many runs the page of the queue asks about; queueWorkers and
// queueTenants how many it lists.
const (
	queueRuns    = 50
	queueWorkers = 500
	queueTenants = 200
)

func readQueue(ctx context.Context, v visit, _ url.Values) (any, error) {
	runs, err := openRuns(ctx, v.client, client.RunFilter{Live: true}, api.Active, api.Queued, api.Paused, api.Stopped, api.Cancelled)
	if err != nil {
		return nil, err
	}
	view := queueView{All: v.who.Everyone(), Active: len(runs)}
	view.load(runs[:min(len(runs), queueRuns)])
	shares, err := client.All(ctx, 10_000, v.client.Shares)
	if err != nil { // one panel that fails leaves the rest
		view.ShareProblem = reasonOf(err)
	}
	view.share(shares)
	if view.All {
		view.Past.load(ctx, v.client)
		if view.Queue, err = v.client.Queue(ctx); err != nil {
			view.QueueProblem = err.Error()
		}
		if view.Workers, err = client.All(ctx, queueWorkers+1, v.client.Workers); err != nil {
			view.WorkProblem = err.Error()
		}
		view.WorkersMore = len(view.Workers) > queueWorkers
		view.Workers = view.Workers[:min(len(view.Workers), queueWorkers)]
	}
	return view, nil
}

// openRuns lists the runs of some phases that are not complete, phase after phase, the newest
// first. It reads the recentRuns newest of each phase. A run that changes its phase then is listed
// once.
func openRuns(ctx context.Context, c *client.Client, f client.RunFilter, phases ...api.Phase) ([]api.Run, error) {
	var all []api.Run
	known := map[string]bool{}
	for _, phase := range phases {
		runs, err := client.All(ctx, recentRuns, func(ctx context.Context, page client.Page) (client.List[api.Run], error) {
			f.Phase = phase
			return c.Runs(ctx, f, page)
		})
		if err != nil {
			return nil, err
		}
		for i := range runs {
			if run := &runs[i]; !run.Complete() && !known[run.ID] {
				known[run.ID] = true
				all = append(all, *run)
			}
		}
	}
	return all, nil
}

// load lists runs, the one with the most waiting hosts first.
func (view *queueView) load(runs []api.Run) {
	for _, run := range runs {
		one := runLoad{Run: run}
		if l := run.Live; l != nil {
			one.Waiting = l.Pending + l.Blocked + l.Waiting + l.Suspended
		} else {
			view.Unknown++
		}
		view.Runs = append(view.Runs, one)
	}
	slices.SortStableFunc(view.Runs, func(a, b runLoad) int { return cmp.Compare(b.Waiting, a.Waiting) })
}

// share lists tenants, and draws the first of them.
func (view *queueView) share(list []api.Share) {
	pictures.SortShares(list)
	view.SharesMore = len(list) > queueTenants
	view.Shares = list[:min(len(list), queueTenants)]
	view.Picture = template.HTML(pictures.Shares(view.Shares).Markup) //nolint:gosec // pictures escapes each text
}

// load asks for the worker time of tenants. The picture has the first of them, the table all.
func (p *pastShares) load(ctx context.Context, c *client.Client) {
	var err error
	if p.ShareHistory, err = c.ShareHistory(ctx); err != nil {
		p.Problem = reasonOf(err)
		return
	}
	p.Shown = p.Tenants[:min(len(p.Tenants), pictures.MostHistory)]
	p.Picture = template.HTML(pictures.ShareHistory(&p.ShareHistory).Markup) //nolint:gosec // pictures escapes each text
	for i := range 24 {
		p.Hours = append(p.Hours, p.From.Add(time.Duration(i)*time.Hour).UTC().Format("15:04"))
	}
}

// undrained explains why a form does not confirm that a worker is drained; "" where it does. The
// number of its jobs changes all the time, so that of the page counts if it is a large one.
func undrained(workers []api.Worker, name string, sent url.Values) string {
	jobs, _ := strconv.Atoi(sent.Get("jobs")) // "" of a page with few
	if i := slices.IndexFunc(workers, func(w api.Worker) bool { return w.Name == name }); i >= 0 && jobs < wideHosts {
		jobs = workers[i].Running
	}
	return unconfirmed(sent, "job", jobs, wide(jobs, false, false))
}

// actWorker does the action of a button beside a worker.
func (p *Pages) actWorker(w http.ResponseWriter, r *http.Request, v visit) {
	name, reason := r.PathValue("worker"), r.PostFormValue("reason")
	var err error
	switch verb := r.PathValue("verb"); verb {
	case "cordon":
		_, err = v.client.CordonWorker(r.Context(), name, reason)
	case "uncordon":
		_, err = v.client.UncordonWorker(r.Context(), name, reason)
	case "drain":
		if v.who.Operates() { // the API refuses others
			workers, err := client.All(r.Context(), queueWorkers, v.client.Workers)
			if err != nil {
				p.problem(w, r, v, err)
				return
			}
			if problem := undrained(workers, name, r.PostForm); problem != "" {
				p.show(w, http.StatusUnprocessableEntity, "problem", v, name, problem)
				return
			}
		}
		_, err = v.client.DrainWorker(r.Context(), name, reason)
	default:
		p.show(w, http.StatusNotFound, "problem", v, "Not found", "a worker has no action "+verb)
		return
	}
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	http.Redirect(w, r, "/queue#workers", http.StatusSeeOther)
}
