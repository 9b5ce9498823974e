package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/windows"
)

// Bounds of a timeline.
const (
	timelinePoints  = 200 // of a curve
	timelineSets    = 20
	timelineWindows = 100 // of a set
	timelineHosts   = 200 // of a wave
)

func (s *Server) showTimeline(ctx context.Context, by caller, in *struct {
	RunPath
	Wave int `query:"wave" minimum:"1" maximum:"10000000" doc:"also show the hosts of this wave"`
},
) (*body[api.Timeline], error) {
	run, sheet, err := s.sheetOf(ctx, by, in.Run)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := timelineOf(run.Created, now, sheet)
	t.Run, t.Hosts = run.ID, run.Total
	if run.Complete() {
		t.To = later(t.To, run.Ended)
	} else {
		t.To = later(t.To, now)
	}
	sets := sheet.windows()
	var e *estimate
	if !run.Complete() && !runOf(run).Phase.Over() {
		switch e, err = s.estimate(ctx, &run); {
		case err == nil:
			expect(&t, e, sheet)
			ahead(sets, e, now, t.To)
		case !s.cfg.Elsewhere: // what another process drives may have job types that are not here
			return nil, err
		}
	}
	full, err := s.cfg.Ledger.FullRun(ctx, by.scope, run.ID, false)
	if err != nil {
		return nil, err
	}
	t.Windows, t.Expected = setsOf(sets), expectationOf(full.Expected)
	if t.Expected != nil {
		t.To = later(t.To, t.Expected.FinishP90)
	}
	if in.Wave > 0 {
		t.OfWave, err = s.hostsOfWave(ctx, by, &t, sheet, e, in.Wave)
	}
	return &body[api.Timeline]{t}, err
}

// hostsOfWave lists the hosts of a wave. Without an estimate, hosts without an outcome have no
// times but the start of those at work.
func (s *Server) hostsOfWave(ctx context.Context, by caller, t *api.Timeline, sheet *sheet, e *estimate, wave int) (*api.WaveHosts, error) {
	if wave > len(t.Waves) {
		return nil, fmt.Errorf("run %s has waves 1 to %d, and no wave %d: %w", t.Run, len(t.Waves), wave, core.ErrNotFound)
	}
	var open, done []api.TimelineHost
	for i := range sheet.rows {
		r := &sheet.rows[i]
		h := api.TimelineHost{Index: r.Index, Host: r.Host, Outcome: r.Outcome}
		switch {
		case waveOf(t, sheet, i).Wave != wave:
		case r.Outcome != "":
			if !r.Started.IsZero() {
				h.From, h.To = r.Started.UTC(), jobOf(r.Job).Ended.UTC()
			}
			done = append(done, h)
		default:
			if e != nil && i < len(e.Hosts) && !e.Hosts[i].Finish.IsZero() {
				h.From, h.To, h.Late = e.Hosts[i].Begin.UTC(), e.Hosts[i].Finish.UTC(), e.Hosts[i].Late.UTC()
			}
			open = append(open, h)
		}
	}
	slices.SortStableFunc(done, func(a, b api.TimelineHost) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
	all := slices.Concat([]api.TimelineHost{}, open, done)
	shown := all[:min(len(all), timelineHosts)]
	jobs := make([]api.Job, len(shown))
	for i, h := range shown {
		jobs[i] = api.Job{Run: t.Run, Index: h.Index, Outcome: h.Outcome}
	}
	err := s.addStates(ctx, by.scope, t.Run, jobs)
	for i := range jobs {
		shown[i].State = jobs[i].State
		if at := jobs[i].Started; !at.IsZero() { // it is at work: the estimate does not know since when
			shown[i].From = at.UTC()
		}
	}
	rank := func(h api.TimelineHost) int { // those at work first
		switch {
		case h.Outcome != "":
			return 2
		case h.State == core.Leased:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(shown, func(a, b api.TimelineHost) int { return cmp.Compare(rank(a), rank(b)) })
	size := t.Hosts // of the wave, with hosts that the sheet leaves out
	if len(sheet.limits) > 0 {
		size = sheet.limits[wave-1]
	}
	if wave > 1 {
		size -= sheet.limits[wave-2]
	}
	return &api.WaveHosts{Wave: wave, Hosts: shown, Left: max(size, len(all)) - len(shown)}, err
}

// timelineOf returns what is recorded: waves from their first host to their last, and how many were
// done when.
func timelineOf(created, now time.Time, sheet *sheet) api.Timeline {
	t := api.Timeline{From: created, To: created, Now: now.UTC(), Waves: []api.TimelineWave{}, Windows: []api.TimelineSet{}}
	for k := range sheet.limits {
		t.Waves = append(t.Waves, api.TimelineWave{Wave: k + 1})
	}
	var ends []time.Time
	for i := range sheet.rows {
		r := &sheet.rows[i]
		w := waveOf(&t, sheet, i)
		w.Hosts++
		if r.Outcome == "" {
			continue
		}
		w.Done++
		end := jobOf(r.Job).Ended
		ends = append(ends, end)
		t.To = later(t.To, end)
		if !r.Started.IsZero() {
			w.From, w.To = earlier(w.From, r.Started), later(w.To, end)
		}
	}
	t.Done = curve(created, 0, ends, timelinePoints)
	return t
}

// waveOf is the wave of a host.
func waveOf(t *api.Timeline, sheet *sheet, i int) *api.TimelineWave {
	if len(t.Waves) == 0 {
		t.Waves = []api.TimelineWave{{Wave: 1}}
	}
	return &t.Waves[min(rollout.Wave(sheet.limits, i), len(t.Waves)-1)]
}

// expect adds when the other hosts are expected to be done.
func expect(t *api.Timeline, e *estimate, sheet *sheet) {
	var p50, p90 []time.Time
	done := 0
	for i := range sheet.rows {
		if sheet.rows[i].Outcome != "" {
			done++
			continue
		}
		if i >= len(e.Hosts) || e.Hosts[i].Finish.IsZero() {
			continue
		}
		h, w := e.Hosts[i], waveOf(t, sheet, i)
		w.From, w.To, w.Late = earlier(w.From, h.Begin), later(w.To, h.Finish), later(w.Late, h.Late)
		p50, p90 = append(p50, h.Finish), append(p90, h.Late)
		t.To = later(t.To, h.Late)
	}
	if len(p50) > 0 {
		t.P50, t.P90 = curve(e.at, done, p50, timelinePoints), curve(e.at, done, p90, timelinePoints)
	}
}

// curve counts times from a first count on, in a bounded number of points.
func curve(from time.Time, done int, times []time.Time, most int) []api.TimelinePoint {
	slices.SortFunc(times, time.Time.Compare)
	points := []api.TimelinePoint{{At: from.UTC(), Hosts: done}}
	for i, at := range times {
		if last := i == len(times)-1; last || (i+1)*most/len(times) > i*most/len(times) {
			points = append(points, api.TimelinePoint{At: at.UTC(), Hosts: done + i + 1})
		}
	}
	return points
}

// setSpans is the windows of a set that hosts of a run used, or wait for.
type setSpans struct {
	hosts map[string]bool
	spans map[api.TimelineSpan]bool
}

type windowSets map[string]*setSpans

func (s windowSets) add(set, host string, spans ...api.TimelineSpan) {
	one := s[set]
	if one == nil {
		one = &setSpans{map[string]bool{}, map[api.TimelineSpan]bool{}}
		s[set] = one
	}
	one.hosts[host] = true
	for _, span := range spans {
		if len(one.spans) < timelineWindows {
			one.spans[span] = true
		}
	}
}

// windows are those in which steps of the run started.
func (t *sheet) windows() windowSets {
	sets := windowSets{}
	for i := range t.rows {
		if w := t.rows[i].window; w != nil {
			sets.add(w.Set, t.rows[i].Host, api.TimelineSpan{From: w.Open.UTC(), To: w.Close.UTC()})
		}
	}
	return sets
}

// ahead adds the windows for which hosts wait.
func ahead(sets windowSets, e *estimate, from, to time.Time) {
	open := map[*windows.Compiled][]api.TimelineSpan{}
	for i, w := range e.Windows {
		if w.Set == nil || e.Hosts[i].Finish.IsZero() {
			continue
		}
		spans, known := open[w.Set]
		if !known {
			for _, o := range w.Set.Occurrences(from, to) {
				if o.Unapproved == "" {
					spans = append(spans, api.TimelineSpan{From: o.Open.UTC(), To: o.Close.UTC()})
				}
			}
			open[w.Set] = spans
		}
		sets.add(w.Set.Name, e.launch.Hosts[i].Name, spans...)
	}
}

func setsOf(sets windowSets) []api.TimelineSet {
	all := []api.TimelineSet{}
	for _, name := range sortedKeys(sets) {
		one := api.TimelineSet{Set: name, Hosts: len(sets[name].hosts), Windows: []api.TimelineSpan{}}
		for span := range sets[name].spans {
			one.Windows = append(one.Windows, span)
		}
		slices.SortFunc(one.Windows, func(a, b api.TimelineSpan) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b api.TimelineSet) int { return cmp.Compare(b.Hosts, a.Hosts) })
	return all[:min(len(all), timelineSets)]
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}

// earlier is the earlier of two times, of which the first may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b.UTC()
	}
	return a
}
