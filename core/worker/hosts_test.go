package worker

import (
	"context"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// One worker has hosts of two customers, and gives each those of its own.
func TestHostsReadHostsOfTheirCustomer(t *testing.T) {
	inLab(t, func(l *lab) {
		src := "playbook: test\ntargets: host.name != \"h00003\"\nsteps: [{uses: command, with: {run: \"${{ join(map(hosts('true'), #.name), ' ') }}\"}}]\n"
		p, err := playbooks.Parse("test.yaml", []byte(src), playbooks.Options{})
		if err != nil {
			l.t.Fatal(err)
		}
		list := hosts(4)
		list[0].Customer, list[1].Customer, list[3].Customer = "acme", "birch", "acme"
		la, err := launch.Prepare(p, list, launch.Options{RunID: "r"})
		if err == nil {
			_, err = queue.SubmitOne(context.Background(), l.q, la.Run)
		}
		if err != nil {
			l.t.Fatal(err)
		}
		node := l.start(l.config())
		results := l.results(la)
		node.drain()
		want := map[string]string{"h00000": "h00000 h00003", "h00001": "h00001", "h00002": "h00002"}
		for _, c := range l.plugins.seen() {
			if got := params(c)["run"]; got != want[c.Host.Name] {
				l.t.Errorf("%s of %q was given %q", c.Host.Name, c.Host.Customer, got)
			}
		}
		for _, r := range results {
			if len(results) != len(want) || r.Outcome == core.Failed {
				l.t.Errorf("%d results, %+v", len(results), r)
			}
		}
	})
}
