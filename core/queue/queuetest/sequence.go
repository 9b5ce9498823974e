package queuetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Sequences applies random operations to two queues. It expects the same leases in the same order,
// the same refusals, progress and records. In each queue no two leases may share a lock, no bound
// is passed, and nothing is stuck in the end.
//
// Times in it are now or an hour away, and weights so high that served time does not matter: the
// order is that of rule 9 and the clock has no part in it. A sequence ends early on a machine so
// busy that served time would matter.
func Sequences(t *testing.T, model, subject Subject) {
	whole, fault := 0, ""
	defer func() {
		if t.Failed() {
			t.Log("in short:", fault) // below all that was drawn
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, model.Open(rt, longTTL), subject.Open(rt, longTTL))
		defer func() { fault = cmp.Or(m.fault, fault) }()
		inTime := func(action func(*rapid.T)) func(*rapid.T) {
			return func(rt *rapid.T) {
				if !m.late() {
					action(rt)
				}
			}
		}
		actions := map[string]func(*rapid.T){
			"submit": m.submit, "submit many": m.submitMany, "turn": m.turn, "turn ": m.turn, "turn  ": m.turn, "cancel": m.cancel,
			"adjust": m.adjust, "save": m.save, "wake": m.signal, "dismiss": m.dismiss, "restart": m.restart, "again": m.again, "news": m.news,
			"": m.check,
		}
		for name, action := range actions {
			actions[name] = inTime(action)
		}
		rt.Repeat(actions)
		if !m.late() {
			m.drain(rt)
			whole++
		}
	})
	if whole == 0 && !t.Failed() {
		t.Errorf("no sequence was over within %v: nothing was compared to its end", servedMatters)
	}
}

// servedMatters is how long a sequence may take: at most nine jobs run at the same time, and the
// tag of a run at half of MaxWeight grows by one after five seconds of worker time.
const servedMatters = 400 * time.Millisecond

const machineNodes = 2

var machineTenants = []string{"t{0}", "t:1"}

// side is one of the two queues, with the leases that its nodes hold.
type side struct {
	q        queue.Queue
	sessions [machineNodes]string
	held     [machineNodes][]queue.Lease
	news     map[int]string    // cursors of parts
	logs     map[string]string // cursors of runs' records
}

// machine drives both sides in step.
type machine struct {
	sides [2]*side
	runs  []queue.Run
	limit map[string]int
	off   map[string]bool // paused, cancelled or stopped: nothing of it may be leased
	kept  map[core.JobID]bool
	began time.Time
	fault string // the first difference
}

// late reports that served time may matter.
func (m *machine) late() bool { return time.Since(m.began) >= servedMatters }

func newMachine(t *rapid.T, model, subject queue.Queue) *machine {
	m := &machine{limit: map[string]int{}, off: map[string]bool{}, kept: map[core.JobID]bool{}, began: time.Now()}
	for i, q := range []queue.Queue{model, subject} {
		m.sides[i] = &side{q: q, news: map[int]string{}, logs: map[string]string{}}
		for n := range machineNodes {
			m.sides[i].open(t, n)
		}
	}
	for i, tenant := range machineTenants { // keeps the tenant known, and the order of tenants
		m.add(t, queue.Run{
			ID: fmt.Sprint("anchor", i), Tenant: tenant, TenantWeight: queue.MaxWeight, Weight: queue.MaxWeight,
			Targets: []queue.Target{{Host: fmt.Sprint("anchor", i)}}, Segments: []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 1}},
		})
	}
	return m
}

func (s *side) open(t *rapid.T, node int) {
	id, err := s.q.Open(t.Context(), fmt.Sprint("node", node))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	s.sessions[node], s.held[node] = id, nil
}

// both runs an operation on both sides and compares the results.
func both[T any](t *rapid.T, m *machine, what string, op func(*side) (T, error)) T {
	t.Helper()
	a, errA := op(m.sides[0])
	b, errB := op(m.sides[1])
	if errA != nil || errB != nil {
		m.fault = fmt.Sprintf("%s: model %v, subject %v", what, errA, errB)
		t.Fatal(m.fault)
	}
	if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
		if m.late() { // a stall in the middle: one side counts more served time
			t.Skip("served time matters")
		}
		m.fault = fmt.Sprintf("%s differs:\nmodel   %s\nsubject %s", what, x, y)
		t.Fatal(m.fault)
	}
	return a
}

func (m *machine) add(t *rapid.T, r queue.Run) {
	created := both(t, m, "Submit", func(s *side) (bool, error) { return queue.SubmitOne(t.Context(), s.q, r) })
	if !created {
		t.Fatalf("Submit(%q) created nothing", r.ID)
	}
	m.runs = append(m.runs, r)
	m.limit[r.ID] = r.Limit
}

func (m *machine) submit(t *rapid.T) {
	if len(m.runs) > 10 {
		t.Skip("enough runs")
	}
	num := func(lo, hi int, label string) int { return rapid.IntRange(lo, hi).Draw(t, label) }
	r := queue.Run{
		ID:     fmt.Sprint("r", len(m.runs)),
		Tenant: rapid.SampledFrom(machineTenants).Draw(t, "tenant"), TenantWeight: queue.MaxWeight,
		Weight:   rapid.SampledFrom([]int{queue.MaxWeight, queue.MaxWeight / 2}).Draw(t, "weight"),
		Priority: rapid.SampledFrom([]int{0, 0, -5, 3}).Draw(t, "priority"),
		Limit:    num(0, 4, "limit"), MaxInFlight: num(0, 3, "max in flight"), PerGroup: num(0, 2, "per group"),
		StopAfter: num(0, 4, "stop after"), StopUnreachable: num(0, 3, "stop unreachable"),
		Disruptive: rapid.Bool().Draw(t, "disruptive"),
	}
	n := num(1, 10, "targets")
	for i := range n {
		r.Targets = append(r.Targets, queue.Target{
			Host: fmt.Sprint("h", num(0, 6, "host")), HAGroup: []string{"", "x", "y"}[num(0, 2, "HA group")],
			Group: []string{"", "g", "k"}[num(0, 2, "group")], Data: fmt.Append(nil, i),
		})
	}
	if n > 2 && rapid.Bool().Draw(t, "segments") {
		for left := n; left > 0; left -= r.Segments[len(r.Segments)-1].Count {
			s := queue.Segment{Count: min(left, num(1, 4, "segment"))}
			switch num(0, 3, "due") {
			case 0:
				s.Due = time.Now().Add(time.Duration(num(1, 3, "hours")) * time.Hour)
			case 1:
				s.Due = time.Unix(1, 0)
			}
			r.Segments = append(r.Segments, s)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "recovered") == 0 {
		r.FinishedJobs, r.Paused = drawFinished(t, n), rapid.Bool().Draw(t, "paused")
	}
	m.add(t, r)
}

// submitMany submits small runs in one call.
func (m *machine) submitMany(t *rapid.T) {
	if len(m.runs) > 20 {
		t.Skip("enough runs")
	}
	var runs []queue.Run
	for i := range rapid.IntRange(1, 5).Draw(t, "runs") {
		r := queue.Run{
			ID:     fmt.Sprint("s", len(m.runs)+i),
			Tenant: rapid.SampledFrom(machineTenants).Draw(t, "tenant"), TenantWeight: queue.MaxWeight, Weight: queue.MaxWeight,
			Priority: rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "priority"),
			Paused:   rapid.SampledFrom([]bool{false, false, true}).Draw(t, "paused"),
		}
		for h := range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "targets") {
			r.Targets = append(r.Targets, queue.Target{Host: fmt.Sprint("h", rapid.IntRange(0, 9).Draw(t, "host")), Data: fmt.Append(nil, h)})
		}
		if rapid.SampledFrom([]bool{false, false, true}).Draw(t, "timed") {
			r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: len(r.Targets)}}
		}
		runs = append(runs, r)
	}
	if rapid.Bool().Draw(t, "one twice") {
		runs = append(runs, runs[0])
	}
	both(t, m, "Submit", func(s *side) (string, error) { return fmt.Sprint(s.q.Submit(t.Context(), runs...)), nil })
	for _, r := range runs {
		if !slices.ContainsFunc(m.runs, func(o queue.Run) bool { return o.ID == r.ID }) {
			m.runs = append(m.runs, r)
		}
	}
}

// drawFinished draws what was recorded of a run of n targets whose queue was lost.
func drawFinished(t *rapid.T, n int) (list []queue.FinishedJobs) {
	for i := rapid.IntRange(0, 2).Draw(t, "open"); i < n; i += rapid.IntRange(0, 2).Draw(t, "open") {
		s := queue.FinishedJobs{Index: i, Count: rapid.IntRange(1, n-i).Draw(t, "settled"), Outcome: rapid.SampledFrom(core.Outcomes()).Draw(t, "outcome")}
		if s.Outcome == core.Lost && rapid.Bool().Draw(t, "not lost") {
			s.Outcome = core.Changed
		}
		list = append(list, s)
		i += s.Count
	}
	return list
}

// drawAck draws an ack of a lease; token 0 asks for a stale one.
func drawAck(t *rapid.T) queue.Ack {
	a := queue.Ack{Kind: rapid.SampledFrom([]queue.AckKind{
		queue.AckDone, queue.AckDone, queue.AckDone, queue.AckRetry, queue.AckReturn, queue.AckSuspend,
	}).Draw(t, "kind")}
	a.Outcome = rapid.SampledFrom(append(core.Outcomes(), core.Changed, core.Changed, core.Failed)).Draw(t, "outcome")
	if a.Outcome == core.Lost && !rapid.Bool().Draw(t, "really lost") {
		a.Outcome = core.Unchanged
	}
	if rapid.IntRange(0, 4).Draw(t, "later") == 0 {
		a.After = time.Hour
	}
	if a.Kind == queue.AckSuspend {
		a.KeepLocks = rapid.Bool().Draw(t, "keep")
		a.Event = rapid.SampledFrom([]string{"", "e", "f", queue.EventWindow, queue.EventWindow}).Draw(t, "event")
	}
	a.State = fmt.Append(nil, rapid.IntRange(0, 9).Draw(t, "state"))
	a.Detail = a.State
	if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
		a.Token = 1 << 60
	}
	return a
}

// seen is the part of an answer that must be the same on both sides.
type seen struct {
	Leases []string
	Stale  []core.JobID
	Stop   []string
}

func (m *machine) turn(t *rapid.T) {
	node := rapid.IntRange(0, machineNodes-1).Draw(t, "node")
	want := rapid.IntRange(0, 5).Draw(t, "want")
	var acks []queue.Ack
	for i := range m.sides[0].held[node] {
		if !rapid.Bool().Draw(t, "ack") {
			continue
		}
		a := drawAck(t)
		a.Job = m.sides[0].held[node][i].Job
		m.drawCleanup(t, &a)
		acks = append(acks, a)
	}
	m.exchange(t, node, want, acks)
}

// exchange is one turn on both sides.
func (m *machine) exchange(t *rapid.T, node, want int, acks []queue.Ack) seen {
	return both(t, m, "Turn", func(s *side) (seen, error) {
		turn := queue.Turn{Session: s.sessions[node], Want: want}
		for _, a := range acks {
			i := slices.IndexFunc(s.held[node], func(l queue.Lease) bool { return l.Job == a.Job })
			if a.Token == 0 {
				a.Token = s.held[node][i].Token
				s.held[node] = slices.Delete(s.held[node], i, i+1)
				m.kept[a.Job] = a.Kind == queue.AckSuspend && a.KeepLocks
			}
			turn.Acks = append(turn.Acks, a)
		}
		res, err := s.q.Turn(t.Context(), turn)
		out := seen{Stale: res.Stale}
		for _, l := range res.Leases {
			delete(m.kept, l.Job)
			out.Leases = append(out.Leases, fmt.Sprintf("%v host %s data %q attempt %d state %q over %q", l.Job, l.Host, l.Data, l.Attempt, l.State, l.Over))
			if m.off[l.Job.Run] && l.Over == "" {
				t.Fatalf("leased %v though its run is paused or over", l.Job)
			}
		}
		for _, id := range res.Stop {
			out.Stop = append(out.Stop, id.String())
		}
		slices.Sort(out.Stop)
		s.held[node] = append(s.held[node], res.Leases...)
		return out, err
	})
}

// save saves a state of a lease, of a stale one now and then.
func (m *machine) save(t *rapid.T) {
	node := rapid.IntRange(0, machineNodes-1).Draw(t, "node")
	held := m.sides[0].held[node]
	if len(held) == 0 {
		t.Skip("nothing is leased")
	}
	job := rapid.SampledFrom(held).Draw(t, "lease").Job
	state, seq := fmt.Append(nil, rapid.IntRange(0, 9).Draw(t, "state")), rapid.Uint64Range(1, 9).Draw(t, "number")
	stale := uint64(rapid.IntRange(0, 9).Draw(t, "stale") / 9)
	both(t, m, "Save", func(s *side) (bool, error) {
		i := slices.IndexFunc(s.held[node], func(l queue.Lease) bool { return l.Job == job })
		err := s.q.Save(t.Context(), queue.Save{Session: s.sessions[node], Job: job, Token: s.held[node][i].Token + stale, Seq: seq, State: state})
		if errors.Is(err, core.ErrConflict) {
			return false, nil
		}
		return true, err
	})
}

// pick draws one of the submitted runs, never an anchor.
func (m *machine) pick(t *rapid.T) queue.Run {
	if len(m.runs) == len(machineTenants) {
		t.Skip("no runs")
	}
	return rapid.SampledFrom(m.runs[len(machineTenants):]).Draw(t, "run")
}

func (m *machine) cancel(t *rapid.T) {
	id := m.pick(t).ID
	if rapid.IntRange(0, 2).Draw(t, "cancel") > 0 {
		t.Skip("not this time")
	}
	both(t, m, "Cancel", func(s *side) (bool, error) { return true, s.q.Cancel(t.Context(), id, "because") })
}

func (m *machine) adjust(t *rapid.T) {
	r := m.pick(t)
	var a queue.Adjust
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		a.Paused = new(rapid.Bool().Draw(t, "paused"))
	case 1:
		a.Weight = new(queue.MaxWeight / rapid.IntRange(1, 2).Draw(t, "part"))
	case 2:
		if rapid.IntRange(0, 2).Draw(t, "stop") > 0 {
			t.Skip("not this time")
		}
		a.Stop = "because"
	default:
		a.Limit = new(rapid.IntRange(0, len(r.Targets)).Draw(t, "limit"))
	}
	both(t, m, "Adjust", func(s *side) (bool, error) { return true, queue.AdjustOne(t.Context(), s.q, r.ID, a) })
	if a.Limit != nil && m.limit[r.ID] != 0 && (*a.Limit == 0 || *a.Limit > m.limit[r.ID]) {
		m.limit[r.ID] = *a.Limit
	}
}

func (m *machine) signal(t *rapid.T) {
	id, event := m.pick(t).ID, rapid.SampledFrom([]string{"e", "f", queue.EventWindow}).Draw(t, "event")
	both(t, m, "Signal", func(s *side) (int, error) { return s.q.Signal(t.Context(), id, event) })
}

func (m *machine) dismiss(t *rapid.T) {
	id, event := m.pick(t).ID, rapid.SampledFrom([]string{"e", "f", queue.EventWindow}).Draw(t, "event")
	if rapid.IntRange(0, 2).Draw(t, "dismiss") > 0 {
		t.Skip("not this time")
	}
	both(t, m, "Dismiss", func(s *side) (int, error) { return s.q.Dismiss(t.Context(), id, event, "not wanted") })
}

func (m *machine) restart(t *rapid.T) {
	node := rapid.IntRange(0, machineNodes-1).Draw(t, "node")
	both(t, m, "Close", func(s *side) (bool, error) {
		err := s.q.Close(t.Context(), s.sessions[node])
		s.open(t, node)
		return true, err
	})
}

func (m *machine) again(t *rapid.T) {
	r := m.pick(t)
	r.FinishedJobs, r.Paused = drawFinished(t, len(r.Targets)), rapid.Bool().Draw(t, "paused") // is no content
	both(t, m, "Submit again", func(s *side) (bool, error) { return queue.SubmitOne(t.Context(), s.q, r) })
}

// progress is the part of Status that does not depend on how lazily work is done.
type progress struct {
	Phase     queue.Phase
	Complete  bool
	Limit     int
	Queued    int // pending, blocked, waiting, or not yet swept
	InFlight  int
	Suspended int
	Deferred  int
	Outcomes  string
}

func (m *machine) check(t *rapid.T) {
	for _, r := range m.runs {
		p := both(t, m, "Status of "+r.ID, func(s *side) (progress, error) { return s.progress(t, r.ID) })
		m.off[r.ID] = p.Phase != queue.Active
	}
	m.invariants(t)
	for _, s := range m.sides {
		findings, err := s.q.Check(t.Context(), false)
		if err != nil || len(findings) > 0 {
			t.Fatalf("Check: %+v, %v", findings, err)
		}
	}
}

func (s *side) progress(t *rapid.T, id string) (progress, error) {
	st, err := s.q.Status(t.Context(), id)
	p := progress{
		Phase: st.Phase, Complete: st.Complete, Limit: st.Limit, Queued: st.Pending + st.Blocked + st.Waiting,
		InFlight: st.InFlight, Suspended: st.Suspended, Deferred: st.Deferred,
	}
	sum := p.Queued + p.InFlight + p.Suspended
	for _, o := range core.Outcomes() {
		if n := st.Outcomes[o]; n > 0 {
			p.Outcomes += fmt.Sprintf("%s %d ", o, n)
			sum += n
		}
	}
	if sum != st.Total {
		t.Fatalf("Status does not add up: %+v", st)
	}
	return p, err
}

// invariants checks what is leased: rules 5 and 6.
func (m *machine) invariants(t *rapid.T) {
	s := m.sides[1]
	hosts, ha, group := map[string]core.JobID{}, map[string]core.JobID{}, map[string]int{}
	perRun := map[string]int{}
	for _, l := range slices.Concat(s.held[0], s.held[1]) {
		i := slices.IndexFunc(m.runs, func(r queue.Run) bool { return r.ID == l.Job.Run })
		r := &m.runs[i]
		target := r.Targets[l.Job.Index]
		if slices.ContainsFunc(r.FinishedJobs, func(s queue.FinishedJobs) bool { return s.Index <= l.Job.Index && l.Job.Index < s.Index+s.Count }) {
			t.Fatalf("%v was leased, it is finished: %v", l.Job, r.FinishedJobs)
		}
		if other, held := hosts[target.Host]; held {
			t.Fatalf("%v and %v share host %s", other, l.Job, target.Host)
		}
		hosts[target.Host] = l.Job
		if r.Disruptive && target.HAGroup != "" {
			if other, held := ha[target.HAGroup]; held {
				t.Fatalf("%v and %v share HA group %s", other, l.Job, target.HAGroup)
			}
			ha[target.HAGroup] = l.Job
		}
		perRun[r.ID]++
		if r.MaxInFlight > 0 && perRun[r.ID] > r.MaxInFlight {
			t.Fatalf("run %s has more than %d in flight", r.ID, r.MaxInFlight)
		}
		if g := r.ID + " " + target.Group; r.PerGroup > 0 && target.Group != "" {
			if group[g]++; group[g] > r.PerGroup {
				t.Fatalf("run %s has more than %d of group %s in flight", r.ID, r.PerGroup, target.Group)
			}
		}
		if limit := m.limit[r.ID]; limit > 0 && l.Job.Index >= limit {
			t.Fatalf("%v is beyond the limit %d", l.Job, limit)
		}
	}
}

// drain lets everything run to its end: what is not timed must complete.
func (m *machine) drain(t *rapid.T) {
	for _, r := range m.runs {
		a := queue.Adjust{Paused: new(false), Limit: new(0)}
		both(t, m, "Adjust", func(s *side) (bool, error) { return true, queue.AdjustOne(t.Context(), s.q, r.ID, a) })
		m.off[r.ID], m.limit[r.ID] = false, 0
	}
	m.free(t)
	for idle := 0; idle < 2; {
		idle++
		for node := range machineNodes {
			acks := core.Map(m.sides[0].held[node], func(l queue.Lease) queue.Ack {
				return queue.Ack{Job: l.Job, Kind: queue.AckDone, Outcome: core.Changed}
			})
			if len(m.exchange(t, node, 5, acks).Leases)+len(acks) > 0 {
				idle = 0
			}
			m.invariants(t)
		}
	}
	m.check(t)
	m.explainAll(t)
	for _, r := range m.runs {
		m.ended(t, r)
	}
}

// explainAll compares the state of each job, its event and the code of its reason; of one that has
// ended, also the text.
func (m *machine) explainAll(t *rapid.T) {
	for _, r := range m.runs {
		for i := range r.Targets {
			both(t, m, "Explain", func(s *side) (string, error) {
				ex, err := s.q.Explain(t.Context(), core.JobID{Run: r.ID, Index: i})
				if ex.State != core.Done {
					ex.Reason = core.Because(ex.Reason.Code(), "")
				}
				return string(ex.State) + " " + ex.Event + " " + string(ex.Reason), err
			})
		}
	}
}

// free ends what holds locks for an hour: jobs suspended with their locks.
func (m *machine) free(t *rapid.T) {
	for _, id := range slices.SortedFunc(maps.Keys(m.kept), func(a, b core.JobID) int { return slices.Compare([]byte(a.String()), []byte(b.String())) }) {
		if m.kept[id] {
			both(t, m, "Cancel", func(s *side) (bool, error) { return true, s.q.Cancel(t.Context(), id.Run, "holds locks") })
		}
	}
}

// ended compares the records, and expects that only timed jobs are left.
func (m *machine) ended(t *rapid.T, r queue.Run) {
	st, err := m.sides[1].q.Status(t.Context(), r.ID)
	if err != nil || st.Blocked+st.InFlight > 0 {
		t.Fatalf("something is stuck in %+v, %v", st, err)
	}
	for _, s := range m.sides {
		stats, err := s.q.Stats(t.Context())
		if err != nil || stats.Ready > 0 || stats.InFlight > 0 {
			t.Fatalf("the queue is not drained: %+v, %v", stats, err)
		}
	}
	both(t, m, "Records of "+r.ID, func(s *side) (map[int]string, error) {
		got := map[int]string{}
		sight := s.q.Poll(t.Context(), 10_000, queue.Ask{Run: r.ID})[0]
		for _, rec := range sight.Records {
			for i := rec.Index; i < rec.Index+rec.Count; i++ {
				if got[i] != "" {
					t.Fatalf("job %d of %s was recorded twice", i, r.ID)
				}
				got[i] = string(rec.Outcome)
				if rec.Outcome != core.Cancelled {
					got[i] = fmt.Sprintf("%s attempt %d detail %q", rec.Outcome, rec.Attempt, rec.Detail)
				}
			}
		}
		return got, sight.Err
	})
}
