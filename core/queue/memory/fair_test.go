package memory_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// contest drives the queue in virtual time: flows that always have ready jobs, few slots.
type contest struct {
	q           *memory.Queue
	now         time.Time
	session     string
	concurrency int
	runs        []queue.Run
	each        []time.Duration
	running     []contestJob
	flying      []int
	served      []time.Duration
}

type contestJob struct {
	run   int
	end   time.Time
	lease queue.Lease
}

const (
	contestFlows       = 6
	contestConcurrency = 8
	contestSteps       = 1500
)

// contestTargets are as many as a flow can lease in a contest. They are made once: it is all that a
// contest costs.
func contestTargets() (flows [contestFlows][]queue.Target) {
	for i := range flows {
		flows[i] = make([]queue.Target, (contestSteps+1)*contestConcurrency)
		for k := range flows[i] {
			flows[i][k].Host = strconv.Itoa(i) + "-" + strconv.Itoa(k)
		}
	}
	return flows
}

func newContest(t *rapid.T, targets [contestFlows][]queue.Target) *contest {
	c := &contest{now: time.Unix(0, 0), concurrency: rapid.IntRange(1, contestConcurrency).Draw(t, "slots")}
	c.q = memory.New(memory.Options{SessionTTL: 1e6 * time.Hour, Now: func() time.Time { return c.now }})
	var err error
	if c.session, err = c.q.Open(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(2, contestFlows).Draw(t, "flows") {
		r := queue.Run{
			ID: fmt.Sprint(i), Targets: targets[i][:(contestSteps+1)*c.concurrency],
			Weight:   rapid.IntRange(1, 4).Draw(t, "weight"),
			Priority: rapid.IntRange(-queue.MaxPriority, queue.MaxPriority).Draw(t, "priority"),
		}
		submitTo(t, c.q, r)
		c.runs = append(c.runs, r)
		c.each = append(c.each, time.Duration(rapid.IntRange(50, 5000).Draw(t, "ms each"))*time.Millisecond)
	}
	c.flying = make([]int, len(c.runs))
	c.served = make([]time.Duration, len(c.runs))
	return c
}

func submitTo(t *rapid.T, q *memory.Queue, r queue.Run) {
	if _, err := queue.SubmitOne(t.Context(), q, r); err != nil {
		t.Fatal(err)
	}
}

// step ends what ends next and fills the slots again.
func (c *contest) step(t *rapid.T) {
	if len(c.running) > 0 {
		c.now = c.running[0].end
		for _, j := range c.running {
			if j.end.Before(c.now) {
				c.now = j.end
			}
		}
	}
	turn := queue.Turn{Session: c.session}
	kept := c.running[:0]
	for _, j := range c.running {
		if j.end.After(c.now) {
			kept = append(kept, j)
			continue
		}
		c.flying[j.run]--
		c.served[j.run] += c.each[j.run]
		turn.Acks = append(turn.Acks, queue.Ack{Job: j.lease.Job, Token: j.lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
	}
	c.running = kept
	turn.Want = c.concurrency - len(kept)
	res, err := c.q.Turn(t.Context(), turn)
	if err != nil || len(res.Leases) != turn.Want {
		t.Fatalf("%d leases of %d, %v", len(res.Leases), turn.Want, err)
	}
	for _, l := range res.Leases {
		run := int(l.Job.Run[0] - '0')
		c.fewest(t, run)
		c.flying[run]++
		c.running = append(c.running, contestJob{run, c.now.Add(c.each[run]), l})
	}
}

// fewest expects that the flow that is leased from has the smallest share in flight, so
// that shares never differ by more than one job for their weight through a lease.
func (c *contest) fewest(t *rapid.T, run int) {
	mine := 64 * c.flying[run] / c.runs[run].Weight
	for other := range c.runs {
		if theirs := 64 * c.flying[other] / c.runs[other].Weight; theirs < mine {
			t.Fatalf("run %d was leased from at a share of %d/64, run %d had %d/64", run, mine, other, theirs)
		}
	}
}

// TestNobodyStarves: whatever weights, priorities and lengths of jobs, every flow
// gets a good part of its share of worker time, and leases follow shares in flight.
func TestNobodyStarves(t *testing.T) {
	targets := contestTargets()
	rapid.Check(t, func(t *rapid.T) {
		c := newContest(t, targets)
		for range contestSteps {
			c.step(t)
		}
		total, weights := time.Duration(0), 0
		for i := range c.runs {
			total += c.served[i]
			weights += c.runs[i].Weight
		}
		for i := range c.runs {
			// The most that priority can cost of a flow's own worker time, and one job's grain.
			grace := 2*time.Duration(queue.HeadStart(queue.MaxPriority))*queue.TagUnit*time.Duration(weights) + 10*time.Second
			fair := (total - grace) * time.Duration(c.runs[i].Weight) / time.Duration(weights)
			if c.served[i] < fair/3 {
				t.Fatalf("flow %d (weight %d of %d) was served %v of %v", i, c.runs[i].Weight, weights, c.served[i], total)
			}
		}
	})
}

// slot does one job at a time in virtual time.
type slot struct {
	tb      testing.TB
	q       *memory.Queue
	now     time.Time
	session string
}

func newSlot(tb testing.TB) *slot {
	s := &slot{tb: tb, now: time.Unix(0, 0)}
	s.q = memory.New(memory.Options{SessionTTL: 1e6 * time.Hour, Now: func() time.Time { return s.now }})
	s.session = openSession(tb, s.q)
	return s
}

// work does jobs one after the other, each as long as took has for its run, and returns how often
// each run was chosen.
func (s *slot) work(jobs int, took map[string]time.Duration) map[string]int {
	s.tb.Helper()
	n := map[string]int{}
	for range jobs {
		l := turn(s.tb, s.q, s.session, 1, nil).Leases[0]
		n[l.Job.Run]++
		s.now = s.now.Add(took[l.Job.Run])
		turn(s.tb, s.q, s.session, 0, []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}})
	}
	return n
}

// A flow, or a tenant, that was idle for an hour has no claim on that hour.
func TestIdleEarnsNoCredit(t *testing.T) {
	for _, tenants := range [][2]string{{"same", "same"}, {"one", "other"}} {
		s := newSlot(t)
		busy, idle := bulk("busy", 5000), bulk("idle", 1001)
		busy.Tenant, idle.Tenant = tenants[0], tenants[1]
		idle.Segments = []queue.Segment{{Count: 1}, {Due: s.now.Add(time.Hour), Count: 1000}}
		submit(t, s.q, busy)
		submit(t, s.q, idle)
		each := map[string]time.Duration{"busy": time.Second, "idle": time.Second}
		if n := s.work(3700, each); n["idle"] < 2 {
			t.Fatalf("the idle flow was not active again: %v", n)
		}
		if n := s.work(100, each); n["busy"] < 45 || n["busy"] > 55 {
			t.Errorf("tenants %v: after its pause the idle flow had %d of 100 turns, expected half", tenants, n["idle"])
		}
		st, err := s.q.Status(t.Context(), "idle")
		if err != nil || st.Outcomes[core.Changed] > 120 {
			t.Errorf("tenants %v: the idle flow made up for its pause: %v, %v", tenants, st.Outcomes, err)
		}
	}
}

// Flows, and tenants, that take turns on one slot share its time, not the number of turns, also
// where the queue has served years of worker time before.
func TestOneSlotIsSharedByTime(t *testing.T) {
	for years, may := range map[int]int{0: 5, 3: 5, 400: 15} { // after 400 years tags have steps of 164 s
		for _, tenants := range [][2]string{{"same", "same"}, {"one", "other"}} {
			s := newSlot(t)
			old := bulk("old", years+1)
			old.Tenant = tenants[0]
			submit(t, s.q, old)
			s.work(years, map[string]time.Duration{"old": 365 * 24 * time.Hour})
			s.work(1, nil)
			long, short := bulk("long", 200), bulk("short", 5000)
			long.Tenant, short.Tenant = tenants[0], tenants[1]
			submit(t, s.q, long)
			submit(t, s.q, short)
			n := s.work(1000, map[string]time.Duration{"long": 9 * time.Second, "short": time.Second})
			if n["long"] < 100-may || n["long"] > 100+may {
				t.Errorf("after %d years, tenants %v: jobs of 9 s had %d of 1000 turns beside jobs of 1 s, expected 100", years, tenants, n["long"])
			}
		}
	}
}
