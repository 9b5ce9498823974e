package pages

import (
	"context"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// leftoversShown bounds how many pending handlers, and how many hosts that may have been touched, a
// page names.
const leftoversShown = 50

// leftovers has the handlers that a run left pending, and the hosts that may have been touched when
// the queue was lost.
type leftovers struct {
	Pending []api.PendingHandler
	Touched []api.Job
	More    bool // hosts that may have been touched are left out
}

// leftoversOf reads what a run leaves. part gets what cannot be read.
func leftoversOf(ctx context.Context, v visit, run api.Run, part func(what string, err error)) (left leftovers) {
	if run.Handlers > 0 {
		pending, err := v.client.Handlers(ctx, client.HandlerFilter{Run: run.ID}, client.Page{Limit: leftoversShown})
		part("Pending handlers", err)
		left.Pending = pending.Items
	}
	if run.MayHaveBegun > 0 && !run.Complete() {
		touched, err := v.client.Jobs(ctx, run.ID, client.JobFilter{State: "uncertain"}, client.Page{Limit: leftoversShown})
		part("Hosts that may have been touched", err)
		left.Touched, left.More = touched.Items, touched.Next != ""
	}
	return left
}
