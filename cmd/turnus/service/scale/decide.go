package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Config holds what is wanted of one pool.
type Config struct {
	Pool        string
	Min, Max    int           // workers; Max 0 is no more than Min
	Concurrency int           // of one worker; the mean of those there when 0, or defaultConcurrency
	Target      time.Duration // what is due should start within it; 5 min when 0
	Ahead       time.Duration // what becomes due within it counts as due: as long as a new worker takes to come
	Calm        time.Duration // fewer workers are wanted once fewer would have been enough for so long
	Every       time.Duration // between two calls of the hook, at least; failed ones wait longer each time
}

const (
	defaultConcurrency = 256
	mostWorkers        = 10_000
)

// Defaults fills what is not given. Errors wrap core.ErrInvalid.
func (c Config) Defaults() (Config, error) {
	c.Target, c.Every = cmp.Or(c.Target, 5*time.Minute), cmp.Or(c.Every, 10*time.Second)
	switch {
	case c.Min < 0 || c.Max < c.Min || c.Max > mostWorkers:
		return c, fmt.Errorf("%d to %d workers: expected a least number from 0 on, and a largest one up to %d that is not below it: %w", c.Min, c.Max, mostWorkers, core.ErrInvalid)
	case c.Concurrency < 0:
		return c, fmt.Errorf("a concurrency of %d for each worker: expected 1 or more: %w", c.Concurrency, core.ErrInvalid)
	case c.Target < time.Second || c.Ahead < 0 || c.Calm < 0 || c.Every < 100*time.Millisecond:
		return c, fmt.Errorf("times of scaling: expected a target of at least a second, and none below 0: %w", core.ErrInvalid)
	}
	return c, nil
}

// Demand is the remaining work of the pool.
type Demand struct {
	Leased   int           // jobs that run
	Due      int           // jobs that wait for a worker's concurrency, or for a lock
	Runnable int           // jobs that would run with enough workers
	Soon     int           // further jobs that become due within Config.Ahead
	Took     time.Duration // how long a job takes, of those that ended lately; 0 is not known
}

// Worker is one that is there.
type Worker struct {
	Name        string
	Concurrency int
	Running     int
	Started     time.Time
	Leaving     bool // it is cordoned, drains, or is away
	Asked       bool // scaling has drained it, and has not forgotten the order
	Fixed       bool // it is part of a server, and stops only with it
}

// concurrency returns the concurrency that starts what is due, and what becomes due soon, within
// the target, and no more than could be used at the same time.
//
//	min(Runnable + Soon, ceil((Leased + Due + Soon) × Took / (Target + Took)))
//
// With a concurrency of N, N × (Target + Took) / Took jobs run until the last that started within
// the target ends. An unknown duration counts as the target's, so that each of the N does two.
func (c Config) concurrency(d Demand) int {
	took := cmp.Or(d.Took, c.Target).Seconds()
	work := float64(d.Leased+d.Due+d.Soon) * took / (c.Target.Seconds() + took)
	return min(d.Runnable+d.Soon, int(math.Ceil(work-1e-9)))
}

// perWorker is the concurrency of one worker.
func (c Config) perWorker(workers []Worker) int {
	if c.Concurrency > 0 {
		return c.Concurrency
	}
	sum, n := 0, 0
	for _, w := range workers {
		if w.Concurrency > 0 { // one that is away reports none
			sum, n = sum+w.Concurrency, n+1
		}
	}
	if n == 0 {
		return defaultConcurrency
	}
	return sum / n
}

// wish is how many workers would do now, without regard to what was wanted before.
func (c Config) wish(d Demand, each int) int {
	return min(max((c.concurrency(d)+each-1)/each, c.Min), c.Max)
}

// memory holds the numbers of workers that would have done lately: fewer workers are wanted once
// the largest of them is fewer.
type memory []seen

type seen struct {
	at      time.Time
	workers int
}

// remember adds what would do now, and returns the most that would have done within calm. To a
// server that has just begun, the workers that are there are wanted: it must not take away what
// another wanted a moment ago.
func (m *memory) remember(now time.Time, workers int, calm time.Duration, there int) int {
	list := *m
	if len(list) == 0 {
		list = append(list, seen{now, there})
	}
	for len(list) > 0 && list[len(list)-1].workers <= workers { // what is behind and not larger can never be the most again
		list = list[:len(list)-1]
	}
	list = append(list, seen{now, workers})
	for len(list) > 1 && now.Sub(list[0].at) >= calm {
		list = list[1:]
	}
	*m = list
	return list[0].workers
}

// leave names the workers that should go when there are more than wanted: those with the least to
// do, the newest first.
func leave(workers []Worker, wanted int) []string {
	var stay []Worker
	for _, w := range workers {
		if !w.Leaving {
			stay = append(stay, w)
		}
	}
	excess := len(stay) - wanted
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(stay, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Running, b.Running), b.Started.Compare(a.Started), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, w := range stay {
		if len(names) < excess && !w.Fixed {
			names = append(names, w.Name)
		}
	}
	return names
}
