//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

const continued = `playbook: continued
targets: "true"
params: {word: {type: string, default: plain}}
steps:
  - {name: one, uses: command, notify: [restart], with: {run: step-one}}
  - {name: two, uses: command, with: {run: step-two}}
  - {name: three, uses: command, tags: [last], with: {run: "step-three ${{ trim(steps.one.stdout) }} ${{ params.word }}"}}
handlers:
  - {name: restart, uses: command, with: {run: step-restart}}
`

// stepped counts the calls of the steps of continued on all hosts. Step two fails on the first two
// hosts, or hangs on all.
type stepped struct {
	mu          sync.Mutex
	calls       map[string]int
	fail, hang  bool
	first, next string // hosts
	boot        string // id that hosts give
}

func (s *stepped) handle(ctx context.Context, c fleet.Command) (int, bool) {
	step, ok := strings.CutPrefix(strings.TrimSpace(c.Script), "step-")
	if strings.Contains(c.Script, "boot_id") {
		step, ok = "asks", true
	}
	if !ok {
		return 0, false
	}
	s.mu.Lock()
	boot := s.boot
	s.calls[step]++
	fails, hangs := step == "two" && s.fail && (c.Host == s.first || c.Host == s.next), step == "two" && s.hang
	s.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
	case fails:
		return 3, true
	case step == "asks":
		fmt.Fprintln(c.Stdout, "boot "+boot)
	case step == "one":
		fmt.Fprintln(c.Stdout, "said")
	}
	return 0, true
}

func (s *stepped) set(fail, hang bool, boot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.hang, s.boot, s.calls = fail, hang, boot, map[string]int{}
}

func (s *stepped) made() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// turnus run --retry-failed --from failed-step calls no step again that succeeded, gives its output
// to later steps, and runs pending handlers. A retry that cannot continue calls nothing, also on a
// host that has booted since.
func TestRunRetriesFromTheFailedStep(t *testing.T) {
	t.Parallel()
	s := &stepped{}
	l := newLab(t, fleet.Config{Hosts: 4, Handle: s.handle})
	s.first, s.next = l.fleet.Hosts()[0].Name, l.fleet.Hosts()[1].Name
	path := l.file("continued.yaml", continued)
	run := func(code int, says string, args ...string) *process {
		t.Helper()
		p := l.start(append([]string{"run", "-i", l.hosts, "--cpu-limit", "0", "--memory-limit", "0", path}, args...)...)
		p.wants(code)
		if !p.err.has(says) {
			t.Errorf("%v: %s\nexpected %s", args, p.err, says)
		}
		return p
	}
	calls := func(want map[string]int) {
		t.Helper()
		if got := s.made(); !maps.Equal(got, want) {
			t.Errorf("called %v, expected %v", got, want)
		}
	}
	again := func(more ...string) []string {
		return append([]string{"--retry-failed", "--from", "failed-step"}, more...)
	}

	s.set(true, false, "b1")
	run(2, "--retry-failed --from failed-step")
	calls(map[string]int{"one": 4, "two": 4, "asks": 2, "three said plain": 2, "restart": 2})

	s.set(false, false, "b1")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"-e word. Its steps", again("-e", "word=other")},
		{"--tags, --become. Its steps", again("--tags", "last", "--become")},
		{"--skip-tags. Its steps", again("--skip-tags", "last")},
		{"needs the record", again("--no-record")},
		{"no --check", again("--check")},
		{"--retry-failed with it", []string{"--from", "failed-step"}},
		{"--else restart: expected", []string{"--retry-failed", "--else", "restart"}},
		{"--from three: expected failed-step", []string{"--retry-failed", "--from", "three"}},
	} {
		run(5, c.says, c.args...)
	}
	plan := l.start(append([]string{"plan", "-i", l.hosts, path}, again()...)...)
	plan.wants(0)
	if !plan.err.has("2 hosts: at the failed step of run ") {
		t.Errorf("plan: %s", plan.err)
	}
	calls(nil)
	r := run(0, "2 hosts: at the failed step of run ", again("-o", "json")...).report()
	calls(map[string]int{"asks": 2, "two": 2, "three said plain": 2, "restart": 2})
	if step := r.byHost(t, s.first).Steps[0]; r.Total != 2 || step.Kept == nil || step.Outcome != core.Changed {
		t.Errorf("%d hosts, %+v", r.Total, step)
	}

	s.set(true, false, "b1")
	run(2, "")
	s.set(false, false, "b1")
	l.file("continued.yaml", strings.Replace(continued, "run: step-two", "run: step-other", 1))
	run(5, "2 of 2 hosts cannot continue at the failed step: "+s.first+": the playbook has other steps", again()...)
	calls(nil)
	run(0, s.next+": from the first step: the playbook has other steps", again("--else", "restart")...)
	calls(map[string]int{"one": 2, "other": 2, "three said plain": 2, "restart": 2})

	l.file("continued.yaml", continued)
	s.set(true, false, "b1")
	run(2, "")
	s.set(false, false, "b2")
	run(2, "2 hosts: at the failed step", again()...)
	calls(map[string]int{"asks": 2})
	run(5, "2 of 2 hosts cannot continue at the failed step: "+s.first+": the results of its steps are not on record", again()...)
	run(0, "", "--retry-failed")
	calls(map[string]int{"asks": 2, "one": 2, "two": 2, "three said plain": 2, "restart": 2})

	s.set(false, true, "b1")
	killed := l.start("run", "-i", l.hosts, "--cpu-limit", "0", "--memory-limit", "0", path)
	until(t, "step two on all hosts", func() bool { return s.made()["two"] == 4 })
	killed.kill()
	s.set(false, false, "b1")
	run(5, "4 of 4 hosts cannot continue at the failed step: "+s.first+": its outcome is lost", again()...)
	calls(nil)
}
