package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
)

// Bounds of list-waits.
const (
	askedHosts = 200
	askedFirst = 150 // of these
	askedAge   = 2 * time.Second
	maxWaits   = 50
	maxLongest = 8
)

// asked is the answer of the queue about the released hosts of a run, at a time.
type asked struct {
	at     time.Time
	sight  queue.Sight
	leased []queue.Leased
	jobs   []queue.Explanation // of hosts that are not leased: the first ones, and some of the others
}

// askedJobs keeps the newest answer.
type askedJobs struct {
	mu     sync.Mutex
	answer asked
}

func (s *Server) listWaits(ctx context.Context, by caller, in *RunPath) (*body[api.Waits], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if run.Complete() {
		return &body[api.Waits]{api.Waits{Items: []api.Wait{}}}, nil
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
		w.add(api.Wait{Code: why.ReasonCode, Reason: why.Reason}, open...)
		return &body[api.Waits]{w.list()}, nil
	}
	asking, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	st, err := s.cfg.Queue.Status(asking, run.ID)
	var said asked
	if err == nil {
		said, err = s.sheets.keep(&run).asked.of(func() (asked, error) { return s.askAll(asking, &run, open, st.Limit) })
	}
	if err != nil {
		w.add(api.Wait{Code: core.QueueAway, Reason: "the queue does not answer"}, open...)
		return &body[api.Waits]{w.list()}, nil
	}
	closed, _ := slices.BinarySearch(open, st.Limit)
	if closed < len(open) {
		w.add(api.Wait{Code: core.WaveClosed, Reason: wavesClosed(sheet.limits, open[closed], open[len(open)-1])}, open[closed:]...)
	}
	idle := notLeased(open[:closed], said.leased)
	if len(idle) > 0 {
		w.unworked = s.unworked(ctx)
	}
	w.paused = st.Phase == queue.Paused
	w.tell(&said, idle, func(job string) string { return s.holder(ctx, by.scope, job) })
	shown := w.list()
	shown.Longest = sheet.longest(said.leased)
	return &body[api.Waits]{shown}, nil
}

// longest names the hosts that run for longest, of leased ones in this order.
func (t *sheet) longest(leased []queue.Leased) (hosts []api.RunningHost) {
	for _, l := range leased {
		if l.Index < len(t.rows) && t.rows[l.Index].Outcome == "" && len(hosts) < maxLongest {
			hosts = append(hosts, api.RunningHost{Index: l.Index, Host: t.rows[l.Index].Host, Worker: l.Node, Since: l.Since})
		}
	}
	return hosts
}

// waiting reports whether a host in this state waits, rather than being at work or over.
func waiting(s core.State) bool { return s != core.Leased && s != core.Done }

// notLeased returns the hosts that are not among leased ones.
func notLeased(indexes []int, leased []queue.Leased) []int {
	runs := make(map[int]bool, len(leased))
	for i := range leased {
		runs[leased[i].Index] = true
	}
	idle := make([]int, 0, len(indexes))
	for _, index := range indexes {
		if !runs[index] {
			idle = append(idle, index)
		}
	}
	return idle
}

// wavesClosed names the waves of hosts from one index to another.
func wavesClosed(limits []int, from, to int) string {
	first, last := rollout.Wave(limits, from)+1, rollout.Wave(limits, to)+1
	if first == last {
		return fmt.Sprintf("wave %d of %d is not released", first, len(limits))
	}
	return fmt.Sprintf("waves %d to %d of %d are not released", first, last, len(limits))
}

// of returns the queue's answer of a short time ago, or asks it.
func (t *askedJobs) of(ask func() (asked, error)) (asked, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.answer.at) < askedAge {
		return t.answer, nil
	}
	next, err := ask()
	if err == nil {
		t.answer = next
	}
	return next, err
}

// askAll asks the queue which hosts run, and why askedHosts of the others do not: the first ones,
// which the queue tried first, and some of those behind, up to the last one.
func (s *Server) askAll(ctx context.Context, run *ledger.Run, open []int, limit int) (answer asked, err error) {
	if answer.leased, err = s.cfg.Queue.Leased(ctx, run.ID); err != nil {
		return answer, err
	}
	answer.sight = s.cfg.Queue.Poll(ctx, 1, queue.Ask{Run: run.ID, Awaited: true})[0]
	if answer.sight.Err != nil {
		return answer, answer.sight.Err
	}
	closed, _ := slices.BinarySearch(open, limit)
	idle := notLeased(open[:closed], answer.leased)
	if behind := len(idle) - askedFirst; len(idle) > askedHosts {
		some := slices.Clone(idle[:askedFirst])
		for i := range askedHosts - askedFirst {
			some = append(some, idle[askedFirst+(i+1)*behind/(askedHosts-askedFirst)-1])
		}
		idle = some
	}
	answer.jobs = s.explainAll(ctx, run, idle)
	answer.at = time.Now()
	return answer, nil
}

// explainAll asks the queue about jobs; answers that are late are left out.
func (s *Server) explainAll(ctx context.Context, run *ledger.Run, indexes []int) []queue.Explanation {
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

// waitKey is equal for hosts that wait for the same.
type waitKey struct {
	code   core.ReasonCode
	reason string
	until  int64
}

// waits puts hosts together that wait for the same.
type waits struct {
	sheet    *sheet
	unworked string // why no worker takes a job
	paused   bool   // the run is
	all      []api.Wait
	at       map[waitKey]int // places in all
}

// of is the wait of a host by the queue's answer; holder ends its reason.
func (w *waits) of(why *queue.Explanation, holder string) api.Wait {
	switch pending := why.State == core.Pending; {
	case pending && w.unworked != "":
		return api.Wait{Code: core.NoWorker, Reason: w.unworked}
	case pending && w.paused:
		return api.Wait{Code: core.RunPaused, Reason: "the run is paused"}
	}
	return api.Wait{Code: why.Reason.Code(), Reason: why.Reason.Text() + holder, Until: why.Until}
}

// tell adds hosts that do not run, by the queue's answer; holder names a job that has a lock.
func (w *waits) tell(said *asked, idle []int, holder func(job string) string) {
	explained := map[int]bool{}
	for i := range said.jobs {
		why := &said.jobs[i]
		explained[why.Job.Index] = true
		if waiting(why.State) && w.sheet.rows[why.Job.Index].Outcome == "" {
			w.add(w.of(why, holder(why.Holder)), why.Job.Index)
		}
	}
	w.rest(said, slices.DeleteFunc(idle, func(index int) bool { return explained[index] }))
}

// rest counts the hosts that the queue was not asked about one by one: by its counts of states, and
// of the events that jobs wait for. All that are pending and due wait for the same.
func (w *waits) rest(said *asked, rest []int) {
	left := len(rest)
	take := func(code core.ReasonCode, reason string, n int) {
		n = max(min(n, left), 0)
		left -= n
		w.count(api.Wait{Code: code, Reason: reason}, n)
	}
	st := &said.sight.Status
	if st.Total > len(w.sheet.rows) { // the counts include hosts that the sheet leaves out
		take("", fmt.Sprintf("not asked: the queue is asked about %d hosts that wait", askedHosts), left)
		return
	}
	inState, forEvent, late := map[core.State]int{}, map[string]int{}, 0
	var due, later *queue.Explanation // of pending hosts
	oneStart := true
	for i := range said.jobs {
		why := &said.jobs[i]
		inState[why.State]++
		switch {
		case why.State == core.Suspended:
			forEvent[why.Event]++
		case why.State == core.Pending && why.Reason.Code() == core.NotDue && !w.paused && w.unworked == "":
			oneStart = oneStart && (later == nil || later.Until.Equal(why.Until))
			later, late = why, late+1
		case why.State == core.Pending:
			due = why
		}
	}
	suspended := st.Suspended - inState[core.Suspended]
	for _, event := range slices.Sorted(maps.Keys(said.sight.Awaited)) {
		why, n := snapshot.WhyWaits(event), max(said.sight.Awaited[event]-forEvent[event], 0)
		take(why.Code(), why.Text(), n)
		if event != "" {
			suspended -= n
		}
	}
	why := snapshot.WhyWaits("")
	take(why.Code(), why.Text(), suspended)
	take(core.LockHeld, "waits for a lock that another job has", st.Blocked-inState[core.Blocked])
	take(core.NextAttempt, "waits for its next attempt", st.Waiting-inState[core.Retrying])
	if due == nil && later != nil && oneStart && left == len(rest) {
		w.add(w.of(later, ""), rest...)
		return
	}
	if !w.paused && w.unworked == "" { // else they wait for that first
		take(core.NotDue, "waits for its start, which is later", st.Deferred-said.sight.Awaited[queue.EventWindow]-late)
	}
	switch {
	case left == 0:
	case due == nil:
		take("", fmt.Sprintf("not asked: the queue is asked about %d hosts that wait", askedHosts), left)
	case left == len(rest):
		w.add(w.of(due, ""), rest...)
	default:
		w.count(w.of(due, ""), left)
	}
}

// add counts hosts, and names the first ones.
func (w *waits) add(why api.Wait, indexes ...int) {
	if len(indexes) == 0 {
		return
	}
	o := w.count(why, len(indexes))
	for _, index := range indexes[:min(len(indexes), groupHosts-min(len(o.Hosts), groupHosts))] {
		o.Hosts = append(o.Hosts, w.sheet.rows[index].Host)
	}
}

// count counts hosts. How many jobs are at work is in the reason of some waits, and no difference.
func (w *waits) count(why api.Wait, hosts int) *api.Wait {
	if hosts < 1 {
		return nil
	}
	same := waitKey{why.Code, why.Reason, why.Until.UnixMicro()}
	if why.Code == core.NoSlot || why.Code == core.RunFull {
		same.reason = ""
	}
	i, known := w.at[same]
	if !known {
		if w.at == nil {
			w.at = map[waitKey]int{}
		}
		i = len(w.all)
		w.at[same], w.all = i, append(w.all, why)
	}
	w.all[i].Total += hosts
	return &w.all[i]
}

// list is the waits, the one with most hosts first.
func (w *waits) list() api.Waits {
	slices.SortStableFunc(w.all, func(a, b api.Wait) int { return cmp.Compare(b.Total, a.Total) })
	shown := api.Waits{Items: append([]api.Wait{}, w.all[:min(len(w.all), maxWaits)]...)}
	for _, o := range w.all[len(shown.Items):] {
		shown.LeftOut, shown.LeftOutHosts = shown.LeftOut+1, shown.LeftOutHosts+o.Total
	}
	return shown
}
