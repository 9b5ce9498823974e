package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// A pending handler that the project no longer has is marked, with the line where the newest run
// had it: that run alone is read, on how many hosts ever it is pending. Control: before the project
// drops it, the handler that stays, and a request that has ended.
func TestRemovedHandlersAreMarked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	const file = "playbooks/acme.yaml"
	leave := func(host string) {
		t.Helper()
		b.apply(project)
		kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), b.launch("acme", api.NewRun{}).ID)
		must(t, err)
		must(t, b.ledger.LeaveHandlers(t.Context(), kept, []string{host}, []string{"stays", "goes"}))
	}
	at := file + ":" + strconv.Itoa(strings.Count(project[file], "\n")+4)
	project[file] = strings.Replace(project[file], "run: uptime}", "run: uptime}, notify: [stays, goes]", 1) +
		"handlers:\n  - {name: stays, uses: command, with: {run: a}}\n  - {name: goes, uses: command, with: {run: b}}\n"
	leave("acme-1")
	project[file] = "# one line more\n" + project[file]
	leave("acme-2")
	viewer := b.token("acme", Viewer)
	marks := func() map[string]string {
		t.Helper()
		got := map[string]string{}
		for _, h := range want[struct{ Items []api.PendingHandler }](t, b.ask(viewer, "GET", "/v1/handlers", nil), http.StatusOK).Items {
			if h.Removed {
				got[h.Host+" "+h.Handler] = h.At
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
	if got, want := marks(), (map[string]string{"acme-1 goes": at, "acme-2 goes": at}); !maps.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.server.markRemoved(ended, []api.PendingHandler{{Handler: "goes"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended: %v", err)
	}
}
