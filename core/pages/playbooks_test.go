package pages

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// shop is a playbook with a param of each type, as the API's JSON gives them.
func shop(t *testing.T) api.Playbook {
	t.Helper()
	var p api.Playbook
	err := json.Unmarshal([]byte(`{"name": "shop", "tenant": "acme", "file": "playbooks/shop.yaml", "steps": ["command"], "source": "playbook: shop", "params": [
		{"name": "release", "type": "string", "required": true, "expected": "text that matches \\d+", "description": "Version"},
		{"name": "mode", "type": "string", "choices": ["canary", "full"], "default": "canary", "expected": "canary or full"},
		{"name": "port", "type": "integer", "default": 8000000, "expected": "a whole number"},
		{"name": "level", "type": "integer", "choices": [1, 2], "expected": "1 or 2"},
		{"name": "force", "type": "boolean", "default": false, "expected": "true or false"},
		{"name": "names", "type": "list", "default": ["a", "b"], "expected": "texts"},
		{"name": "db", "type": "secret", "expected": "the name of a secret"}]}`), &p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLaunchForm(t *testing.T) {
	p := shop(t)
	form := formOf(p, url.Values{"param.release": {"12"}, "param.mode": {"full"}, "limit": {"web*"}, "check": {"1"}})
	kinds := map[string]string{}
	for _, f := range form.Params {
		kinds[f.Label] = f.Kind + " " + f.Default + " " + strings.Join(f.Choices, "/")
	}
	for name, want := range map[string]string{
		"release": "text  ", "mode": "choice canary canary/full", "port": "number 8000000 ", "level": "choice  1/2", "force": "choice false true/false", "names": "list a\nb ", "db": "text  ",
	} {
		if kinds[name] != want {
			t.Errorf("%s: %q, expected %q", name, kinds[name], want)
		}
	}
	if form.Params[0].Value != "12" || !form.Params[0].Required || form.Params[2].Required || form.Limit != "web*" || !form.Check || form.FourEyes {
		t.Errorf("%+v", form)
	}
}

func TestWhatAFormLaunches(t *testing.T) {
	p := shop(t)
	sent := url.Values{
		"param.release": {"12"}, "param.force": {"true"}, "param.names": {"x\r\n\r\ny, z\r\n"}, "param.db": {"shop.db"}, "param.gone": {"x"},
		"limit": {"web*, db1"}, "tags": {"a b"}, "skip_tags": {""}, "max_in_flight": {" 5 "}, "check": {"1"}, "four_eyes": {"1"}, "skip": {"1"},
	}
	n, err := launchOf(p, sent)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(n) // plain values
	want := `{"playbook":"shop","limit":["web*","db1"],"params":{"db":"shop.db","force":"true","gone":"x","names":["x","y, z"],"release":"12"},"tags":["a","b"],"check":true,"diff":true,"max_in_flight":5,"four_eyes":true,"skip_no_window":true}`
	if string(got) != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if n, err := launchOf(p, nil); err != nil || n.Params != nil || n.Diff {
		t.Errorf("an empty form: %+v %v", n, err)
	}
	for _, text := range []string{"-1", "five", "1e3"} {
		if _, err := launchOf(p, url.Values{"max_in_flight": {text}}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s hosts at the same time: %v", text, err)
		}
	}
}

func TestWideLaunches(t *testing.T) {
	for _, c := range []struct {
		hosts             int
		disruptive, check bool
		want              bool
	}{{99, false, false, false}, {100, false, false, true}, {1, true, false, true}, {3000, true, true, false}} {
		if got := wide(c.hosts, c.disruptive, c.check); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		sent url.Values
		ok   bool
	}{
		{url.Values{"hash": {"h"}, "hosts": {"12"}}, true},
		{url.Values{}, false},
		{url.Values{"hosts": {"12"}}, false},
		{url.Values{"hash": {"h"}, "hosts": {"120"}, "wide": {"1"}, "typed": {" 120 "}}, true},
		{url.Values{"hash": {"h"}, "hosts": {"120"}, "wide": {"1"}, "typed": {"12"}}, false},
		{url.Values{"hash": {"h"}, "hosts": {"120"}, "wide": {"1"}}, false},
	} {
		if got := typed(c.sent); (got == "") != c.ok {
			t.Errorf("%v: %q", c.sent, got)
		}
	}
}

const planHash = "sha256:3333"

func shopAPI(t *testing.T, hosts int, roles ...string) *operations {
	t.Helper()
	end := time.Date(2026, 12, 6, 4, 0, 0, 0, time.UTC)
	return &operations{roles: roles, tenant: "acme", answers: map[string]any{
		"GET /v1/playbooks":         map[string]any{"items": []api.Playbook{shop(t)}},
		"GET /v1/playbooks/shop":    shop(t),
		"GET /v1/runs/r1":           api.Run{ID: "r1", Playbook: "shop", Phase: api.Queued},
		"GET /v1/runs/r1/jobs":      map[string]any{"items": []api.Job{}},
		"GET /v1/runs/r1/decisions": map[string]any{"items": []api.Decision{}},
		"POST /v1/runs":             api.Run{ID: "r1"},
		"POST /v1/plan":             planOf(hosts, end),
	}}
}

func planOf(hosts int, end time.Time) api.Plan {
	names := make([]string, hosts)
	for i := range names {
		names[i] = "web" + strings.Repeat("x", i)
	}
	return api.Plan{
		Playbook: "shop", Hash: planHash, Hosts: hosts, Waves: []api.PlanWave{{Wave: 1, Total: hosts, Hosts: names}},
		Windows:  []api.PlanWindow{{Set: "night", Hosts: hosts, Need: 1500, Starts: end.Add(-7 * time.Hour), StartsLocal: "Sat 2026-12-05 22:00 CET", Reason: "it is closed"}},
		NoWindow: []api.NoWindow{{Host: "old1", Set: "day", Need: 1500, Reason: "never approved"}},
		Forecast: &api.Forecast{Hosts: hosts, FinishP50: end, FinishP90: end.Add(time.Hour), Notes: []string{"approvals are not counted"}},
	}
}

// formIn are the inputs of the form of a page that sends to a path.
func formIn(t *testing.T, text, path string) url.Values {
	t.Helper()
	form := between(t, text, `action="`+path+`"`, "</form>")
	sent := url.Values{}
	for _, part := range strings.Split(form, `<input type="hidden" `)[1:] {
		sent.Add(between(t, part, `name="`, `"`), between(t, part, `value="`, `"`))
	}
	return sent
}

func TestPlaybooks(t *testing.T) {
	o := shopAPI(t, 14, "operator")
	v := visits(t, o)
	_, text := v.get("/playbooks")
	has(t, "the list", text, `href="/playbooks/shop"`)
	_, text = v.get("/playbooks/shop")
	has(t, "a playbook", text, `name="param.release"`, "Version", `placeholder="8000000"`, "<option>canary</option>", "default: canary", "the name of a secret", "<button>Preview</button>", "playbook: shop")
	lacks(t, "a playbook", text, "Launch on", "P50")
	if status, _ := v.get("/playbooks/globex-patch"); status != http.StatusNotFound {
		t.Errorf("another tenant's playbook: %d", status)
	}
	o.set("GET /v1/playbooks", map[string]any{"items": []api.Playbook{}})
	_, text = v.get("/playbooks")
	has(t, "an empty list", text, "The project has no playbook for you")
	_, text = visits(t, shopAPI(t, 14, "viewer")).get("/playbooks/shop?plan=1")
	lacks(t, "a viewer's playbook", text, "<button>Preview</button>", "Launch on", `role="alert"`)
}

// A preview shows what the launch does, and its button launches that, once.
func TestLaunch(t *testing.T) {
	o := shopAPI(t, 14, "operator")
	v := visits(t, o)
	_, text := v.get("/playbooks/shop?plan=1&param.release=12&limit=web*")
	has(t, "a preview", text, "14 hosts in 1 wave", `datetime="2026-12-06T04:00:00Z">2026-12-06 04:00:00 UTC</time> in half of the cases (P50)`, "2026-12-06 05:00:00 UTC</time> in 9 of 10 (P90)", "and 2 more", "Sat 2026-12-05 22:00 CET",
		`href="/hosts/old1"`, "never approved", "approvals are not counted", ">Launch on 14 hosts<", `value="12"`)
	lacks(t, "a preview of 14 hosts", text, "Type the number")
	form := formIn(t, text, "/playbooks/shop/launch")
	form.Set("reason", "ticket 4711")
	for range 2 {
		if _, at, _ := v.post("/playbooks/shop/launch", form); at != "/runs/r1" {
			t.Errorf("after the launch: %s", at)
		}
	}
	var sent []operation
	for _, c := range o.changes() {
		if c.path == "/v1/runs" {
			sent = append(sent, c)
		}
	}
	if len(sent) != 2 || sent[0].key == "" || sent[0].key != sent[1].key {
		t.Fatalf("%+v, expected one key", sent)
	}
	if b := sent[0].body; b["reason"] != "ticket 4711" || b["plan"] != planHash || b["skip_no_window"] != true || b["params"].(map[string]any)["release"] != "12" || !slices.Equal(b["limit"].([]any), []any{"web*"}) {
		t.Errorf("%+v", b)
	}
}

// A launch that is wide needs the number of its hosts. A dry run does not.
func TestWideLaunch(t *testing.T) {
	o := shopAPI(t, 120, "operator")
	v := visits(t, o)
	_, text := v.get("/playbooks/shop?plan=1")
	has(t, "a wide preview", text, "Type the number of hosts, 120")
	form := formIn(t, text, "/playbooks/shop/launch")
	for _, number := range []string{"", "12"} {
		form.Set("typed", number)
		if status, _, text := v.post("/playbooks/shop/launch", form); status != http.StatusUnprocessableEntity || !strings.Contains(text, "the launch is for 120 hosts") {
			t.Errorf("typed %q: %d %s", number, status, text)
		}
	}
	launched := func() bool {
		return slices.ContainsFunc(o.changes(), func(c operation) bool { return c.path == "/v1/runs" })
	}
	if launched() {
		t.Error("a launch that was not confirmed")
	}
	form.Set("typed", "120")
	if _, at, _ := v.post("/playbooks/shop/launch", form); at != "/runs/r1" || !launched() {
		t.Errorf("a confirmed launch leads to %s", at)
	}
	dry := planOf(120, time.Now())
	dry.Check = true
	o.set("POST /v1/plan", dry)
	_, text = v.get("/playbooks/shop?plan=1&check=1")
	has(t, "a dry run", text, "nothing is changed", ">Dry run on 120 hosts<", `name="check" value="1"`)
	lacks(t, "a dry run", text, "Type the number")
}

// A dry run leads to the preview of the same launch for real. Its address brings values of the form
// and nothing else, also if somebody else wrote it. A real run, and a viewer, have no such link.
func TestADryRunIsLaunchedForReal(t *testing.T) {
	o := shopAPI(t, 14, "operator")
	run := api.Run{ID: "r1", Playbook: "shop", Phase: api.Finished, Check: true, Ended: time.Unix(300, 0)}
	o.set("GET /v1/runs/r1", run)
	v := visits(t, o)
	form := url.Values{"hash": {planHash}, "hosts": {"14"}, "key": {"k"}, "check": {"1"}, "param.release": {"12&3"}, "limit": {"web*"}}
	_, at, text := v.post("/playbooks/shop/launch", form)
	if want := "/runs/r1?launch=" + url.QueryEscape("limit=web%2A&param.release=12%263"); at != want {
		t.Errorf("a dry run leads to %s, expected %s", at, want)
	}
	form.Set("skip_tags", strings.Repeat("later,", 1000))
	if _, at, _ := v.post("/playbooks/shop/launch", form); at != "/runs/r1" {
		t.Errorf("values that a server refuses in an address lead to %.60s…", at)
	}
	const link = `<a href="/playbooks/shop?limit=web%2A&amp;param.release=12%263&amp;plan=1">Preview the launch with these values</a>`
	has(t, "a dry run", text, link)
	_, text = v.get("/runs/r1?launch=" + url.QueryEscape("limit=web*&param.release=12%263&plan=2&check=1&hash=x&typed=9&//evil.example.net=1&%zz"))
	has(t, "an address that somebody wrote", text, link)
	_, text = v.get("/runs/r1?launch=//evil.example.net/x")
	has(t, "an address that leads away", text, `<a href="/playbooks/shop?plan=1">Preview the launch with these values</a>`)
	_, text = v.get("/runs/r1")
	has(t, "a dry run of somebody else", text, `<a href="/playbooks/shop">Launch its playbook for real …</a>`)
	o.roles = []string{"viewer"}
	_, text = visits(t, o).get("/runs/r1")
	lacks(t, "a viewer's dry run", text, "for real", "with these values")
	o.roles = []string{"operator"}
	run.Check = false
	o.set("GET /v1/runs/r1", run)
	_, text = v.get("/runs/r1?launch=limit%3Dx")
	lacks(t, "a real run", text, "for real", "with these values")
}

// Where the hosts changed since the preview nothing is launched: 409 has the new plan.
func TestLaunchOfOtherHosts(t *testing.T) {
	o := shopAPI(t, 14, "operator")
	v := visits(t, o)
	_, text := v.get("/playbooks/shop?plan=1")
	form := formIn(t, text, "/playbooks/shop/launch")
	o.set("POST /v1/runs", api.Problem{Status: http.StatusConflict, Detail: "the hosts changed since the plan"})
	o.set("POST /v1/plan", planOf(15, time.Now()))
	status, _, text := v.post("/playbooks/shop/launch", form)
	if status != http.StatusConflict {
		t.Errorf("%d", status)
	}
	has(t, "a refused launch", text, "the hosts changed since the plan", "The preview had 14 hosts", ">Launch on 15 hosts<")
}

// A problem with a form is shown above it, and the sent values stay in it.
func TestWrongForm(t *testing.T) {
	o := shopAPI(t, 14, "operator")
	o.set("POST /v1/plan", api.Problem{Status: http.StatusUnprocessableEntity, Detail: "param release: expected text that matches"})
	v := visits(t, o)
	for path, problem := range map[string]string{
		"/playbooks/shop?plan=1&param.release=x1": "param release: expected text that matches",
		"/playbooks/shop?plan=1&max_in_flight=x1": "expected a number from 0 on",
	} {
		status, text := v.get(path)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
		has(t, path, text, problem, `value="x1"`)
		lacks(t, path, text, "Launch on")
	}
}

func TestTextOfPlaybooksIsNoMarkup(t *testing.T) {
	p := shop(t)
	p.Description, p.File, p.Tenant, p.Window, p.Revision, p.Source, p.Steps = hostile, hostile, hostile, hostile, hostile, hostile, []string{hostile}
	for i := range p.Params {
		p.Params[i].Description, p.Params[i].Expected, p.Params[i].Default = hostile, hostile, hostile
	}
	p.Params[1].Choices = []any{hostile}
	p.Params[0].Name = hostile
	plan := planOf(1, time.Now())
	plan.Waves[0].Hosts, plan.Windows[0].Set, plan.Windows[0].Reason, plan.NoWindow[0].Host, plan.NoWindow[0].Reason = []string{hostile}, hostile, hostile, hostile, hostile
	plan.Approval, plan.Forecast.Notes, plan.Forecast.Binds = hostile, []string{hostile}, &api.Binds{Text: hostile, Gain: 60}
	o := shopAPI(t, 1, "operator")
	o.set("GET /v1/playbooks", map[string]any{"items": []api.Playbook{p}})
	o.set("GET /v1/playbooks/shop", p)
	o.set("POST /v1/plan", plan)
	v := visits(t, o)
	sent := url.Values{"plan": {"1"}, "limit": {hostile}, "tags": {hostile}, "param.port": {hostile}, "param.names": {hostile}, "max_in_flight": {hostile}}
	ok := maps.Clone(sent)
	ok.Del("max_in_flight")
	for _, path := range []string{"/playbooks", "/playbooks/shop?" + sent.Encode(), "/playbooks/shop?" + ok.Encode()} {
		_, text := v.get(path)
		harmless(t, path, text)
	}
}
