//go:build linux && labs

package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/queue"
)

// The short form, as part of make test-labs: one fault of each kind of process.
var shortForm = []string{"kill worker", "kill server", "kill Redis"}

// Turnus keeps its promises under every fault of kinds, singly and together: judged by what the
// hosts noted. `make chaos MINUTES=15` is the long form.
func TestLabChaos(t *testing.T) {
	able(t)
	kinds, length, from := shortForm, 45*time.Second, uint64(1)
	if *minutes > 0 {
		kinds, length, from = nil, time.Duration(*minutes*float64(time.Minute)), cmp.Or(*seed, rand.Uint64N(1_000_000))
	}
	if *only != "" {
		kinds = strings.Split(*only, ",")
	}
	switch {
	case *variant != "":
		chaos(t, from, shapeOf(*variant, length), kinds)
	case *minutes > 0: // a server on SQLite is alone: most of the time goes to the larger cluster
		t.Run("postgres", func(t *testing.T) { chaos(t, from, shapeOf("postgres", length*2/3), kinds) })
		t.Run("sqlite", func(t *testing.T) { chaos(t, from, shapeOf("sqlite", length/3), kinds) })
	default:
		chaos(t, from, shapeOf("postgres", length), kinds)
	}
}

func shapeOf(ledger string, length time.Duration) shape {
	s := shape{ledger: ledger, servers: 3, workers: 3, length: length}
	if ledger == "sqlite" {
		s.servers = 1
	}
	return s
}

// chaos plays one plan.
func chaos(t *testing.T, seed uint64, s shape, only []string) {
	t.Helper()
	t.Logf("seed %d, %s, %v", seed, s.ledger, s.length)
	p := newProject(time.Now(), s.length)
	c := newCluster(t, s, p)
	l := newLoad(c)
	l.begin(seed, s.length > time.Minute)
	faults := c.play(t, plan(seed, s, only), s.length)
	close(l.quit)
	l.wg.Wait()
	l.launched(c.triggers)
	l.finish()
	v := evidence{until: now(), triggers: c.triggers, faults: faults, windows: p.open, group: p.group, recipes: p.recipes, ttl: queue.SessionTTL}
	for _, a := range l.runs {
		v.runs = append(v.runs, *a)
	}
	for _, o := range l.outcomes {
		v.outcomes = append(v.outcomes, o)
	}
	for _, h := range c.hosts {
		v.seen = append(v.seen, parse(h.name, h.log(t))...)
	}
	slices.SortFunc(v.runs, func(a, b accepted) int { return cmp.Compare(a.asked, b.asked) })
	slices.SortFunc(v.outcomes, func(a, b outcome) int { return cmp.Compare(a.seen, b.seen) })
	slices.SortStableFunc(v.seen, func(a, b execution) int { return cmp.Compare(a.begin, b.begin) })
	report(t, seed, s, v, l.refused)
	if slices.ContainsFunc(faults, func(h happened) bool { return h.name == "kill two servers at a fire" && h.single }) && len(c.triggers) == 0 {
		t.Error("no schedule was made that triggers")
	}
	if found := c.doctor(); found != "" {
		t.Errorf("turnus admin doctor, after all of it: %s", found)
	}
	for _, log := range c.crashes() {
		t.Errorf("a process broke down: %s", log)
	}
}

// play makes the faults of a plan at their times, and returns what was made when.
func (c *cluster) play(t *testing.T, all []planned, length time.Duration) (made []happened) {
	t.Helper()
	type action struct {
		at   time.Duration
		i    int
		ends bool
	}
	var actions []action
	for i, p := range all {
		actions = append(actions, action{p.at, i, false}, action{p.at + p.hold, i, true})
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.at, b.at) })
	begun, ends := now(), make([]func(), len(all))
	made = make([]happened, len(all))
	for _, a := range actions {
		pass(begun + a.at - now())
		if a.ends {
			made[a.i].mending = now()
			ends[a.i]()
			made[a.i].end = now()
			continue
		}
		t.Logf("%6.1fs %v", (now() - begun).Seconds(), all[a.i])
		made[a.i] = happened{planned: all[a.i], span: span{begin: now()}}
		ends[a.i] = c.begin(all[a.i])
	}
	pass(max(begun+length-now(), rest))
	return made
}
