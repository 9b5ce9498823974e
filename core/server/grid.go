package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/rollout"
)

// grid registers what a page of a run shows of all its hosts together.
func (s *Server) grid() {
	handle(s, route{
		id: "show-grid", method: http.MethodGet, path: "/v1/runs/{run}/grid", summary: "Show what each step did on each host of a run", role: Viewer,
		detail: "Hosts by index, a letter a step, of what is recorded; the events of the run have what happens since. Of a run with more than " + strconv.Itoa(gridHosts) +
			" hosts it shows the first ones, and left_out counts the rest.",
	}, s.showGrid)
	handle(s, route{
		id: "list-result-groups", method: http.MethodGet, path: "/v1/runs/{run}/groups", summary: "List groups of hosts of a run with the same result", role: Viewer,
		detail: "The same outcome, for the same reason, by the same steps, with the same diffs. A host's own name is no difference, nor are addresses, times and temporary names of a reason. " +
			"The worst outcome first, in each the largest group first. The list ends after " + strconv.Itoa(maxGroups) + " groups, and left_out counts the rest.",
	}, s.listGroups)
	handle(s, route{
		id: "list-waits", method: http.MethodGet, path: "/v1/runs/{run}/waits", summary: "List what the hosts of a run wait for", role: Viewer,
		detail: "The reason with most hosts first. The queue is asked about " + strconv.Itoa(askedHosts) + " of the released hosts that wait; its counts give the reasons of the others. The list ends after " + strconv.Itoa(maxWaits) + " reasons, and left_out counts the rest. longest has hosts that run.",
	}, s.listWaits)
	handle(s, route{
		id: "count-steps", method: http.MethodGet, path: "/v1/runs/{run}/steps", summary: "Count what each step of a run did, by wave", role: Viewer,
		detail: "Of what is recorded, as show-grid shows it.",
	}, s.countSteps)
	handle(s, route{
		id: "show-timeline", method: http.MethodGet, path: "/v1/runs/{run}/timeline", summary: "Show the waves and windows of a run, its progress and its forecast", role: Viewer,
		detail: "The forecast of a run that is not over is that of forecast-run.",
	}, s.showTimeline)
}

func (s *Server) showGrid(ctx context.Context, by caller, in *struct {
	RunPath
	Cursor string `query:"cursor" doc:"of the page before" maxLength:"20"`
	Limit  int    `query:"limit" doc:"at most so many hosts" minimum:"1" maximum:"5000" default:"3000"`
},
) (*body[api.Grid], error) {
	from := 0
	if in.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(in.Cursor); err != nil || from < 0 {
			return nil, fmt.Errorf("cursor %q is not one of the grid: %w", in.Cursor, core.ErrInvalid)
		}
	}
	run, sheet, err := s.sheetOf(ctx, by, in.Run)
	if err != nil {
		return nil, err
	}
	rows := sheet.rows[min(from, len(sheet.rows)):]
	g := api.Grid{Steps: sheet.steps, Items: make([]api.GridHost, min(in.Limit, len(rows))), LeftOut: max(run.Total-gridHosts, 0)}
	for i := range g.Items {
		r := &rows[i]
		g.Items[i] = api.GridHost{Index: r.Index, Host: r.Host, Outcome: r.Outcome, Cells: r.cells, Group: r.group}
	}
	if len(g.Items) < len(rows) {
		g.Next = strconv.Itoa(from + len(g.Items))
	}
	return &body[api.Grid]{g}, nil
}

func (s *Server) countSteps(ctx context.Context, by caller, in *RunPath) (*body[api.StepCounts], error) {
	_, sheet, err := s.sheetOf(ctx, by, in.Run)
	if err != nil {
		return nil, err
	}
	return &body[api.StepCounts]{sheet.counts()}, nil
}

// counts are the outcomes of each step in each wave.
func (t *sheet) counts() api.StepCounts {
	all := api.StepCounts{Steps: t.steps, Waves: make([]api.WaveCounts, max(len(t.limits), 1))}
	for k := range all.Waves {
		all.Waves[k] = api.WaveCounts{Wave: k + 1, Steps: make([]map[core.Outcome]int, len(t.steps))}
		for i := range t.steps {
			all.Waves[k].Steps[i] = map[core.Outcome]int{}
		}
	}
	for i := range t.rows {
		r := &t.rows[i]
		w := &all.Waves[min(rollout.Wave(t.limits, i), len(all.Waves)-1)]
		w.Hosts++
		if r.Outcome != "" {
			w.Done++
		}
		for k := range min(len(r.cells), len(t.steps)) {
			if o := letterOutcomes[r.cells[k]]; o != "" {
				w.Steps[k][o]++
			}
		}
	}
	return all
}

// letterOutcomes are the outcomes by their letters.
var letterOutcomes = func() (all [256]core.Outcome) {
	for _, o := range core.Outcomes() {
		all[o.Letter()] = o
	}
	return all
}()

// Bounds of list-result-groups.
const (
	maxGroups  = 200
	groupHosts = 5    // that are named
	groupDiff  = 2000 // bytes
)

func (s *Server) listGroups(ctx context.Context, by caller, in *RunPath) (*body[api.ResultGroups], error) {
	_, sheet, err := s.sheetOf(ctx, by, in.Run)
	if err != nil {
		return nil, err
	}
	return &body[api.ResultGroups]{sheet.groups()}, nil
}
