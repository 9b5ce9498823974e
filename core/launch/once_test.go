package launch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

func parseOnce(t *testing.T, steps string) *playbooks.Playbook {
	t.Helper()
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\nsteps:\n"+steps), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Hosts that did not call the step take over what later steps read, and who called it.
func TestOnceForOthers(t *testing.T) {
	const step = "  - {name: a, uses: x, once: true, with: {v: 1}}\n"
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	o := snapshot.Once{Job: 3, Host: "db1", At: at, Result: &core.StepResult{
		Name: "a", Uses: "x", Outcome: core.Changed, Stdout: "said", Stderr: "warned", Diff: "-+", Outputs: map[string]any{"token": "t"}, Took: time.Second, Attempts: 2,
	}}
	for name, c := range map[string]struct {
		later string
		read  bool
	}{
		"read":        {"  - {name: b, uses: x, with: {v: \"${{ steps.a.outputs.token }}\"}}\n", true},
		"changed":     {"  - {name: b, uses: x, when: steps.a.changed, with: {v: 1}}\n", false},
		"nobody asks": {"", false},
	} {
		r := o.ForOthers(parseOnce(t, step+c.later), "r1")
		if r.Outcome != core.Changed || r.ReasonCode != core.CalledOnce || !strings.Contains(r.Reason, "db1") || *r.Kept != (core.Kept{Run: "r1", At: at, Host: "db1"}) {
			t.Errorf("%s: %+v %+v", name, r, r.Kept)
		}
		if (r.Outputs["token"] == "t" && r.Stdout == "said") != c.read || r.Stderr+r.Diff != "" || r.Took+time.Duration(r.Attempts) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		again := snapshot.Once{Job: -1, Result: &r}.ForOthers(parseOnce(t, step), "r2")
		if again.Kept.Run != "r1" || again.Kept.Host != "db1" {
			t.Errorf("%s, in a retry: %+v", name, again.Kept)
		}
	}
	if o.Result.Stderr == "" || o.Result.Kept != nil {
		t.Errorf("the caller's own result changed: %+v", o.Result)
	}
}

func TestKeepsOnce(t *testing.T) {
	const (
		before  = "  - {name: a, uses: x, once: true, with: {v: 1}}\n"
		include = "  - {name: i, include: steps/a.yaml, with: {p: 1}}\n"
	)
	for now, want := range map[string]bool{
		before: true,
		"  - {name: a, uses: x, once: true, with: {v: 1}, when: host.name != \"h\", timeout: 3m} # a note\n": true,
		"  - {name: a, uses: x, once: true, with: {v: 2}}\n":                                                 false,
		"  - {name: a, uses: y, once: true, with: {v: 1}}\n":                                                 false,
		"  - {name: b, uses: x, once: true, with: {v: 1}}\n":                                                 false,
		"  - {name: a, uses: x, with: {v: 1}}\n":                                                             false,
		"  - {name: a, uses: x, once: true, with: {v: 1}, foreach: [1]}\n":                                   false,
	} {
		p := parseOnce(t, now)
		if got := launch.KeptOnce(parseOnce(t, before), p, &p.Steps[0]) == 0; got != want {
			t.Errorf("%v for %s", got, now)
		}
	}
	values := "vars: {a: 1}\nparams: {b: {type: integer, default: 1}}\n"
	for now, want := range map[string]bool{
		values + "@" + include: true,
		"# a note\n" + values + "@" + include + "  - {name: last, uses: x, with: {v: 1}}\n": true,
		strings.Replace(values, "a: 1", "a: 2", 1) + "@" + include:                          false,
		strings.Replace(values, "default: 1", "default: 2", 1) + "@" + include:              false,
		values + "@" + strings.Replace(include, "p: 1", "p: 2", 1):                          false,
		values + "@" + strings.Replace(include, "with: {p: 1}", "when: true", 1):            false,
	} {
		was, is := withInclude(t, values+"@"+include), withInclude(t, now)
		if got := launch.KeptOnce(was, is, &is.Steps[0]) == 0; got != want {
			t.Errorf("%v for %s", got, now)
		}
	}
}

// withInclude returns a playbook of keys and, after @, steps, which may include a step with once.
func withInclude(t *testing.T, text string) *playbooks.Playbook {
	t.Helper()
	keys, steps, _ := strings.Cut(text, "@")
	files := map[string]string{"steps/a.yaml": "params: {p: {type: integer, default: 1}}\nsteps: [{name: a, uses: x, once: true, with: {v: \"${{ params.p }}\"}}]\n"}
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\n"+keys+"steps:\n"+steps), playbooks.Options{Steps: playbooks.ReadFrom(files)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A worker that knows no once refuses the run, and gets one without it.
func TestSnapshotWithOnce(t *testing.T) {
	for steps, want := range map[string]struct {
		version string
		once    int
	}{
		"  - {name: a, uses: x, once: true, with: {v: 1}}\n": {`"version":8`, 1},
		"  - {name: a, uses: x, with: {v: 1}}\n":             {`"version":1`, 0},
	} {
		l, err := launch.Prepare(parseOnce(t, steps), []core.Host{{Name: "h"}}, launch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(l.Run.Payload), want.version) {
			t.Errorf("%s: expected %s in %s", steps, want.version, l.Run.Payload)
		}
		s, err := snapshot.Decode(l.Run.Payload)
		if err != nil || (s.Once != nil) != (want.once > 0) || len(l.OnceSteps()) != want.once {
			t.Errorf("%s: %v, %v, %v", steps, s.Once, l.OnceSteps(), err)
		}
	}
}
