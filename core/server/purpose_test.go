package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// Each way to launch a playbook keeps the reason of the person who does it: the run shows it to
// others of the tenant, also when it has ended, and so does the audit log. A launch without a
// reason is the control.
func TestReasonOfALaunch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator, viewer := b.token("acme", Operator), b.token("acme", Viewer)
	asked := func(why string) api.NewRun {
		return api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Reason: why}}
	}
	trigger := func(name, why string) func() string {
		return func() string {
			return want[api.Launched](t, b.ask(operator, "POST", "/v1/schedules/"+name+"/trigger", api.Why{Reason: why}), http.StatusOK).Run
		}
	}
	retry := func(before, why string) func() string {
		return func() string {
			run := b.launch("acme", asked(before))
			b.finish(run)
			return want[api.Run](t, b.ask(operator, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{Reason: why}), http.StatusCreated).ID
		}
	}
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/weekly", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: api.LaunchOptions{Reason: "contract 8"}}), http.StatusOK)
	for name, c := range map[string]struct {
		launch func() string
		reason string
	}{
		"create":    {launch: func() string { return b.launch("acme", asked("ticket 1 <b>")).ID }, reason: "ticket 1 <b>"},
		"no reason": {launch: func() string { return b.launch("acme", asked("")).ID }},
		"bulk": {launch: func() string {
			return b.bulk(operator, []api.KeyedRun{{Key: "k", NewRun: asked("ticket 2")}})[0].Run.ID
		}, reason: "ticket 2"},
		"retry":                       {launch: retry("ticket 3", "ticket 4"), reason: "ticket 4"},
		"retry without a reason":      {launch: retry("ticket 5", ""), reason: "ticket 5"},
		"trigger":                     {launch: trigger("acme:acme-patch", "ticket 6"), reason: "ticket 6"},
		"trigger again":               {launch: trigger("acme:acme-patch", "ticket 7"), reason: "ticket 7"}, // from a template
		"trigger without a reason":    {launch: trigger("acme:weekly", ""), reason: "contract 8"},
		"retry with a blank reason":   {launch: retry("ticket 12", "   "), reason: "ticket 12"},
		"trigger with a blank reason": {launch: trigger("acme:weekly", "   "), reason: "contract 8"},
		"a blank reason":              {launch: func() string { return b.launch("acme", asked("   ")).ID }},
		"a blank reason in bulk": {launch: func() string {
			return b.bulk(operator, []api.KeyedRun{{Key: "blank", NewRun: asked("   ")}})[0].Run.ID
		}},
		"trigger of a schedule with a reason": {launch: trigger("acme:weekly", "ticket 9"), reason: "ticket 9"},
		"replaced": {launch: func() string {
			run := b.launch("acme", api.NewRun{FourEyes: true, LaunchOptions: api.LaunchOptions{Reason: "ticket 10"}})
			n := asked("ticket 11")
			n.FourEyes = true
			return want[api.Run](t, b.ask(operator, "PUT", "/v1/runs/"+run.ID, n), http.StatusOK).ID
		}, reason: "ticket 11"},
	} {
		id := c.launch()
		show := func(when string) {
			if shown := want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+id, nil), http.StatusOK); shown.LaunchReason != c.reason {
				t.Errorf("%s: %s the run has the reason %q, expected %q", name, when, shown.LaunchReason, c.reason)
			}
		}
		show("at the launch")
		var said bool
		for _, e := range want[struct{ Items []api.Entry }](t, b.ask(operator, "GET", "/v1/audit?kind=run&object="+id, nil), http.StatusOK).Items {
			said = said || strings.Contains(string(e.After), `"launch_reason":`) && strings.Contains(string(e.After), strings.TrimSuffix(c.reason, " <b>"))
		}
		if said != (c.reason != "") {
			t.Errorf("%s: the audit log has a reason: %v", name, said)
		}
		if run := want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+id, nil), http.StatusOK); run.Phase != api.Approval {
			b.finish(run)
			show("at the end")
		}
		if a := b.ask(b.token("globex", Viewer), "GET", "/v1/runs/"+id, nil); a.status != http.StatusNotFound {
			t.Errorf("%s: another tenant gets %d %s", name, a.status, a.body)
		}
	}
}

// A reason is one short line without hidden text, wherever it is given. A good one is the control.
func TestReasonOfALaunchIsOneLine(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator, api.PermitExec)
	run := b.launch("acme", api.NewRun{})
	b.finish(run)
	for why, status := range map[string]int{
		strings.Repeat("ä", 1000): http.StatusOK, strings.Repeat("ä", 1001): http.StatusUnprocessableEntity,
		"two\nlines": http.StatusUnprocessableEntity, "red \x1b[31m": http.StatusUnprocessableEntity, "\u202eevil": http.StatusUnprocessableEntity,
	} {
		o := api.LaunchOptions{Reason: why}
		for name, a := range map[string]answer{
			"create":   b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: o}),
			"plan":     b.ask(operator, "POST", "/v1/plan", api.NewRun{Playbook: "acme-patch", LaunchOptions: o}),
			"retry":    b.ask(operator, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{Reason: why}),
			"exec":     b.ask(operator, "POST", "/v1/exec", api.NewExec{Command: "date", Limit: []string{"acme-1"}, Needs: 300, Reason: why}),
			"trigger":  b.ask(operator, "POST", "/v1/schedules/acme:acme-patch/trigger", api.Why{Reason: why}),
			"schedule": b.ask(operator, "PUT", "/v1/schedules/weekly", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: o}),
		} {
			if good := a.status == http.StatusOK || a.status == http.StatusCreated; good != (status == http.StatusOK) || !good && (a.status != status || !strings.Contains(a.body, "reason")) {
				t.Errorf("%s with %.20q: %d %s", name, why, a.status, a.body)
			}
		}
	}
}

// A reason of several lines, which a former version took, is one line for a retry. Hidden text is
// left out.
func TestFormerReasonIsOneLine(t *testing.T) {
	t.Parallel()
	for former, want := range map[string]string{"": "", "ticket 7": "ticket 7", "one\n\ttwo ": "one two", "\u202eevil": "", strings.Repeat("x", 1001): ""} {
		if got := oneLine(former); got != want {
			t.Errorf("%q: got %q, expected %q", former, got, want)
		}
	}
}

// Every operation that takes a reason refuses one that is not one line, whatever it is for. A
// reason of one line is the control: it is refused for nothing that it holds.
func TestEveryReasonIsOneLine(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	tried := 0
	for _, o := range b.walk() {
		if o.RequestBody == nil || o.RequestBody.Content["application/json"] == nil {
			continue
		}
		schema := o.RequestBody.Content["application/json"].Schema
		if schema.Ref != "" {
			schema = b.server.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
		}
		if schema.Properties["reason"] == nil {
			continue
		}
		tried++
		tenant := "acme"
		if o.everyone {
			tenant = everyTenant
		}
		secret := b.token(tenant, Admin, o.permits...)
		body := map[string]any{}
		must(t, json.Unmarshal(asJSON(o.body), &body))
		for why, good := range map[string]bool{"two\nlines": false, "red \x1b[31m": false, "\u202eevil": false, strings.Repeat("ä", 1001): false, "ticket 4711": true} {
			body["reason"] = why
			a := b.ask(secret, o.Method, o.url, body, o.headers...)
			if refused := a.status == http.StatusUnprocessableEntity && strings.Contains(a.body, "reason"); refused == good {
				t.Errorf("%s with the reason %.20q: %d %s", o.OperationID, why, a.status, a.body)
			}
		}
	}
	if tried < 18 {
		t.Errorf("%d operations take a reason, expected 18 or more", tried)
	}
}
