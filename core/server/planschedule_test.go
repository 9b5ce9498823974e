package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The plan of a schedule is what its trigger launches: of a pinned one the hosts of the project
// that it pinned, and hosts of the caller's tenants only. Control: a schedule that is not pinned
// follows the project.
func TestPlanOfASchedule(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.apply(tree())
	provider, operator := b.token(everyTenant, Operator), b.token("acme", Operator)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Minute)
	for name, pin := range map[string]bool{"pinned": true, "follows": false} {
		want[any](t, b.ask(operator, "PUT", "/v1/schedules/"+name, api.NewSchedule{Playbook: "acme-patch", At: soon, Pin: pin}), http.StatusOK)
	}
	foreign := api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-2", "globex-1"}}}
	project := tree()
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], `host.customer == "acme"`, `host.name in ["acme-2", "globex-1"]`, 1)
	b.apply(project)
	want[any](t, b.ask(provider, "PUT", "/v1/schedules/foreign", foreign), http.StatusOK)
	for name, hosts := range map[string][]string{"pinned": {"acme-1", "acme-2", "acme-3"}, "follows": {"acme-2"}, "foreign": {"acme-2"}} {
		plan := want[api.Plan](t, b.ask(operator, "POST", "/v1/schedules/"+name+"/plan", nil), http.StatusOK)
		var got []string
		for _, w := range plan.Waves {
			got = append(got, w.Hosts...)
		}
		slices.Sort(got)
		if !slices.Equal(got, hosts) || plan.Hosts != len(hosts) {
			t.Errorf("%s: %v, expected %v", name, got, hosts)
		}
	}
	if plan := want[api.Plan](t, b.ask(provider, "POST", "/v1/schedules/acme:foreign/plan", nil), http.StatusOK); plan.Hosts != 2 {
		t.Errorf("a person of all tenants: %+v", plan)
	}
	project["inventory/hosts.yaml"] = strings.ReplaceAll(project["inventory/hosts.yaml"], "acme-2:", "acme-9:")
	b.apply(project)
	if a := b.ask(operator, "POST", "/v1/schedules/foreign/plan", nil); a.status < 400 || strings.Contains(a.body, "globex") {
		t.Errorf("no host of the tenant's own: %d %s", a.status, a.body)
	}
}
