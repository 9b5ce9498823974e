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
	More                   bool          // older runs are left out
	Unseen                 string        // why schedules are not shown; "" where they are
	Unapproved             int           // window sets, or rules of them, that wait for an approval
	Unread                 string        // why Unapproved is not known
	New                    bool          // there is no project yet
	Rejected               *api.Rejected // version of the project, for people of all tenants
}

// recentRuns is how many runs the overview reads: the newest, and the newest of each phase in which
// a run may be open.
const recentRuns = 200

func readOverview(ctx context.Context, v visit, _ url.Values) (any, error) {
	runs, err := v.client.Runs(ctx, client.RunFilter{Live: true}, client.Page{Limit: recentRuns})
	if err != nil {
		return nil, err
	}
	if runs.Next != "" { // an open run may be older than many that ended
		open, err := openRuns(ctx, v.client, client.RunFilter{Live: true}, api.Approval, api.Paused, api.Active, api.Queued, api.Stopped, api.Cancelled)
		if err != nil {
			return nil, err
		}
		runs.Items = withOlder(runs.Items, open)
	}
	view := overviewOf(runs.Items)
	view.More = runs.Next != ""
	schedules, err := client.All(ctx, 1000, v.client.Schedules)
	if err != nil { // one panel that fails leaves the rest
		view.Unseen = err.Error()
	}
	view.Next = nextOf(schedules, time.Now())
	approvals, err := client.All(ctx, mostApprovals, func(ctx context.Context, page client.Page) (client.List[api.WindowApproval], error) {
		return v.client.Approvals(ctx, true, page)
	})
	if err != nil {
		view.Unread = reasonOf(err)
	}
	view.Unapproved = len(approvals)
	if v.who.Everyone() {
		if project, err := v.client.Definitions(ctx); err == nil { // its own page says why else
			view.Rejected = project.Rejected
			if view.New = project.Applied.IsZero() && project.Rejected == nil; view.New {
				view.Unread = "" // there are no windows yet
			}
		}
	}
	return view, nil
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
// hosts come first: among those that are active, and of each day on which runs ended.
func overviewOf(runs []api.Run) overviewView {
	var view overviewView
	for i, run := range runs {
		switch {
		case needsPerson(run):
			view.Waiting = append(view.Waiting, run)
		case !runs[i].Complete():
			view.Active = append(view.Active, run)
		default:
			view.Ended = append(view.Ended, run)
		}
	}
	slices.SortStableFunc(view.Active, badFirst)
	slices.SortStableFunc(view.Ended, func(a, b api.Run) int {
		return cmp.Or(b.Ended.UTC().Truncate(24*time.Hour).Compare(a.Ended.UTC().Truncate(24*time.Hour)), badFirst(a, b))
	})
	view.Ended = view.Ended[:min(len(view.Ended), endedRuns)]
	return view
}

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
