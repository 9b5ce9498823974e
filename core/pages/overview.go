package pages

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

// overviewView shows what runs, what waits for a person, and what comes next.
type overviewView struct {
	Waiting, Active, Ended []api.Run
	Next                   []api.Schedule
	Stopped                bool          // Waiting has runs that are complete
	More                   bool          // older runs are left out
	Unseen                 string        // why schedules are not shown; "" where they are
	Unapproved             int           // window sets, or rules of them, that wait for an approval
	Unread                 string        // why Unapproved is not known
	Sources                []api.Source  // with hosts that wait for an approval
	SourcesUnread          string        // why Sources is not known
	New                    bool          // there is no project yet
	Rejected               *api.Rejected // version of the project, for people of all tenants
}

// recentRuns is how many runs the overview reads: the newest, and the newest of each phase in which
// a run may be open.
const recentRuns = 200

// A stopped run waits for a person for stoppedFor. mostStopped is how many of them are looked up
// behind the newest runs.
const (
	stoppedFor  = 7 * 24 * time.Hour
	mostStopped = 20
)

func readOverview(ctx context.Context, v visit, _ url.Values) (any, error) {
	runs, err := v.client.Runs(ctx, client.RunFilter{Live: true}, client.Page{Limit: recentRuns})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if runs.Next != "" { // an open or a stopped run may be older than many that ended
		open, err := openRuns(ctx, v.client, client.RunFilter{Live: true}, api.Approval, api.Paused, api.Active, api.Queued, api.Stopped, api.Cancelled)
		if err != nil {
			return nil, err
		}
		stopped, err := stoppedBefore(ctx, v.client, runs.Items, now)
		if err != nil {
			return nil, err
		}
		runs.Items = withOlder(runs.Items, append(open, stopped...))
	}
	view := overviewOf(runs.Items, now)
	view.More = runs.Next != ""
	schedules, err := client.All(ctx, 1000, v.client.Schedules)
	if err != nil { // one panel that fails leaves the rest
		view.Unseen = err.Error()
	}
	view.Next = nextOf(schedules, now)
	approvals, err := client.All(ctx, mostApprovals, func(ctx context.Context, page client.Page) (client.List[api.WindowApproval], error) {
		return v.client.Approvals(ctx, true, page)
	})
	if err != nil {
		view.Unread = reasonOf(err)
	}
	view.Unapproved = len(approvals)
	if view.Sources, err = waitingSources(ctx, v.client); err != nil {
		view.SourcesUnread = reasonOf(err)
	}
	if v.who.Everyone() {
		if project, err := v.client.Definitions(ctx); err == nil { // else its own page shows why
			view.Rejected = project.Rejected
			if view.New = project.Applied.IsZero() && project.Rejected == nil; view.New {
				view.Unread = "" // there are no windows yet
			}
		}
	}
	return view, nil
}

// waitingSources lists the sources of hosts of which a generation waits for an approver.
func waitingSources(ctx context.Context, c *client.Client) ([]api.Source, error) {
	all, err := client.All(ctx, listed, c.Sources)
	return slices.DeleteFunc(all, func(s api.Source) bool { return s.Waiting == nil }), err
}

// stoppedBefore lists stopped runs that wait for a person and are older than recent, the newest
// runs.
func stoppedBefore(ctx context.Context, c *client.Client, recent []api.Run, now time.Time) ([]api.Run, error) {
	stopped, err := client.All(ctx, mostStopped, func(ctx context.Context, page client.Page) (client.List[api.Run], error) {
		return c.Runs(ctx, client.RunFilter{Phase: api.Stopped}, page)
	})
	if err != nil {
		return nil, err
	}
	known, waiting := launches{}, []api.Run(nil)
	for i := range recent {
		known.add(&recent[i])
	}
	for i := range stopped {
		run := &stopped[i]
		if !known.stopped(run, now) {
			known.add(run)
			continue
		}
		later, err := client.All(ctx, recentRuns, func(ctx context.Context, page client.Page) (client.List[api.Run], error) {
			return c.Runs(ctx, client.RunFilter{Playbook: run.Playbook, Since: run.Created}, page)
		})
		if err != nil {
			return nil, err
		}
		for j := range later {
			if later[j].ID != run.ID {
				known.add(&later[j])
			}
		}
		if known.stopped(run, now) {
			waiting = append(waiting, *run)
		}
		known.add(run)
	}
	return waiting, nil
}

// launches has the playbooks, with their tenants, that were launched for real.
type launches map[[2]string]bool

func (l launches) add(run *api.Run) {
	if !run.Check {
		l[[2]string{run.Tenant, run.Playbook}] = true
	}
}

// stopped reports whether a run is stopped and complete, and needs a person: it ended lately, and
// its playbook is not among the launches, which are later ones.
func (l launches) stopped(run *api.Run, now time.Time) bool {
	return run.Phase == api.Stopped && run.Complete() && !run.Check && now.Sub(run.Ended) < stoppedFor && !l[[2]string{run.Tenant, run.Playbook}]
}

// withOlder adds the runs of more that are not among runs, and sorts all, the newest first.
func withOlder(runs, more []api.Run) []api.Run {
	known := map[string]bool{}
	for _, run := range runs {
		known[run.ID] = true
	}
	for _, run := range more {
		if !known[run.ID] {
			runs = append(runs, run)
		}
	}
	slices.SortStableFunc(runs, func(a, b api.Run) int { return b.Created.Compare(a.Created) })
	return runs
}

// endedRuns is how many runs that ended the overview shows.
const endedRuns = 25

// overviewOf sorts runs, newest first, by what they need: a person, time, nothing. Runs with bad
// hosts come first: among those that are active, and of each 24 hours before now in which runs
// ended.
func overviewOf(runs []api.Run, now time.Time) overviewView {
	var view overviewView
	later := launches{}
	for i, run := range runs {
		stopped := later.stopped(&runs[i], now)
		later.add(&runs[i])
		switch {
		case needsPerson(run) || stopped:
			view.Waiting = append(view.Waiting, run)
			view.Stopped = view.Stopped || stopped
		case !runs[i].Complete():
			view.Active = append(view.Active, run)
		default:
			view.Ended = append(view.Ended, run)
		}
	}
	slices.SortStableFunc(view.Active, badFirst)
	slices.SortStableFunc(view.Ended, func(a, b api.Run) int {
		return cmp.Or(cmp.Compare(daysAgo(a.Ended, now), daysAgo(b.Ended, now)), badFirst(a, b))
	})
	view.Ended = view.Ended[:min(len(view.Ended), endedRuns)]
	return view
}

// daysAgo is how many times 24 hours passed since a moment.
func daysAgo(at, now time.Time) int { return int(now.Sub(at) / (24 * time.Hour)) }

// badFirst compares runs by their worst bad outcome. Stopped runs are bad, whatever their hosts
// are.
func badFirst(a, b api.Run) int { return cmp.Compare(badness(a), badness(b)) }

func badness(run api.Run) int {
	for rank, outcome := range allOutcomes {
		if pictures.Bad(outcome) && run.Outcomes[outcome] > 0 {
			return rank
		}
	}
	if run.Phase == api.Stopped {
		return len(allOutcomes)
	}
	return len(allOutcomes) + 1
}

// needsPerson reports whether a run continues only when somebody acts.
func needsPerson(run api.Run) bool {
	return run.Phase == api.Approval || run.Phase == api.Paused || run.Waits != nil
}

// nextOf are the schedules that launch within a day, soonest first.
func nextOf(schedules []api.Schedule, now time.Time) []api.Schedule {
	soon := slices.DeleteFunc(slices.Clone(schedules), func(s api.Schedule) bool {
		return s.Paused || s.Next.IsZero() || s.Next.After(now.Add(24*time.Hour))
	})
	slices.SortStableFunc(soon, func(a, b api.Schedule) int { return a.Next.Compare(b.Next) })
	return soon[:min(len(soon), 20)]
}
