package runview

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestKeysOfTheView(t *testing.T) {
	runs := []progress{rollout(), ended()} // edge-0007, edge-0133 are slow, edge-0021, edge-0040, edge-0055 failed
	for _, c := range []struct {
		name, keys, chosen string
		detail, logs       bool
	}{
		{"detail", "d", "", true, false},
		{"detail twice", "dd", "", false, false},
		{"down", "jj", "edge-0133", false, false},
		{"below the last", "jjjjjjjj", "edge-0055", false, false},
		{"up", "jjk", "edge-0007", false, false},
		{"logs of the first", "l", "edge-0007", false, true},
		{"logs of another", "lj", "edge-0133", false, true},
		{"back", "jjll", "edge-0133", false, false},
		{"escape", "jl\x1b", "", false, false},
		{"other keys", "xyz", "", false, false},
	} {
		v := view{runs: runs}
		for _, key := range c.keys {
			v = v.press(console.Key(key))
		}
		if v.chosen != c.chosen || v.detail != c.detail || v.logs != c.logs {
			t.Errorf("%s: chosen %q, detail %v, logs %v", c.name, v.chosen, v.detail, v.logs)
		}
	}
	if v := (view{}).press('l').press(console.KeyDown); v.chosen != "" {
		t.Errorf("%q is chosen of no hosts", v.chosen)
	}
}

// 300 equal failures are one message and one line with a count, though ports and names differ.
func TestEqualFailuresAreFolded(t *testing.T) {
	var said strings.Builder
	con := console.New(strings.NewReader(""), io.Discard, &said)
	ta := NewTally(Outline{Name: "site", Total: 301, Waves: []int{1, 301}, Steps: []string{"push", "check"}})
	for i := range 300 {
		host := "web" + strings.Repeat("x", i%7)
		r := api.Result{Job: core.JobID{Index: i}, Host: host, Outcome: core.Unreachable, Step: "check", Reason: host + " (127.0.0.1:" + strings.Repeat("1", 1+i%5) + "): refused"}
		ta.Recorded(r)
		ta.Fail(con, r)
	}
	ta.Fail(con, api.Result{Host: "db", Outcome: core.Failed, Reason: "refused"})
	ta.Fail(con, api.Result{Host: "ok", Outcome: core.Changed})
	if got := strings.Count(said.String(), "\n"); got != 2 {
		t.Errorf("%d messages: %s", got, said.String())
	}
	p := ta.snapshot(3)
	if len(p.failures) != 2 || p.failures[0].hosts != 300 || p.failures[1].hosts != 1 {
		t.Errorf("%+v", p.failures)
	}
	if p.limits[0].finished != 1 || p.limits[1].finished != 299 {
		t.Errorf("waves: %+v", p.limits)
	}
	if p.steps[0].past != 300 || p.steps[1].past != 0 {
		t.Errorf("steps: %+v", p.steps)
	}
}

func TestHostsAtAndPastSteps(t *testing.T) {
	ta := NewTally(Outline{Total: 4, Steps: []string{"a", "b"}})
	for host, step := range map[string]string{"1": "a", "2": "b", "3": "c"} {
		ta.JobStarted(host)
		ta.StepStarted(host, step)
	}
	ta.JobLeft("2") // it waits at b
	ta.Recorded(api.Result{Host: "4", Outcome: core.Changed})
	want := []stepCount{{"a", 1, 3}, {"b", 1, 2}, {"c", 1, 1}}
	got := ta.snapshot(3)
	for i, s := range got.steps {
		if s != want[i] {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
	if got.running != 2 {
		t.Errorf("%d running", got.running)
	}
}

func TestNextCommands(t *testing.T) {
	failed := Report{Run: "r1", Outcomes: map[core.Outcome]int{core.Failed: 2, core.Changed: 1}, Results: []api.Result{{Host: "ok", Outcome: core.Changed}, {Host: "web1", Outcome: core.Failed}}}
	check := failed
	check.Check = true
	stopped := failed
	stopped.Results = append(slices.Clip(failed.Results), api.Result{Host: "web2", Outcome: core.Cancelled, ReasonCode: core.WaveFailed}, api.Result{Host: "web3", Outcome: core.Cancelled, ReasonCode: core.WaveFailed})
	later := failed // with a step before the failed one
	later.Results = []api.Result{{Host: "web1", Outcome: core.Failed, Steps: []api.StepResult{{Outcome: core.Changed}, {Outcome: core.Failed}}}}
	lost := later
	lost.Results = []api.Result{{Host: "web1", Outcome: core.Lost, Steps: []api.StepResult{{Outcome: core.Changed}, {Outcome: core.Lost}}}}
	scan := failed
	scan.Kind, scan.Playbook = api.KindHostKeys, "hostkeys"
	namesake := failed // a playbook of the project
	namesake.Playbook = "hostkeys"
	good := Report{Run: "r1", Outcomes: map[core.Outcome]int{core.Changed: 1}}
	for _, c := range []struct {
		name     string
		r        Report
		record   string
		terminal bool
		want     string
	}{
		{"local", failed, "/r", false, "next:   turnus logs r1 --host web1 --local\n        turnus runs show r1 --local\n        the same command with --retry-failed: only 2 hosts that did not succeed\nrecord: /r"},
		{"a later step", later, "/r", false, "next:   turnus logs r1 --host web1 --local\n        turnus runs show r1 --local\n        the same command with --retry-failed: only 2 hosts that did not succeed\n        the same command with --retry-failed --from failed-step: without the steps that succeeded\nrecord: /r"},
		{"lost", lost, "/r", false, "next:   turnus logs r1 --host web1 --local\n        turnus runs show r1 --local\n        the same command with --retry-failed: only 2 hosts that did not succeed\nrecord: /r"},
		{"server", failed, "", true, "next:   turnus logs r1 --host web1\n        turnus runs show r1\n        turnus runs retry r1\nrecord: on the server"},
		{"a scan of host keys", scan, "", true, "next:   turnus logs r1 --host web1\n        turnus runs show r1\n        turnus hostkeys scan\nrecord: on the server"},
		{"a playbook named as a scan", namesake, "", true, "next:   turnus logs r1 --host web1\n        turnus runs show r1\n        turnus runs retry r1\nrecord: on the server"},
		{"a wave failed", stopped, "", true, "next:   turnus logs r1 --host web1\n        turnus runs show r1\n        turnus runs retry r1\n        strategy: {on_failed_wave: continue} in the playbook: the next wave starts nevertheless\nrecord: on the server"},
		{"check", check, "/r", false, "next:   turnus logs r1 --host web1 --local\n        turnus runs show r1 --local\nrecord: /r"},
		{"check on a server", check, "", false, "next:   turnus logs r1 --host web1\n        turnus runs show r1\n        turnus runs retry r1\nrecord: on the server"},
		{"good", good, "/r", true, "next:   turnus runs show r1 --local\nrecord: /r"},
		{"good in a script", good, "/r", false, ""},
	} {
		if got := strings.Join(nextLines(c.r, c.record, c.terminal), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
