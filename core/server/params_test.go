package server

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/testparts"
)

// One rule for the params of a playbook, for every launcher: an API client, and a schedule when it
// is saved and when it is in the project.
func TestParams(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/acme.yaml"] += testparts.Params
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], `schedule: {cron: "0 3 * * 1"}`, `schedule: {cron: "0 3 * * 1", params: {release: "1.0"}}`, 1)
	b.apply(project)
	operator := b.token("acme", Operator)
	shown := want[api.Playbook](t, b.ask(operator, "GET", "/v1/playbooks/acme-patch", nil), http.StatusOK)
	if len(shown.Params) != 8 || shown.Params[0].Name != "release" || !shown.Params[0].Required || shown.Params[0].Expected != `text that matches \d+\.\d+` {
		t.Errorf("%+v", shown.Params)
	}
	if a := b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Vars: map[string]any{"release": "1.0", "port": "8080"}}}); a.status/100 != 2 {
		t.Errorf("among the vars: %d %s", a.status, a.body)
	}
	for _, c := range testparts.ParamRows() {
		values := []any{c.JSON}
		if c.Text != "" {
			values = append(values, c.Text)
		}
		for _, v := range values {
			if v == nil && c.Text != "" {
				continue
			}
			o := api.LaunchOptions{Params: map[string]any{"release": "1.0"}}
			if c.Name == "release" {
				clear(o.Params)
			}
			if v != nil {
				o.Params[c.Name] = v
			}
			run := b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: o})
			schedule := b.ask(operator, "PUT", "/v1/schedules/nightly", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: o}, "If-Match", "*")
			for what, a := range map[string]answer{"run": run, "schedule": schedule} {
				if c.Says == "" && a.status/100 != 2 || c.Says != "" && (a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, c.Says)) {
					t.Errorf("%s, %+v: %d %s", what, c, a.status, a.body)
				}
			}
			if c.Says != "" {
				continue
			}
			m, err := b.ledger.Material(t.Context(), want[api.Run](t, run, http.StatusCreated).ID)
			must(t, err)
			l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
			must(t, err)
			if got := l.Playbook.Values()[c.Name]; !reflect.DeepEqual(got, c.Want) {
				t.Errorf("%+v: steps read %#v", c, got)
			}
		}
	}
}
