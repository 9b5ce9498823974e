package queuebench

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Scenario is a contest for the concurrency of workers, in virtual time.
type Scenario struct {
	Name        string
	Concurrency int
	Runs        []Run         // in order of At
	ByTenant    bool          // the parties are tenants, not runs
	From        time.Duration // window in which worker time is compared
	To          time.Duration
	End         time.Duration // the simulation ends here; 0 means when all is done
}

// Run is a bulk run of equal jobs.
type Run struct {
	Name   string
	Tenant string
	Jobs   int
	Each   time.Duration
	At     time.Duration // when it is submitted
}

// Scenarios are the three contests that the issue names.
func Scenarios() []Scenario {
	ms, s := time.Millisecond, time.Second
	tenants := Scenario{Name: "tenant of 50 runs against tenant of 1", Concurrency: 20, ByTenant: true, To: 300 * s, End: 300 * s}
	for i := range 50 {
		tenants.Runs = append(tenants.Runs, Run{Name: fmt.Sprintf("many-%02d", i), Tenant: "many", Jobs: 200, Each: s})
	}
	tenants.Runs = append(tenants.Runs, Run{Name: "one", Tenant: "one", Jobs: 10_000, Each: s})
	return []Scenario{
		{
			Name: "Alice 3000 jobs, then Bob 4", Concurrency: 10, From: 1030 * ms, To: 2030 * ms,
			Runs: []Run{{Name: "alice", Jobs: 3000, Each: 100 * ms}, {Name: "bob", Jobs: 4, Each: 100 * ms, At: 1030 * ms}},
		},
		{
			Name: "30 s jobs against 1 s jobs", Concurrency: 10, To: 1800 * s, End: 1800 * s,
			Runs: []Run{{Name: "long", Jobs: 900, Each: 30 * s}, {Name: "short", Jobs: 50_000, Each: s}},
		},
		tenants,
	}
}

// FairResult is one scenario under one policy.
type FairResult struct {
	Scenario    string  `json:"scenario"`
	Policy      string  `json:"policy"`
	Concurrency int     `json:"concurrency"`
	Parties     []Party `json:"parties"`
	// Jain's index over what each party got in the window, of what it could use
	// of an equal share: 1 is fair, 1/n is all to one.
	Jain    float64 `json:"jain"`
	Touched int     `json:"touched"` // entries that the policy moved about to keep its order
}

// Party is a run, or a tenant, in a result.
type Party struct {
	Name       string       `json:"name"`
	Done       int          `json:"done"`
	Took       core.Seconds `json:"took_seconds"` // from submission to its last end; 0 when it was not done
	Later      float64      `json:"later"`        // share by which Took is longer than alone on all workers; 0 when not done
	WorkerTime core.Seconds `json:"worker_time_seconds"`
	Share      float64      `json:"share"` // of the worker time in the window
}

// Fair runs every scenario under every policy: first come first served, the
// classic reordering pass, and the queue of Turnus itself.
func Fair(ctx context.Context, scenarios []Scenario) ([]FairResult, error) {
	var results []FairResult
	for _, sc := range scenarios {
		for _, start := range []func() (policy, error){newFirstCome, newReordering, newTurnus} {
			p, err := start()
			if err != nil {
				return nil, err
			}
			res, err := simulate(ctx, sc, p)
			if err != nil {
				return nil, fmt.Errorf("scenario %q under %s: %w", sc.Name, p.name(), err)
			}
			if err := res.compareAlone(ctx, sc, start); err != nil {
				return nil, err
			}
			results = append(results, *res)
		}
	}
	return results, nil
}

// compareAlone fills Later in: each party that was done, against the same alone.
func (r *FairResult) compareAlone(ctx context.Context, sc Scenario, start func() (policy, error)) error {
	if sc.ByTenant {
		return nil
	}
	for i, t := range sc.Runs {
		if r.Parties[i].Took == 0 {
			continue
		}
		p, err := start()
		if err != nil {
			return err
		}
		alone := sc
		alone.Runs = []Run{t}
		res, err := simulate(ctx, alone, p)
		if err != nil {
			return fmt.Errorf("%s alone under %s: %w", t.Name, p.name(), err)
		}
		if took := res.Parties[0].Took; took > 0 {
			r.Parties[i].Later = float64(r.Parties[i].Took/took) - 1
		}
	}
	return nil
}

// running is a job in a slot.
type running struct {
	run        int
	start, end time.Duration
	handle     handle
}

// ends orders running jobs by their end.
type ends []running

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(running)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// simulate is a discrete event simulation: submissions and ends of jobs are the events.
func simulate(ctx context.Context, sc Scenario, p policy) (*FairResult, error) {
	m := newMeter(sc)
	var concurrency ends
	next := 0 // run to submit, they are in order of time
	for now := time.Duration(0); ctx.Err() == nil; {
		for ; next < len(sc.Runs) && sc.Runs[next].At <= now; next++ {
			if err := p.submit(now, next, sc.Runs[next]); err != nil {
				return nil, err
			}
		}
		var finished []handle
		for len(concurrency) > 0 && concurrency[0].end <= now {
			j := heap.Pop(&concurrency).(running)
			finished = append(finished, j.handle)
			m.ended(j)
		}
		started, err := p.turn(now, finished, sc.Concurrency-len(concurrency))
		if err != nil {
			return nil, err
		}
		for _, h := range started {
			heap.Push(&concurrency, running{run: h.run, start: now, end: now + sc.Runs[h.run].Each, handle: h})
		}
		switch {
		case len(concurrency) > 0 && (next == len(sc.Runs) || concurrency[0].end <= sc.Runs[next].At):
			now = concurrency[0].end
		case next < len(sc.Runs):
			now = sc.Runs[next].At
		default:
			return m.result(p, nil), nil
		}
		if sc.End > 0 && now > sc.End {
			return m.result(p, concurrency), nil
		}
	}
	return nil, ctx.Err()
}

// meter adds up what each party gets.
type meter struct {
	sc      Scenario
	parties []Party
	index   []int // party of a run
	window  []time.Duration
	demand  []time.Duration
	jobs    []int
	at      []time.Duration
}

func newMeter(sc Scenario) *meter {
	m := &meter{sc: sc, index: make([]int, len(sc.Runs))}
	known := map[string]int{}
	for i, t := range sc.Runs {
		name := t.Name
		if sc.ByTenant {
			name = t.Tenant
		}
		party, ok := known[name]
		if !ok {
			party = len(m.parties)
			known[name] = party
			m.parties = append(m.parties, Party{Name: name})
			m.window = append(m.window, 0)
			m.demand = append(m.demand, 0)
			m.jobs = append(m.jobs, 0)
			m.at = append(m.at, t.At)
		}
		m.index[i] = party
		m.demand[party] += time.Duration(t.Jobs) * t.Each
		m.jobs[party] += t.Jobs
	}
	return m
}

func (m *meter) ended(j running) {
	i := m.index[j.run]
	party := &m.parties[i]
	party.Done++
	if party.Done == m.jobs[i] {
		party.Took = core.InSeconds(j.end - m.at[i])
	}
	m.served(j, j.end)
}

// served counts worker time until a job's end, or the simulation's.
func (m *meter) served(j running, end time.Duration) {
	i := m.index[j.run]
	m.parties[i].WorkerTime += core.InSeconds(end - j.start)
	if part := min(end, m.sc.To) - max(j.start, m.sc.From); part > 0 {
		m.window[i] += part
	}
}

func (m *meter) result(p policy, unfinished []running) *FairResult {
	for _, j := range unfinished {
		m.served(j, m.sc.End)
	}
	total := time.Duration(0)
	for _, w := range m.window {
		total += w
	}
	equal := time.Duration(m.sc.Concurrency) * (m.sc.To - m.sc.From) / time.Duration(len(m.parties))
	got := make([]float64, len(m.parties))
	for i := range m.parties {
		if total > 0 {
			m.parties[i].Share = float64(m.window[i]) / float64(total)
		}
		got[i] = min(1, float64(m.window[i])/float64(min(equal, m.demand[i])))
	}
	return &FairResult{
		Scenario: m.sc.Name, Policy: p.name(), Concurrency: m.sc.Concurrency, Parties: m.parties,
		Jain: jain(got), Touched: p.touched(),
	}
}

// jain is (Σx)² / (n·Σx²).
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}
