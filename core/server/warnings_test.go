package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// listingTree is tree with a playbook of acme that lists the hosts of a group.
func listingTree() map[string]string {
	t := tree()
	t["playbooks/listing.yaml"] = `
playbook: listing
tenant: acme
targets: host.customer == "acme"
window: none
vars: {group: nobody}
steps: [{name: list, uses: command, with: {run: "echo ${{ join(map(hosts('vars.group in host.groups or host.name == vars.group'), #.name), ' ') }}"}}]
`
	return t
}

// The answer to a launch warns where hosts('…') gives no host, by each route that launches, and
// does not mention a list that has one. The record does not repeat it.
func TestAnswersToLaunchesCarryWarnings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.apply(listingTree())
	operator := b.token("acme", Operator)
	n := api.NewRun{Playbook: "listing", Paused: true}
	warns := func(what string, r api.Run, want bool) {
		t.Helper()
		if has := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0], "listing: hosts('vars.group in host.groups or host.name == vars.group') gives no host\nhint: "); has != want || !want && r.Warnings != nil {
			t.Errorf("%s: %q, expected a warning: %v", what, r.Warnings, want)
		}
	}
	run := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", n), http.StatusCreated)
	warns("create-run", run, true)
	warns("show-run", want[api.Run](t, b.ask(operator, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK), false)
	replaced := b.ask(operator, "PUT", "/v1/runs/"+run.ID, n, "If-Match", "*")
	warns("replace-run", want[api.Run](t, replaced, http.StatusOK), true)
	good := n
	good.Vars = map[string]any{"group": "acme-1"}
	answers := b.bulk(operator, []api.KeyedRun{{Key: "bad", NewRun: n}, {Key: "good", NewRun: good}})
	for i, a := range answers {
		warns(fmt.Sprint("create-runs ", i), *a.Run, i == 0)
	}
	warns("a list that gives a host", want[api.Run](t, b.ask(operator, "POST", "/v1/runs", good), http.StatusCreated), false)
}
