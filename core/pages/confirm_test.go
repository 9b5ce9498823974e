package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The text of a cancel shows what becomes of each host of the run: no host is left out, none
// counted twice.
func TestWhatACancelDoes(t *testing.T) {
	run := api.Run{Phase: api.Active, Total: 3000, Outcomes: map[core.Outcome]int{core.Changed: 980, core.Failed: 6}, Live: &api.Live{InFlight: 214, Waiting: 1, Suspended: 2, Pending: 1797}}
	queued := api.Run{Phase: api.Queued, Total: 1}
	for _, c := range []struct {
		run  api.Run
		away bool
		want string
	}{
		{run, false, "214 hosts run now and are told to stop. 1797 hosts have not begun and never start. 3 hosts wait for an attempt, a signal or a window, and do nothing more. 986 hosts keep their outcomes."},
		{queued, false, "0 hosts run now and are told to stop. 1 host has not begun and never starts."},
		{queued, true, "How many hosts run now is unknown. Those that do are told to stop, and no other one starts."},
		{api.Run{Phase: api.Active, Total: 2, Outcomes: map[core.Outcome]int{core.Changed: 1}}, false, "How many hosts run now is unknown. Those that do are told to stop, and no other one starts. 1 host keeps its outcome."},
	} {
		if got := stoppingOf(c.run, c.away).Sentences(); got != c.want {
			t.Errorf("%s, expected %s", got, c.want)
		}
	}
}

// waitingAPI has a run whose wave waits for an approval.
func waitingAPI(t *testing.T, hosts int, roles ...string) *operations {
	t.Helper()
	o := retryAPI(t, roles...)
	o.set("GET /v1/runs/r0", api.Run{
		ID: "r0", Playbook: "shop", Phase: api.Active, Total: 4 * hosts, Outcomes: map[core.Outcome]int{core.Changed: hosts},
		Live: &api.Live{Wave: 2, Waves: 3, Released: hosts, Pending: 3 * hosts}, Waits: &api.WaveWait{Wave: 2, Hosts: hosts},
	})
	o.set("POST /v1/runs/r0/approve", api.Run{ID: "r0"})
	o.set("POST /v1/runs/r0/cancel", api.Run{ID: "r0"})
	return o
}

// A final action needs a reason, and from 100 hosts on their number: the page asks for them, and
// without them the API gets nothing. Control: with them it does.
func TestFinalActionsOnARun(t *testing.T) {
	for _, c := range []struct {
		verb, form string
		hosts      int
		sent       bool
	}{
		{"approve", "wave=2&reason=x", 25, true},
		{"approve", "wave=2", 25, false},
		{"approve", "wave=3&reason=x", 25, false},
		{"approve", "reason=x", 25, false},
		{"approve", "wave=2&reason=x", 100, false},
		{"approve", "wave=2&reason=x&typed=400", 100, false},
		{"approve", "wave=2&reason=x&typed=+100", 100, true},
		{"refuse", "wave=2&reason=+", 25, false},
		{"refuse", "wave=2&reason=x", 25, true},
		{"refuse", "wave=2&reason=x", 100, false},
		{"refuse", "wave=2&reason=x&typed=100", 100, true},
		{"cancel", "reason=x", 24, true},
		{"cancel", "", 24, false},
		{"cancel", "reason=x", 25, false}, // of four waves
		{"cancel", "reason=x&typed=99", 25, false},
		{"cancel", "reason=x&typed=100", 25, true},
	} {
		o := waitingAPI(t, c.hosts, "operator", "approver")
		v := visits(t, o)
		form, _ := url.ParseQuery(c.form) // of this test
		status, at, text := v.post("/runs/r0/"+c.verb, form)
		if sent := len(o.changes()) == 1; sent != c.sent || sent != (at == "/runs/r0") {
			t.Errorf("%s of %d hosts with %q: sent is %t, expected %t; status %d at %s", c.verb, c.hosts, c.form, sent, c.sent, status, at)
		}
		if !c.sent {
			has(t, c.verb+" "+c.form, text, "Nothing was done: ")
		}
	}
}

// Hosts of a disruptive run start only after their number is typed, also below 100. The page asks
// for it, and the server checks it. Controls: another run, a dry run, and a cancel, which starts no
// host.
func TestApprovalsOfADisruptiveRun(t *testing.T) {
	for _, c := range []struct {
		verb              string
		disruptive, check bool
		needs             bool
	}{
		{"approve", true, false, true},
		{"refuse", true, false, true}, // it is the same form
		{"approve", false, false, false},
		{"approve", true, true, false},
		{"cancel", true, false, false},
	} {
		for _, typed := range []bool{false, true} {
			o := waitingAPI(t, 3, "operator", "approver")
			run := o.answers["GET /v1/runs/r0"].(api.Run)
			run.Disruptive, run.Check = c.disruptive, c.check
			o.set("GET /v1/runs/r0", run)
			v := visits(t, o)
			_, text := v.get("/runs/r0")
			if asks := strings.Contains(text, "Type the number of hosts, 3 "); asks != (c.disruptive && !c.check) {
				t.Errorf("%+v: the page asks for the number: %v", c, asks)
			}
			form := url.Values{"wave": {"2"}, "reason": {"x"}}
			if typed {
				form.Set("typed", "3")
			}
			v.post("/runs/r0/"+c.verb, form)
			if sent := len(o.changes()) == 1; sent != (typed || !c.needs) {
				t.Errorf("%+v, typed %v: sent is %v", c, typed, sent)
			}
		}
	}
}

// A dialog shows what its buttons do, and to how many hosts.
func TestDialogsOfARun(t *testing.T) {
	o := waitingAPI(t, 100, "operator", "approver")
	v := visits(t, o)
	_, text := v.get("/runs/r0")
	has(t, "an approval", text, "<summary>Approve or refuse wave 2 …</summary>", "Approve: 100 hosts may start, and 200 hosts of later waves wait on.", "0 hosts run now and are told to stop. 300 hosts have not begun and never start. 100 hosts keep their outcomes.",
		"Type the number of hosts, 100 ", ">Approve wave 2: 100 hosts may start<", ">Refuse wave 2: the run is cancelled<", "Type the number of hosts, 400 ")
	o.set("GET /v1/runs/r0", api.Run{ID: "r0", Playbook: "shop", Phase: api.Approval, Total: 12})
	_, text = v.get("/runs/r0")
	has(t, "a run that waits", text, "Approve or refuse the run …", "Approve: 12 hosts may start.", "12 hosts have not begun")
	lacks(t, "a run that waits", text, "Type the number")
	if _, at, _ := v.post("/runs/r0/approve", url.Values{"reason": {"x"}}); at != "/runs/r0" {
		t.Errorf("an approval of the run leads to %s", at)
	}
}

// A person who may not act gets the refusal of the API, whatever the form contains.
func TestFinalActionsOfAViewer(t *testing.T) {
	for _, verb := range []string{"cancel", "approve", "refuse"} {
		o := waitingAPI(t, 100, "viewer")
		for _, path := range []string{"cancel", "approve"} {
			o.set("POST /v1/runs/r0/"+path, api.Problem{Status: http.StatusForbidden, Detail: "it needs the role"})
		}
		if status, _, text := visits(t, o).post("/runs/r0/"+verb, nil); status != http.StatusForbidden || !strings.Contains(text, "it needs the role") {
			t.Errorf("%s: %d %s", verb, status, text)
		}
	}
}

// A drain needs a reason, and from 100 jobs on their number: that of the page, which may have
// changed since.
func TestDrainIsConfirmed(t *testing.T) {
	workers := []api.Worker{{Name: "w1", Running: 99}, {Name: "w2", Running: 120}}
	for _, c := range []struct {
		name, form string
		ok         bool
	}{
		{"w1", "reason=x", true},
		{"w1", "", false},
		{"w1", "reason=x&jobs=101", false},
		{"w2", "reason=x", false},
		{"w2", "reason=x&typed=120", true},
		{"w2", "reason=x&jobs=118&typed=118", true},
		{"w2", "reason=x&jobs=118&typed=120", false},
		{"w2", "reason=x&jobs=5&typed=5", false},
	} {
		form, _ := url.ParseQuery(c.form) // of this test
		if got := undrained(workers, c.name, form); (got == "") != c.ok {
			t.Errorf("%s with %q: %q", c.name, c.form, got)
		}
	}
}
