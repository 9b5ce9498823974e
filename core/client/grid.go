package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/turnus/turnus/core/api"
)

// GridPage is how many hosts a page of Grid has at most.
const GridPage = 5000

// Grid shows what each step did on each host of a run, a page of hosts at a time.
func (c *Client) Grid(ctx context.Context, run string, p Page) (api.Grid, error) {
	return get[api.Grid](ctx, c, "show the grid of run "+run, path("v1", "runs", run, "grid"), p.into(url.Values{}))
}

// WholeGrid is Grid with all hosts that the server shows of a run.
func (c *Client) WholeGrid(ctx context.Context, run string) (api.Grid, error) {
	all, err := c.Grid(ctx, run, Page{Limit: GridPage})
	for err == nil && all.Next != "" {
		var more api.Grid
		more, err = c.Grid(ctx, run, Page{Cursor: all.Next, Limit: GridPage})
		all.Items, all.Next = append(all.Items, more.Items...), more.Next
	}
	return all, err
}

// ResultGroups lists groups of hosts of a run with the same result, the worst outcome first.
func (c *Client) ResultGroups(ctx context.Context, run string) (api.ResultGroups, error) {
	return get[api.ResultGroups](ctx, c, "list the result groups of run "+run, path("v1", "runs", run, "groups"), nil)
}

// StepCounts counts what each step of a run did, by wave.
func (c *Client) StepCounts(ctx context.Context, run string) (api.StepCounts, error) {
	return get[api.StepCounts](ctx, c, "count the steps of run "+run, path("v1", "runs", run, "steps"), nil)
}

// Waits lists what the hosts of a run wait for.
func (c *Client) Waits(ctx context.Context, run string) (api.Waits, error) {
	return get[api.Waits](ctx, c, "list what the hosts of run "+run+" wait for", path("v1", "runs", run, "waits"), nil)
}

// Timeline shows the waves and windows of a run, its progress and its forecast. It also has the
// hosts of a wave, from 1; of none with 0.
func (c *Client) Timeline(ctx context.Context, run string, wave int) (api.Timeline, error) {
	q := url.Values{}
	if wave != 0 {
		q.Set("wave", strconv.Itoa(wave))
	}
	return get[api.Timeline](ctx, c, "show the timeline of run "+run, path("v1", "runs", run, "timeline"), q)
}
