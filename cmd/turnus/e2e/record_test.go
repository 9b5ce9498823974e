//go:build linux

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// local reads a list of the record on this machine.
func (l *lab) local(into any, args ...string) {
	l.t.Helper()
	p := l.start(append(args, "--local", "-o", "json")...)
	p.wants(0)
	list := struct{ Items any }{into}
	if err := json.Unmarshal([]byte(p.out.String()), &list); err != nil {
		l.t.Fatalf("%v: %v: %s", args, err, p.out)
	}
}

func (l *lab) localRuns() map[string]api.Run {
	l.t.Helper()
	var all []api.Run
	l.local(&all, "runs", "ls")
	byPlaybook := map[string]api.Run{}
	for _, r := range all {
		if _, ok := byPlaybook[r.Playbook]; !ok { // newest first
			byPlaybook[r.Playbook] = r
		}
	}
	return byPlaybook
}

const handled = `playbook: killed
targets: "true"
steps:
  - {name: conf, uses: file, with: {path: /tmp/site.conf, content: "a"}, notify: [restart]}
  - {name: work, uses: command, with: {run: WORK}}
handlers:
  - {name: restart, uses: command, with: {run: echo restarted}}
`

// Runs of one user at the same time share the record.
func TestRunsAtOnceShareTheRecord(t *testing.T) {
	t.Parallel()
	const at = 5
	l := newLab(t, fleet.Config{Hosts: 20})
	var all []*process
	for i := range at {
		all = append(all, l.run(l.playbook("r"+string(rune('a'+i)), "{uses: command, with: {run: hostname}}")))
	}
	for _, p := range all {
		p.wants(0)
	}
	runs := l.localRuns()
	for playbook, r := range runs {
		if r.Phase != api.Finished || r.Outcomes[core.Changed] != 20 {
			t.Errorf("%s: %s, %v", playbook, r.Phase, r.Outcomes)
		}
	}
	if len(runs) != at {
		t.Errorf("%d runs are recorded", len(runs))
	}
}
