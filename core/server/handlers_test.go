package server

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// A pending handler that the project no longer has is marked, with the line where the run had it.
// Control: before the project drops it, and the handler that stays.
func TestRemovedHandlersAreMarked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	const file = "playbooks/acme.yaml"
	with := "handlers:\n  - {name: stays, uses: command, with: {run: a}}\n  - {name: goes, uses: command, with: {run: b}}\n"
	at := strings.Count(project[file], "\n") + 3
	project[file] += with
	project[file] = strings.Replace(project[file], "run: uptime}", "run: uptime}, notify: [stays, goes]", 1)
	b.apply(project)
	run := b.launch("acme", api.NewRun{})
	kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
	must(t, err)
	must(t, b.ledger.LeaveHandlers(t.Context(), kept, []string{"acme-1"}, []string{"stays", "goes"}))
	viewer := b.token("acme", Viewer)
	marks := func() map[string]string {
		t.Helper()
		got := map[string]string{}
		for _, h := range want[struct{ Items []api.PendingHandler }](t, b.ask(viewer, "GET", "/v1/handlers", nil), http.StatusOK).Items {
			if h.Removed {
				got[h.Handler] = h.At
			}
		}
		return got
	}
	if got := marks(); len(got) > 0 {
		t.Errorf("%v are removed, expected none", got)
	}
	project[file] = strings.Replace(project[file], "goes]", "new]", 1)
	project[file] = strings.Replace(project[file], "name: goes", "name: new", 1)
	b.apply(project)
	if got := marks(); len(got) != 1 || got["goes"] != file+":"+strconv.Itoa(at) {
		t.Errorf("%v, expected goes at %s:%d", got, file, at)
	}
}
