package queuetest

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var bulkTests = []test{
	{name: "WholeCycleOfManyRuns", run: manyRuns},
	{name: "EveryJobEndsOnceAmongManyNodes", run: manyNodes},
}

func manyRuns(f *fixture) {
	const runs, jobs = 100, 20
	for i := range runs {
		r := run(fmt.Sprint("r", i), jobs)
		r.Tenant = fmt.Sprint("t", i%7)
		f.submit(r)
	}
	s := f.open("n")
	var acks []queue.Ack
	total := 0
	for {
		res := f.turn(s, 64, acks...)
		eq(f, "stale", len(res.Stale), 0)
		acks = allDone(res.Leases, core.Changed)
		total += len(acks)
		if len(acks) == 0 && !res.More {
			break
		}
	}
	eq(f, "leases", total, runs*jobs)
	for i := range runs {
		eq(f, "complete", f.status(fmt.Sprint("r", i)).Complete, true)
	}
}

func manyNodes(f *fixture) {
	const nodes, jobs = 4, 1000
	r := run("a", jobs)
	for i := range r.Targets {
		r.Targets[i].Host = fmt.Sprint("h", i%200)
	}
	f.submit(r)
	ended := make(chan error, nodes)
	for range nodes {
		s := f.open("n")
		go func() {
			var acks []queue.Ack
			for {
				res, err := f.q.Turn(f.ctx, queue.Turn{Session: s, Acks: acks, Want: 16})
				if err != nil {
					ended <- err
					return
				}
				acks = allDone(res.Leases, core.Changed)
				st, err := f.q.Status(f.ctx, "a")
				if err != nil || st.Complete {
					ended <- err
					return
				}
				if len(acks) == 0 {
					if err := f.q.Wait(f.ctx, s, res.Now.Add(20*time.Millisecond)); err != nil {
						ended <- err
						return
					}
				}
			}
		}()
	}
	for range nodes {
		f.must(<-ended)
	}
	eq(f, "outcomes", len(f.outcomes()), jobs)
	eq(f, "changed", f.status("a").Outcomes[core.Changed], jobs)
}
