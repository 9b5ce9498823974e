//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// When it is asked to stop in the middle, the service finishes running steps and records them
// before its own queue ends: after the next start the rest runs, and no job a second time.
func TestLabUpStoppedInTheMiddleRunsNoJobTwice(t *testing.T) {
	t.Parallel()
	const hosts = 200
	dir := t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace, ms: 250}}", dir)) // 6 s of work: the stop is to come within it
	p, c := u.up()
	run := submitted(t, c)
	until(t, "the first jobs", func() bool { return len(executions(t, dir+"/trace")) > 20 })
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if before := len(executions(t, dir+"/trace")); before >= hosts {
		t.Fatalf("all %d jobs ran before the stop: the test shows nothing", before)
	}
	p, c = u.up()
	finished(t, c, run.ID)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if outcomes, _ := u.recorded(run.ID); outcomes[core.Changed] != hosts {
		t.Errorf("outcomes %v", outcomes)
	}
	if n := len(executions(t, dir+"/trace")); n != hosts {
		t.Errorf("%d executions of %d jobs", n, hosts)
	}
}

// Jobs that must not be repeated blindly continue where they were when the service was asked to
// stop. Each step of each job runs once. The run is not held for a person, as it is after a crash
// (see the next test).
func TestLabUpStoppedInTheMiddleGoesOnAtTheSameStep(t *testing.T) {
	t.Parallel()
	const hosts = 40
	dir := t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{name: one, uses: lab.hold, with: {file: %s/one, ms: 600}}\n  - {name: two, uses: lab.hold, with: {file: %s/two, ms: 600}}", dir, dir)) // 6 s of work, as above
	p, c := u.up()
	run := submitted(t, c)
	until(t, "jobs between their steps", func() bool { return len(executions(t, dir+"/one")) > 10 })
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if one, two := len(executions(t, dir+"/one")), len(executions(t, dir+"/two")); two >= hosts || one <= two {
		t.Fatalf("%d first and %d second steps ran before the stop: the test shows nothing", one, two)
	}
	p, c = u.up()
	finished(t, c, run.ID)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if outcomes, _ := u.recorded(run.ID); outcomes[core.Changed] != hosts {
		t.Errorf("outcomes %v", outcomes)
	}
	if one, two := len(executions(t, dir+"/one")), len(executions(t, dir+"/two")); one != hosts || two != hosts {
		t.Errorf("%d first and %d second steps of %d jobs", one, two, hosts)
	}
}

// Negative: killed, the service cannot know what such jobs saw, and pauses their run.
func TestLabUpKilledInTheMiddleHoldsWhatMustNotBeRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := newUpSite(t, 40, fmt.Sprintf("{uses: lab.hold, with: {file: %s/trace, ms: 20000}}", dir)) // none ends before the kill
	p, c := u.up()
	run := submitted(t, c)
	until(t, "the first jobs", func() bool { return len(executions(t, dir+"/trace")) > 4 })
	p.kill()
	p, c = u.up()
	until(t, "the run to be held", func() bool {
		run, err := c.Run(context.Background(), run.ID)
		return err == nil && run.Phase == api.Paused
	})
	p.signal(syscall.SIGTERM)
	p.wants(0)
}

// Killed in the middle, twice, the service loses no run, and each job has one outcome.
func TestLabUpKilledInTheMiddleLosesNothing(t *testing.T) {
	t.Parallel()
	const hosts = 200
	dir := t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace, ms: 40}}", dir))
	var id string
	for i := range 2 {
		p, c := u.up()
		id = submitted(t, c).ID // the same key: the same run
		until(t, "some jobs", func() bool { return len(executions(t, dir+"/trace")) > 30*(i+1) })
		p.kill()
	}
	p, c := u.up()
	finished(t, c, id)
	if runs, err := c.Runs(context.Background(), client.RunFilter{}, client.Page{}); err != nil || len(runs.Items) != 1 {
		t.Errorf("%d runs, %v; expected one", len(runs.Items), err)
	}
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if outcomes, _ := u.recorded(id); outcomes[core.Changed] != hosts {
		t.Errorf("outcomes %v", outcomes)
	}
}
