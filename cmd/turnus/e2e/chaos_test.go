//go:build linux

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/transport/fleet"
)

// How long it goes on, and over how many jobs; docs/benchmarks.md has the long form.
var (
	chaosMinutes = flag.Float64("chaos.minutes", 0.25, "how long servers, workers and Redis are killed")
	chaosJobs    = flag.Int("chaos.jobs", 1000, "jobs, in 20 runs")
	chaosSeed    = flag.Uint64("chaos.seed", 0, "which are killed when; 0 is another one each time")
)

// chaos kills the parts of a site.
type chaos struct {
	*site
	random  *rand.Rand
	servers []*process
	workers []*process
	kills   map[string]int
}

// Servers, workers and Redis are killed at random, singly and together, and Redis is emptied twice, while runs
// are submitted. No accepted run is lost, each job has exactly one final outcome, and queue and ledger are sound.
func TestChaosLosesNoRunAndDoublesNoOutcome(t *testing.T) {
	const runs = 20
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos.seed %d", seed)
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis("--appendfsync", "always") // the job type does not reach out to its host
	length := time.Duration(*chaosMinutes * float64(time.Minute))
	perRun := max(*chaosJobs/runs, 1)
	pause := length * 8 * 3 / time.Duration(max(*chaosJobs, 1)) / 2 // so that there is work until the end
	s := newSite(l, runs, perRun, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace, ms: %d}}", l.dir, max(pause.Milliseconds(), 1)))
	c := &chaos{site: s, random: rand.New(rand.NewPCG(seed, 1)), kills: map[string]int{}}
	c.servers = []*process{s.server(), s.server()}
	for range 3 {
		c.workers = append(c.workers, s.worker("-f", "8"))
	}
	asked := make([]*client.Client, 2)
	ask := func() *client.Client {
		i := c.random.IntN(2)
		if asked[i] == nil || asked[i].Server() != address(c.servers[i]) {
			asked[i] = s.ask(c.servers[i])
		}
		return asked[i]
	}
	begin := time.Now()
	accepted := []string{}
	flushed := 0
	for round := 0; time.Since(begin) < length || len(accepted) < runs; round++ {
		if len(accepted) < runs {
			i := len(accepted)
			accepted = append(accepted, s.submit(ask, fmt.Sprintf("run-%d", i), fmt.Sprintf("part%d", i)).ID)
		}
		if flushed < 2 && time.Since(begin) > length*time.Duration(flushed+1)/3 {
			flushed++
			c.flush()
		}
		c.strike()
		c.wait(time.Duration(200+c.random.IntN(1500)) * time.Millisecond)
	}
	for ; flushed < 2; flushed++ {
		c.flush()
	}
	t.Logf("killed %v in %v", c.kills, time.Since(begin).Round(time.Second))
	c.complete(accepted)
}

// strike kills something, and starts it again.
func (c *chaos) strike() {
	c.t.Helper()
	server, worker, redis := false, false, false
	switch n := c.random.IntN(10); {
	case n < 3:
		server = true
	case n < 6:
		worker = true
	case n < 8:
		redis = true
	default:
		server, worker, redis = true, true, true
	}
	i, j := c.random.IntN(len(c.servers)), c.random.IntN(len(c.workers))
	if server {
		c.kills["server"]++
		c.servers[i].kill()
	}
	if worker {
		c.kills["worker"]++
		c.workers[j].kill()
	}
	if redis {
		c.kills["redis"]++
		c.redis.kill()
		c.wait(time.Duration(c.random.IntN(500)) * time.Millisecond)
		c.redis.launch()
	}
	if worker {
		c.workers[j] = c.worker("-f", "8")
	}
	if server {
		c.servers[i] = c.server()
	}
}

// flush empties Redis.
func (c *chaos) flush() {
	c.t.Helper()
	client := c.redis.admin()
	if err := client.FlushAll(context.Background()).Err(); err != nil {
		c.t.Fatalf("FLUSHALL: %v", err)
	}
	c.kills["FLUSHALL"]++
}

func (c *chaos) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// complete waits until every accepted run is over, and looks at what is left.
func (c *chaos) complete(accepted []string) {
	c.t.Helper()
	ctx := context.Background()
	book := c.open()
	deadline := time.Now().Add(4*patience + time.Duration(*chaosMinutes*float64(time.Minute)))
	for _, id := range accepted {
		until := func() bool {
			run, err := book.Run(ctx, ledger.AllTenants(), id)
			return err == nil && run.Complete()
		}
		for !until() {
			if time.Now().After(deadline) {
				run, err := book.Run(ctx, ledger.AllTenants(), id)
				status, qerr := c.redis.queue().Status(ctx, id)
				c.t.Fatalf("accepted run %s does not end: %+v, %v; in the queue %+v, %v", id, run, err, status, qerr)
			}
			c.wait(50 * time.Millisecond)
		}
	}
	total, all := 0, map[core.Outcome]int{}
	for _, id := range accepted {
		outcomes, again := accounted(c.t, book, id)
		total += again
		for o, n := range outcomes {
			all[o] += n
		}
	}
	c.t.Logf("%d runs: %v, %d jobs needed more than one attempt", len(accepted), all, total)
	if all[core.Failed]+all[core.Unreachable] > 0 {
		c.t.Errorf("outcomes that only a fault of Turnus can have: %v", all)
	}
	c.redis.sound(nil)
	c.healthy()
}
