package pages

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// queueView is who waits for what: tenants and their runs, and, for people of all tenants, the
// queue and its workers. A panel that cannot be shown says why.
type queueView struct {
	All          bool // the person sees all tenants
	Queue        api.Queue
	QueueProblem string
	Workers      []api.Worker
	WorkersMore  bool
	WorkProblem  string
	Tenants      []tenantLoad
	Runs         []runLoad
	Active       int // runs that are not complete, of which Runs shows the first
	Unknown      int // runs of these of which the queue says nothing
}

// tenantLoad is what a tenant has at work and waiting.
type tenantLoad struct {
	Tenant           string
	Runs             int
	Running, Waiting int // hosts
	Percent          int // of all running hosts
}

// runLoad is a run in the queue.
type runLoad struct {
	api.Run
	Waiting int // hosts that wait for a worker, a host, an attempt or a window
}

// queueRuns is how many runs the page of the queue asks about; queueWorkers how many it lists.
const (
	queueRuns    = activeInFull
	queueWorkers = 500
)

func (p *Pages) queue(w http.ResponseWriter, r *http.Request, v visit) {
	ctx := r.Context()
	runs, err := openRuns(ctx, v.client)
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	view := queueView{All: v.who.Everyone(), Active: len(runs)}
	if err := inFull(ctx, v.client, runs); err != nil {
		p.problem(w, r, v, err)
		return
	}
	view.load(runs[:min(len(runs), queueRuns)])
	if view.All {
		if view.Queue, err = v.client.Queue(ctx); err != nil {
			view.QueueProblem = err.Error()
		}
		if view.Workers, err = client.All(ctx, queueWorkers+1, v.client.Workers); err != nil {
			view.WorkProblem = err.Error()
		}
		view.WorkersMore = len(view.Workers) > queueWorkers
		view.Workers = view.Workers[:min(len(view.Workers), queueWorkers)]
	}
	p.show(w, http.StatusOK, "queue", v, "Queue and workers", view)
}

// openRuns lists the runs that may be in the queue, newest first.
func openRuns(ctx context.Context, c *client.Client) ([]api.Run, error) {
	var all []api.Run
	for _, phase := range []api.Phase{api.Active, api.Queued, api.Paused} {
		runs, err := client.All(ctx, recentRuns, func(ctx context.Context, page client.Page) (client.List[api.Run], error) {
			return c.Runs(ctx, client.RunFilter{Phase: phase}, page)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// load adds runs up: by run, the one with the most waiting hosts first, and by tenant.
func (view *queueView) load(runs []api.Run) {
	at, running := map[string]int{}, 0
	for _, run := range runs {
		one := runLoad{Run: run}
		i, known := at[run.Tenant]
		if !known {
			i = len(view.Tenants)
			at[run.Tenant] = i
			view.Tenants = append(view.Tenants, tenantLoad{Tenant: run.Tenant})
		}
		t := &view.Tenants[i]
		t.Runs++
		if l := run.Live; l != nil {
			one.Waiting = l.Pending + l.Blocked + l.Waiting + l.Suspended
			t.Running += l.InFlight
			running += l.InFlight
			t.Waiting += one.Waiting
		} else {
			view.Unknown++
		}
		view.Runs = append(view.Runs, one)
	}
	for i := range view.Tenants {
		if t := &view.Tenants[i]; running > 0 {
			t.Percent = (t.Running*100 + running/2) / running
		}
	}
	slices.SortStableFunc(view.Runs, func(a, b runLoad) int { return cmp.Compare(b.Waiting, a.Waiting) })
	slices.SortStableFunc(view.Tenants, func(a, b tenantLoad) int { return cmp.Compare(b.Waiting, a.Waiting) })
}

// actWorker does what a button beside a worker says.
func (p *Pages) actWorker(w http.ResponseWriter, r *http.Request, v visit) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	name, reason := r.PathValue("worker"), r.PostFormValue("reason")
	var err error
	switch verb := r.PathValue("verb"); verb {
	case "cordon":
		_, err = v.client.CordonWorker(r.Context(), name, reason)
	case "uncordon":
		_, err = v.client.UncordonWorker(r.Context(), name, reason)
	case "drain":
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
