package worker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// A queue may have what was accepted for the workers of another pool, as after a service got
// another --pool.
func TestFaultW5AWorkerRunsNothingOnHostsOfOtherPools(t *testing.T) {
	inLab(t, func(l *lab) {
		p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\n"+oneStep), playbooks.Options{})
		if err != nil {
			l.t.Fatal(err)
		}
		list := hosts(4)
		list[1].Pool, list[2].Pool, list[3].Pool = "eu", "us", "default"
		la, err := launch.Prepare(p, list, launch.Options{RunID: "r"})
		if err == nil {
			_, err = queue.SubmitOne(context.Background(), l.q, la.Run)
		}
		if err != nil {
			l.t.Fatal(err)
		}
		cfg := l.config()
		cfg.Pool = "eu"
		node := l.start(cfg)
		results := l.results(la)
		node.drain()
		var ran []string
		for _, c := range l.plugins.seen() {
			ran = append(ran, c.Host.Name)
		}
		slices.Sort(ran)
		if want := []string{list[0].Name, list[1].Name}; !slices.Equal(ran, want) {
			l.t.Errorf("a worker of pool eu ran a step on %v, expected %v", ran, want)
		}
		for _, r := range results {
			its := list[slices.IndexFunc(list, func(h core.Host) bool { return h.Name == r.Host })].Pool
			if refused := strings.Contains(r.Reason, `pool "`+its+`" has `+r.Host); refused != (its == "us" || its == "default") {
				l.t.Errorf("%s of pool %q: %s, %s", r.Host, its, r.Outcome, r.Reason)
			}
		}
	})
}
