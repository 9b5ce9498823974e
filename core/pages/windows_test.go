package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

const berlin = "Europe/Berlin"

func utc(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestSentencesOfWindows(t *testing.T) {
	patch := []api.WindowWork{{Playbook: "patch", Hosts: 12, Need: 1500, Rescue: true}}
	measured := []api.WindowWork{{Playbook: "patch", Hosts: 12, Need: 1500, Took: 540, Rescue: true}}
	const undone = ": patch on 12 hosts, each needs 25 min, rollback included (if it fails, undone by "
	now := utc(t, "2026-11-26 08:00")
	for _, c := range []struct {
		open, close, zone string
		work              []api.WindowWork
		want              string
	}{
		{"2026-12-05 21:00", "2026-12-06 04:00", berlin, patch, "Sat 5 Dec 22:00 to Sun 05:00 Europe/Berlin" + undone + "05:00)"},
		{"2026-12-05 21:00", "2026-12-05 22:00", berlin, patch, "Sat 5 Dec 22:00 to 23:00 Europe/Berlin" + undone + "23:00)"},
		{"2026-12-05 21:00", "2026-12-05 22:00", berlin, measured, "Sat 5 Dec 22:00 to 23:00 Europe/Berlin: patch on 12 hosts, each needs 25 min, rollback included, and took about 9 min in recent runs (if it fails, undone by 23:00)"},
		{"2027-01-02 21:00", "2027-01-03 04:00", "", patch, "Sat 2 Jan 2027 21:00 to Sun 04:00 UTC" + undone + "04:00)"},
		{"2026-12-05 00:00", "2026-12-15 00:00", "UTC", patch, "Sat 5 Dec 00:00 to Tue 15 Dec 00:00 UTC" + undone + "Tue 15 Dec 00:00)"},
		{"2027-03-27 21:00", "2027-03-28 03:00", berlin, nil, "Sat 27 Mar 2027 22:00 to Sun 05:00 Europe/Berlin (clocks change from CET to CEST): no playbook waits for it"},
		{"2026-12-05 21:00", "2026-12-05 22:00", "no/zone", []api.WindowWork{{Playbook: "patch", Hosts: 1, Need: 1500}, {Playbook: "fw", Hosts: 2, Rescue: true, Took: 9}}, "Sat 5 Dec 21:00 to 22:00 UTC: patch on 1 host, each needs 25 min, rollback included (whether a failure is undone is not known); fw on 2 hosts, which the server refuses to launch: a step has no needs"},
	} {
		got := sentences([]api.Occurrence{{Open: utc(t, c.open), Close: utc(t, c.close)}}, c.zone, c.work, now)
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}

const oldHash, newHash = "sha256:1111", "sha256:2222"

// windowAPI has one window set, which waits for an approval.
func windowAPI(t *testing.T, roles ...string) *operations {
	next := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 7)
	a := waitingFor(oldHash, next.Add(21*time.Hour))
	set := api.WindowSet{Name: "night", Timezone: berlin, Hosts: 12, Reason: "it waits for an approval", Next: a.Waiting, Work: a.Work, Approval: "proposed", Hash: oldHash}
	t.Helper()
	return &operations{roles: roles, tenant: "acme", answers: map[string]any{
		"GET /v1/windows":                map[string]any{"items": []api.WindowSet{set}},
		"GET /v1/windows/night":          set,
		"GET /v1/approvals":              map[string]any{"items": []api.WindowApproval{a}},
		"POST /v1/windows/night/approve": a,
		"POST /v1/windows/night/revoke":  a,
	}}
}

func waitingFor(hash string, opens time.Time) api.WindowApproval {
	return api.WindowApproval{
		Set: "night", Timezone: berlin, Hosts: 12, Hash: hash, State: "proposed", Reason: "nobody approved it", Decides: true, Work: []api.WindowWork{{Playbook: "patch", Hosts: 12, Need: 1500}},
		Waiting: []api.Occurrence{{Open: opens, Close: opens.Add(7 * time.Hour)}}, Given: []api.WindowWord{{By: "bob", Revoked: true, Reason: "too early"}},
	}
}

func TestWindows(t *testing.T) {
	o := windowAPI(t, "approver")
	v := visits(t, o)
	for _, path := range []string{"/windows", "/windows/night"} {
		_, text := v.get(path)
		has(t, path, text, "Europe/Berlin: patch on 12 hosts, each needs 25 min", "nobody approved it", "bob revoked: too early", `name="window" value="`+oldHash+`"`, "Approve these windows", "Refuse these windows")
		lacks(t, path, text, "Revoke the approval")
	}
	if status, _ := v.get("/windows/globex-night"); status != http.StatusNotFound {
		t.Errorf("another tenant's windows: %d", status)
	}
	o.set("GET /v1/approvals", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the record is away"})
	_, text := v.get("/windows")
	has(t, "a page without approvals", text, "cannot be shown: the record is away", `href="/windows/night"`)
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{}})
	o.set("GET /v1/windows", map[string]any{"items": []api.WindowSet{}})
	_, text = v.get("/windows")
	has(t, "an empty page", text, "Nothing waits for a decision", "No window set concerns your hosts")
}

// A decision is about the hash that its form has, with the key of the form.
func TestDecideOnWindows(t *testing.T) {
	o := windowAPI(t, "approver")
	v := visits(t, o)
	_, text := v.get("/windows/night")
	key := between(t, text, `name="key" value="`, `"`)
	form := url.Values{"window": {oldHash}, "rule": {""}, "key": {key}, "reason": {"agreed"}, "until": {"2030-12-31T18:00"}, "ticket": {"CHG1"}}
	if _, at, _ := v.post("/windows/night/approve", form); at != "/windows/night" {
		t.Errorf("after an approval: %s", at)
	}
	v.post("/windows/night/refuse", form)
	v.post("/windows/night/revoke", form)
	made := o.changes()
	if len(made) != 3 {
		t.Fatalf("%+v", made)
	}
	for i, path := range []string{"/v1/windows/night/approve", "/v1/windows/night/revoke", "/v1/windows/night/revoke"} {
		if m := made[i]; m.path != path || m.key != key || m.body["window"] != oldHash || m.body["reason"] != "agreed" || m.body["ticket"] != "CHG1" {
			t.Errorf("%+v, expected %s", m, path)
		}
	}
	if made[0].body["until"] != "2030-12-31T18:00:00Z" {
		t.Errorf("%+v", made[0].body)
	}
	if status, _, _ := v.post("/windows/night/approve", url.Values{"until": {"tomorrow"}}); status != http.StatusUnprocessableEntity {
		t.Errorf("until tomorrow: %d", status)
	}
}

// Windows that were edited meanwhile are not decided on: 412 shows what came and what went.
// Control: a conflict of another kind stays one.
func TestDecideOnEditedWindows(t *testing.T) {
	o := windowAPI(t, "approver")
	v := visits(t, o)
	_, text := v.get("/windows/night")
	seen := between(t, text, `name="seen" value="`, `"`)
	conflict := api.Problem{Status: http.StatusConflict, Detail: "nothing waits for an approval"}
	o.set("POST /v1/windows/night/approve", conflict)
	form := url.Values{"window": {oldHash}, "seen": {strings.ReplaceAll(seen, "\n", "\r\n")}}
	if status, _, text := v.post("/windows/night/approve", form); status != http.StatusConflict || !strings.Contains(text, conflict.Detail) {
		t.Errorf("a conflict: %d %s", status, text)
	}
	later := waitingFor(newHash, time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 9))
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{later}})
	status, _, text := v.post("/windows/night/approve", form)
	if status != http.StatusPreconditionFailed {
		t.Errorf("edited windows: %d", status)
	}
	has(t, "edited windows", text, "Nothing was done", "<del>"+seen+"</del>", "<ins>", `name="window" value="`+newHash+`"`)
}

// A set that hosts do not have in the inventory may be named by steps: the decision is about those
// hosts.
func TestHostsOfADecision(t *testing.T) {
	for want, a := range map[string]api.WindowApproval{
		"12 hosts": {Hosts: 12, Work: []api.WindowWork{{Hosts: 3}, {Hosts: 12}}},
		"5 hosts":  {Work: []api.WindowWork{{Hosts: 5}}},
		"the hosts of the playbooks above, at least 7,": {Hosts: 2, Work: []api.WindowWork{{Hosts: 7}, {Hosts: 6}}},
	} {
		if got := (approval{WindowApproval: a}).Affected(); got != want {
			t.Errorf("%+v: %q, expected %q", a, got, want)
		}
	}
}

func TestWhoDecidesOnWindows(t *testing.T) {
	buttons := []string{"Approve these windows", "Refuse these windows"}
	_, text := visits(t, windowAPI(t, "operator")).get("/windows")
	lacks(t, "an operator's windows", text, buttons...)
	o := windowAPI(t, "approver")
	a := waitingFor(oldHash, time.Now())
	a.Decides = false
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{a}})
	_, text = visits(t, o).get("/windows")
	lacks(t, "windows of several tenants", text, buttons...)
	has(t, "windows of several tenants", text, "your provider decides on them")
	a.Decides, a.State, a.Waiting = true, "approved", nil
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{a}})
	_, text = visits(t, o).get("/windows")
	has(t, "approved windows", text, "Revoke the approval")
	lacks(t, "approved windows", text, buttons...)
}

func TestTextOfWindowsIsNoMarkup(t *testing.T) {
	o := windowAPI(t, "approver")
	a := waitingFor(oldHash, time.Now())
	a.Reason, a.Rule, a.Work[0].Playbook, a.Given[0].By, a.Given[0].Reason = hostile, hostile, hostile, hostile, hostile
	a.Set = "night"
	set := api.WindowSet{Name: hostile, Timezone: berlin, Reason: hostile, Next: a.Waiting, Work: a.Work, Approval: hostile, ApprovedBy: hostile}
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{a}})
	o.set("GET /v1/windows", map[string]any{"items": []api.WindowSet{set}})
	o.set("GET /v1/windows/night", set)
	v := visits(t, o)
	for _, path := range []string{"/windows", "/windows/night"} {
		_, text := v.get(path)
		harmless(t, path, text)
	}
}
