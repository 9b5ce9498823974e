package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// Bounds of list-waits.
const (
	askedHosts = 200
	askedAge   = 2 * time.Second
	maxWaits   = 50
)

// askedJobs is the answer of the queue about the first released hosts of a run, at a time.
type askedJobs struct {
	mu   sync.Mutex
	at   time.Time
	jobs []queue.Explanation
}

func (s *Server) listWaits(ctx context.Context, by caller, in *RunPath) (*list[api.Wait], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if run.Complete() {
		return listOf([]api.Wait{}, ""), nil
	}
	sheet, err := s.sheets.of(ctx, s, &run)
	if err != nil {
		return nil, err
	}
	var open []int
	for i := range sheet.rows {
		if sheet.rows[i].Outcome == "" {
			open = append(open, i)
		}
	}
	w := waits{sheet: sheet}
	if run.Incarnation == "" || s.cfg.Elsewhere || s.cfg.Controller.Away() != nil {
		why := s.standing(ctx, by.scope, &run, core.JobID{Run: run.ID})
		w.add(why.ReasonCode, why.Reason, time.Time{}, open...)
		return listOf(w.list(), ""), nil
	}
	asking, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	st, err := s.cfg.Queue.Status(asking, run.ID)
	if err != nil {
		w.add(core.QueueAway, "the queue does not answer", time.Time{}, open...)
		return listOf(w.list(), ""), nil
	}
	closed, _ := slices.BinarySearch(open, st.Limit)
	if closed < len(open) {
		w.add(core.WaveClosed, wavesClosed(sheet.limits, open[closed], open[len(open)-1]), time.Time{}, open[closed:]...)
	}
	released := open[:closed]
	unworked := len(released) > 0 && s.deserted(ctx)
	for _, why := range s.sheets.keep(&run).asked.of(func() []queue.Explanation { return s.explainAll(asking, &run, released) }) {
		if !waiting(why.State) || sheet.rows[why.Job.Index].Outcome != "" {
			continue
		}
		switch pending := why.State == core.Pending; {
		case pending && unworked:
			w.add(core.NoWorker, nobodyWorks, time.Time{}, why.Job.Index)
		case pending && st.Phase == queue.Paused:
			w.add(core.RunPaused, "the run is paused", time.Time{}, why.Job.Index)
		default:
			w.add(why.Reason.Code(), why.Reason.Text()+s.holder(ctx, by.scope, why.Holder), why.Until, why.Job.Index)
		}
	}
	if len(released) > askedHosts {
		w.add("", fmt.Sprintf("not asked: only the first %d released hosts are", askedHosts), time.Time{}, released[askedHosts:]...)
	}
	return listOf(w.list(), ""), nil
}

// waiting reports whether a host in this state waits, rather than being at work or over.
func waiting(s core.State) bool { return s != core.Leased && s != core.Done }

// wavesClosed names the waves of hosts from one index to another.
func wavesClosed(limits []int, from, to int) string {
	first, last := rollout.Wave(limits, from)+1, rollout.Wave(limits, to)+1
	if first == last {
		return fmt.Sprintf("wave %d of %d is not released", first, len(limits))
	}
	return fmt.Sprintf("waves %d to %d of %d are not released", first, last, len(limits))
}

// of returns the queue's answer of a short time ago, or asks it.
func (t *askedJobs) of(ask func() []queue.Explanation) []queue.Explanation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) >= askedAge {
		t.jobs, t.at = ask(), time.Now()
	}
	return t.jobs
}

// explainAll asks the queue about the first jobs; answers that are late are left out.
func (s *Server) explainAll(ctx context.Context, run *ledger.Run, indexes []int) []queue.Explanation {
	indexes = indexes[:min(len(indexes), askedHosts)]
	all := make([]queue.Explanation, len(indexes))
	var asking sync.WaitGroup
	for part := range askTogether {
		asking.Go(func() {
			for i := part; i < len(indexes); i += askTogether {
				why, err := s.whyWaits(ctx, core.JobID{Run: run.ID, Index: indexes[i]})
				if err == nil {
					all[i] = why
				}
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(all, func(e queue.Explanation) bool { return e.State == "" })
}

// waits puts hosts together that wait for the same.
type waits struct {
	sheet *sheet
	all   []api.Wait
}

// add counts hosts. The number of jobs at work is in the reason of some waits, and makes no
// difference.
func (w *waits) add(code core.ReasonCode, reason string, until time.Time, indexes ...int) {
	if len(indexes) == 0 {
		return
	}
	i := slices.IndexFunc(w.all, func(o api.Wait) bool {
		return o.Code == code && o.Until.Equal(until) && (o.Reason == reason || code == core.NoSlot || code == core.RunFull)
	})
	if i < 0 {
		i = len(w.all)
		w.all = append(w.all, api.Wait{Code: code, Reason: reason, Until: until})
	}
	o := &w.all[i]
	o.Total += len(indexes)
	for _, index := range indexes[:min(len(indexes), groupHosts-min(len(o.Hosts), groupHosts))] {
		o.Hosts = append(o.Hosts, w.sheet.rows[index].Host)
	}
}

// list is the waits, the one with most hosts first.
func (w *waits) list() []api.Wait {
	slices.SortStableFunc(w.all, func(a, b api.Wait) int { return cmp.Compare(b.Total, a.Total) })
	return w.all[:min(len(w.all), maxWaits)]
}
