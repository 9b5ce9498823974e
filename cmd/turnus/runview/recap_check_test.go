package runview

import (
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The recap of a dry run names the steps that would change hosts, in the order of the playbook, and
// the hosts that were not checked whole, equal reasons grouped. Controls: the recap of the same
// results outside of check mode has no such step; of a rescued host the group has the failure.
func TestRecapOfADryRun(t *testing.T) {
	result := func(host string, steps ...api.StepResult) api.Result {
		return api.Result{Host: host, Outcome: core.Changed, Steps: steps}
	}
	step := func(name, uses, reason string, o core.Outcome) api.StepResult {
		return api.StepResult{Name: name, Uses: uses, Reason: reason, Outcome: o}
	}
	config := step("config", "file", "", core.Changed)
	config.Diff = "--- /etc/shop\n+++ /etc/shop\n@@ -0,0 +1 @@\n+port 80\n"
	lacks := func(host string) api.StepResult {
		s := step("start", "service", "the host has no service shop@"+host+"; an earlier step of this run may bring it", core.Changed)
		s.ReasonCode = core.Unchecked
		return s
	}
	called := step("migrate", "command", "once: host web2 called it in run r", core.Changed)
	called.ReasonCode = core.CalledOnce
	web1 := result("web1", step("install", "package", "", core.Unchanged), config, called, lacks("web1"), step("ask", "http", "would request /x", core.Unchanged), step("old", "line", "no /etc/old", core.Failed), step("motd", "file", "", core.Changed))
	web2 := result("web2", step("install", "package", "install shop", core.Changed), config, step("migrate", "command", "would run: migrate", core.Changed), lacks("web2"))
	for _, r := range []*api.Result{&web1, &web2} {
		r.ReasonCode, r.Reason = core.Unchecked, "not checked: step start: "+r.Steps[3].Reason
	}
	reload := step("reload", "service", "would run", core.Changed)
	reload.Handler, reload.ReasonCode = true, core.WouldRun
	web1.Steps = append(web1.Steps, reload)
	report := Report{Playbook: "shop", Check: true, Total: 2, Outcomes: map[core.Outcome]int{core.Changed: 2}, Results: []api.Result{web1, web2}}
	const want = `── install (package)
  1 host: web2
    install shop

── config (file)
  2 hosts: web1,web2
    --- /etc/shop
    +++ /etc/shop
    @@ -0,0 +1 @@
    +port 80

── migrate (command)
  1 host: web2
    would run: migrate

── start (service)
  2 hosts: web1,web2
    of web1; others differ in ports, times or temporary names:
    the host has no service shop@web1; an earlier step of this run may bring it

── old (line)
  1 host: web1
    failed, and the host continued: no /etc/old

── motd (file)
  1 host: web1
    would change

── reload (service)
  1 host: web1
    would run

unchecked   2 hosts: web1,web2
            not checked: step start: the host has no service shop@web1; an earlier step of this run may bring it

shop: 2 hosts in 0s: 2 changed, 2 unchecked (check mode: nothing was changed)
`
	recap := func(r Report) string {
		var out strings.Builder
		WriteRecap(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, r)
		return out.String()
	}
	if got := recap(report); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	report.Check = false
	if got := recap(report); strings.Contains(got, "── motd") || strings.Contains(got, "── install") {
		t.Errorf("outside of check mode:\n%s", got)
	}
	report.Results[0].ReasonCode = core.Rescued
	if got := recap(report); strings.Contains(got, "the host continued") {
		t.Errorf("of a rescued host:\n%s", got)
	}
}

// A warning of a job type is shown once for the hosts that have it, and hides no change in check
// mode.
func TestRecapOfAWarning(t *testing.T) {
	const warned = "── kernel (sysctl)\n  2 hosts: web1,web2\n    warning: 99-a.conf sets vm.x to 2\n"
	for check, want := range map[bool]string{false: warned, true: warned + "    vm.x: 1, was 2\n"} {
		report := Report{Playbook: "p", Check: check, Total: 2, Outcomes: map[core.Outcome]int{core.Changed: 2}}
		for _, host := range []string{"web1", "web2"} {
			s := api.StepResult{Name: "kernel", Uses: "sysctl", Reason: "vm.x: 1, was 2", Outcome: core.Changed, Stderr: "warning: 99-a.conf sets vm.x to 2\n"}
			report.Results = append(report.Results, api.Result{Host: host, Outcome: core.Changed, Steps: []api.StepResult{s}})
		}
		var out strings.Builder
		writeOutputs(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, report)
		if got := out.String(); got != want+"\n" {
			t.Errorf("check %v:\n%s\nexpected\n%s", check, got, want)
		}
	}
}
