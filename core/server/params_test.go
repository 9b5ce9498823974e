package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// One rule for the params of a playbook, for every launcher: an API client, and a schedule when it
// is saved and when it is in the project.
func TestParams(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/acme.yaml"] += "params: {release: {type: string, pattern: '\\d+\\.\\d+', required: true, description: Version}, port: {type: integer, default: 80}}\n"
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], `schedule: {cron: "0 3 * * 1"}`, `schedule: {cron: "0 3 * * 1", params: {release: "1.0"}}`, 1)
	b.apply(project)
	operator := b.token("acme", Operator)
	shown := want[api.Playbook](t, b.ask(operator, "GET", "/v1/playbooks/acme-patch", nil), http.StatusOK)
	if len(shown.Params) != 2 || shown.Params[0].Name != "release" || !shown.Params[0].Required || shown.Params[0].Expected != `text that matches \d+\.\d+` {
		t.Errorf("%+v", shown.Params)
	}
	for _, c := range []struct {
		name string
		o    api.LaunchOptions
		says string // "" for accepted
	}{
		{"missing", api.LaunchOptions{}, `the required param \"release\" has no value`},
		{"wrong", api.LaunchOptions{Params: map[string]any{"release": "one"}}, "expected text that matches"},
		{"a number", api.LaunchOptions{Params: map[string]any{"release": 1.1}}, "write the value in quotes"},
		{"unknown", api.LaunchOptions{Params: map[string]any{"release": "1.0", "relase": "1.0"}}, "relase"},
		{"right", api.LaunchOptions{Params: map[string]any{"release": "1.0", "port": 8080}}, ""},
		{"among the vars", api.LaunchOptions{Vars: map[string]any{"release": "1.0", "port": "8080"}}, ""},
	} {
		asked := map[string]answer{
			"run":      b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: c.o}),
			"schedule": b.ask(operator, "PUT", "/v1/schedules/nightly", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: c.o}, "If-Match", "*"),
		}
		for what, a := range asked {
			if c.says == "" && a.status/100 != 2 || c.says != "" && (a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, c.says)) {
				t.Errorf("%s, %s: %d %s", c.name, what, a.status, a.body)
			}
		}
	}
}
