package queuebench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fairResults runs the whole table once, by scenario and policy.
func fairResults(t *testing.T) map[string]map[string]FairResult {
	t.Helper()
	results, err := Fair(t.Context(), Scenarios())
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]map[string]FairResult{}
	for _, r := range results {
		if table[r.Scenario] == nil {
			table[r.Scenario] = map[string]FairResult{}
		}
		table[r.Scenario][r.Policy] = r
		t.Logf("%-36s %-24s jain %.3f touched %d", r.Scenario, r.Policy, r.Jain, r.Touched)
		for _, p := range r.Parties {
			t.Logf("    %-6s done %5d took %8v later %6.2f%% share %.3f", p.Name, p.Done, p.Took, 100*p.Later, p.Share)
		}
	}
	return table
}

// TestFairness holds the queue to what it promises, and shows that the two
// other policies would fail the same limits.
func TestFairness(t *testing.T) {
	table := fairResults(t)
	names := Scenarios()
	half := func(share float64) bool { return share > 0.475 && share < 0.525 }
	t.Run("BobDoesNotWaitForAlice", func(t *testing.T) {
		ours := table[names[0].Name]["turnus"]
		if bob := ours.Parties[1].Took; bob == 0 || bob > 0.5 {
			t.Errorf("Bob took %v, expected at most 500ms", bob)
		}
		if later := ours.Parties[0].Later; later > 0.02 {
			t.Errorf("Alice ended %.1f%% later, expected at most 2%%", 100*later)
		}
		for _, other := range []string{"first come first served", "classic reordering pass"} {
			if bob := table[names[0].Name][other].Parties[1].Took; bob < 1 {
				t.Errorf("under %s Bob took only %v: the scenario shows nothing", other, bob)
			}
		}
	})
	t.Run("WorkerTimeNotCounts", func(t *testing.T) {
		ours := table[names[1].Name]["turnus"]
		if !half(ours.Parties[0].Share) || !half(ours.Parties[1].Share) {
			t.Errorf("shares are %.3f and %.3f, expected halves within 5%%", ours.Parties[0].Share, ours.Parties[1].Share)
		}
		if share := table[names[1].Name]["classic reordering pass"].Parties[0].Share; half(share) {
			t.Errorf("the classic pass gave a share of %.3f: the scenario shows nothing", share)
		}
	})
	t.Run("TenantsShareWhateverTheirRuns", func(t *testing.T) {
		ours := table[names[2].Name]["turnus"]
		if !half(ours.Parties[0].Share) || !half(ours.Parties[1].Share) {
			t.Errorf("shares are %.3f and %.3f, expected halves within 5%%", ours.Parties[0].Share, ours.Parties[1].Share)
		}
		if share := table[names[2].Name]["first come first served"].Parties[0].Share; half(share) {
			t.Errorf("first come first served gave a share of %.3f: the scenario shows nothing", share)
		}
	})
}

// shutdown gives a queue that is stopped with the test.
func shutdown(t *testing.T) *memory.Queue {
	q := memory.New(memory.Options{})
	t.Cleanup(q.Shutdown)
	return q
}

func TestThroughput(t *testing.T) {
	res, err := Throughput(t.Context(), shutdown(t), Params{Jobs: 2001, Runs: 3, Batch: 32, Nodes: 2, InFlightHeld: 500})
	if err != nil {
		t.Fatal(err)
	}
	if res.JobsPerSecond <= 0 || res.Turns < 2001/32 || res.Turn.Samples != res.Turns {
		t.Errorf("result %+v", res)
	}
	for _, p := range []Params{{Jobs: 1, Runs: 2}, {Batch: 1000}, {Nodes: -1}} {
		if _, err := Throughput(t.Context(), shutdown(t), p); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%+v: error %v, expected core.ErrInvalid", p, err)
		}
	}
}

func TestSubmit(t *testing.T) {
	q := shutdown(t)
	called := false
	res, err := Submit(t.Context(), q, 10_000, func() error {
		st, err := q.Stats(t.Context())
		called = err == nil && st.Runs == 1
		return err
	})
	if err != nil || !called || res.Jobs != 10_000 {
		t.Errorf("result %+v, error %v, looked while pending: %t", res, err, called)
	}
}

// In fake time nothing takes any: what is measured must be zero, never early, and complete.
func TestLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := shutdown(t)
		idle, err := IdleToStart(t.Context(), q, 3, 50)
		if err != nil || idle.Samples != 50 || idle.Max != 0 {
			t.Errorf("IdleToStart: %+v, %v", idle, err)
		}
		burst, err := Burst(t.Context(), q, 4, 64, 10_000, time.Second)
		if err != nil || burst.Late.Samples != 10_000 || burst.Early != 0 || burst.AllStarted != 0 {
			t.Errorf("Burst: %+v, %v", burst, err)
		}
		single, err := SingleBurst(t.Context(), q, 4, 64, 1000, time.Second)
		if err != nil || single.Late.Samples != 1000 || single.Early != 0 || single.AllStarted != 0 {
			t.Errorf("SingleBurst: %+v, %v", single, err)
		}
		spread, err := Spread(t.Context(), q, 4, 1000, 30*time.Second)
		if err != nil || spread.Late.Samples != 1000 || spread.Early != 0 || spread.Late.Max != 0 {
			t.Errorf("Spread: %+v, %v", spread, err)
		}
	})
}

func TestSingle(t *testing.T) {
	for _, p := range []SingleParams{{Runs: 1000}, {Runs: 1001, Batch: 256, Nodes: 2}, {Runs: 500, Callers: 4, Nodes: 1}} {
		res, err := Single(t.Context(), shutdown(t), p)
		if err != nil || res.SubmitsPerSecond <= 0 || (res.JobsPerSecond > 0) != (p.Nodes > 0) {
			t.Errorf("%+v: %+v, %v", p, res, err)
		}
	}
	if _, err := Single(t.Context(), shutdown(t), SingleParams{Batch: queue.MaxSubmit + 1}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a batch that is too large: %v, expected core.ErrInvalid", err)
	}
}

// late is a queue that gives every turn a second's delay.
type late struct{ *memory.Queue }

func (q late) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	<-time.After(time.Second)
	return q.Queue.Turn(ctx, t)
}

// TestLatenciesSeeASlowQueue is the negative control of TestLatencies.
func TestLatenciesSeeASlowQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := late{shutdown(t)}
		idle, err := IdleToStart(t.Context(), q, 1, 5)
		if err != nil || idle.P50 < 0.9 {
			t.Errorf("IdleToStart of a slow queue: %+v, %v", idle, err)
		}
		spread, err := Spread(t.Context(), q, 1, 10, time.Second)
		if err != nil || spread.Late.P99 < 0.9 {
			t.Errorf("Spread on a slow queue: %+v, %v", spread, err)
		}
	})
}

func TestJain(t *testing.T) {
	for _, tc := range []struct {
		x    []float64
		want float64
	}{{[]float64{1, 1}, 1}, {[]float64{1, 0}, 0.5}, {[]float64{0, 0}, 0}} {
		if got := jain(tc.x); got != tc.want {
			t.Errorf("jain(%v) is %v, expected %v", tc.x, got, tc.want)
		}
	}
}
