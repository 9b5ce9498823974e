package runview

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The recap counts and names hosts that succeeded because a group dealt with a failure, and no
// other host that has a reason.
func TestRecapOfRescuedHosts(t *testing.T) {
	var out strings.Builder
	WriteRecap(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, Report{
		Playbook: "swap", Total: 3, Outcomes: map[core.Outcome]int{core.Changed: 2, core.Skipped: 1},
		Results: []api.Result{
			{Host: "web1", Outcome: core.Changed, Reason: "rescued: step check: exit 1", ReasonCode: core.Rescued},
			{Host: "web2", Outcome: core.Changed},
			{Host: "web3", Outcome: core.Skipped, Reason: "when: false", ReasonCode: core.WhenFalse},
		},
	})
	for _, want := range []string{"2 changed, 1 skipped, 1 rescued\n", "rescued     1 host: web1\n            rescued: step check: exit 1\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nis without %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "web3") {
		t.Errorf("%s\nnames a host that was not rescued", out.String())
	}
}

// Only the host that called a step with once shows its output, and no host that read it.
func TestRecapOfAStepWithOnce(t *testing.T) {
	step := api.StepResult{Name: "migrate", Uses: "command", Outcome: core.Changed, Stdout: "v7\n"}
	read := step
	read.ReasonCode = core.CalledOnce
	var out strings.Builder
	WriteRecap(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, Report{
		Playbook: "release", Total: 2, Outcomes: map[core.Outcome]int{core.Changed: 2},
		Results: []api.Result{
			{Host: "web1", Outcome: core.Changed, Steps: []api.StepResult{read}},
			{Host: "web2", Outcome: core.Changed, Steps: []api.StepResult{step}},
		},
	})
	if want := "── migrate (command)\n  1 host: web2\n    v7\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nis without %q", out.String(), want)
	}
}

// Hosts whose keys are not known are one reason; the message marks the hint as that of one of them,
// and a key in it is whole.
func TestReasonsOfKeysAreOfOneHost(t *testing.T) {
	key := "ssh-rsa " + strings.Repeat("A", 720)
	unknown := func(host, print string) api.Result {
		return api.Result{Host: host, Outcome: core.Unreachable, Reason: fmt.Sprintf("%s (127.0.0.1:22): unknown host key: ssh-rsa SHA256:%s\nhint: in known_hosts: %s %s", host, print, host, key)}
	}
	const note = "each showed another key; this is of web1:"
	for _, c := range []struct {
		name, second string
		varied       bool
	}{{"another key", "def", true}, {"the same key", "abc", false}} {
		var out strings.Builder
		WriteReasons(console.New(strings.NewReader(""), io.Discard, io.Discard), &out, []api.Result{unknown("web1", "abc"), unknown("web2", c.second)})
		if got := out.String(); !strings.Contains(got, "2 hosts: web1,web2") || strings.Contains(got, note) != c.varied || !strings.Contains(got, "web1 "+key+"\n") {
			t.Errorf("%s:\n%s", c.name, got)
		}
	}
}
