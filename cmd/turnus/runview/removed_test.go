package runview

import (
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// No recap promises that a later run calls a handler that the playbook no longer has. It shows
// where the handler was, and which command forgets it. Control: a handler that the playbook has.
func TestRecapOfARemovedHandler(t *testing.T) {
	const promise = "the next run of site on these hosts runs them"
	results := []api.Result{{Host: "web1", Outcome: core.Unchanged, Handlers: &core.Handlers{Pending: []string{"reload", "restart"}}}}
	removed := removedOf([]api.PendingHandler{{Playbook: "site", Host: "web1", Handler: "restart", Removed: true, At: "site.yaml:6"}, {Playbook: "site", Host: "web1", Handler: "reload"}})
	for name, c := range map[string]struct {
		r            Report
		has, without []string
	}{
		"of this machine": {
			Report{File: "site.yaml", Results: results, Removed: removed},
			[]string{"pending handler reload", promise, "site.yaml no longer has it; a run had it at site.yaml:6", "turnus hosts handlers drop site --handler restart --local"}, nil,
		},
		"only removed ones": {
			Report{File: "site.yaml", Results: results, Removed: map[string]string{"restart": "", "reload": ""}},
			[]string{"site.yaml no longer has it, so no run calls it"}, []string{promise, "had it at"},
		},
		"a name that a shell would read": {
			Report{File: "site.yaml", Results: []api.Result{{Host: "web1", Handlers: &core.Handlers{Pending: []string{"reload `x`"}}}}, Removed: map[string]string{"reload `x`": ""}},
			[]string{"--handler 'reload `x`' --local"}, nil,
		},
		"control": {Report{File: "site.yaml", Results: results}, []string{promise}, []string{"no longer"}},
		"of a server": {
			Report{Run: "r1", Removed: removed},
			[]string{"2 pending handlers", "except restart: playbook site no longer has it; a run had it at site.yaml:6", "drop site --handler restart\n"}, []string{"--local", "except reload"},
		},
	} {
		c.r.Playbook, c.r.Handlers, c.r.Total, c.r.Outcomes = "site", 2, 1, map[core.Outcome]int{core.Unchanged: 1}
		var out strings.Builder
		WriteRecap(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, c.r)
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s:\n%sis without %q", name, out.String(), want)
			}
		}
		for _, not := range c.without {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s:\n%shas %q", name, out.String(), not)
			}
		}
	}
}
