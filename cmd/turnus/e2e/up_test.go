//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/transport/fleet"
)

// upSite is turnus up with a data folder that outlives it.
type upSite struct {
	*lab
	data string
	more []string // further arguments
}

func newUpSite(t *testing.T, hosts int, step string) *upSite {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for i := range hosts {
		fmt.Fprintf(&inventory, "  host-%05d: {address: 127.0.0.1}\n", i)
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - "+step+"\n")
	return &upSite{lab: l, data: filepath.Join(l.dir, "data")}
}

func (u *upSite) up() (*process, *client.Client) {
	u.t.Helper()
	return u.startUp(u.data, slices.Concat([]string{"-f", "8"}, u.pluginFlags(), u.more)...)
}

// startUp starts turnus up on the project in ops, and returns it with a client that has its admin
// token.
func (l *lab) startUp(data string, args ...string) (*process, *client.Client) {
	l.t.Helper()
	p := l.start(append([]string{"up", "--data", data, "--definitions", filepath.Join(l.dir, "ops"), "--listen", "127.0.0.1:0", "--context", ""}, args...)...)
	until(l.t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		l.t.Fatalf("%v; %s", err, p.err)
	}
	c, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token))})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return p, c
}

// submitted asks until the definitions are there.
func submitted(t *testing.T, c *client.Client) api.Run {
	t.Helper()
	var run api.Run
	until(t, "the run to be accepted", func() (ok bool) {
		var err error
		run, err = c.CreateRun(context.Background(), "k", api.NewRun{Playbook: "all"})
		return err == nil
	})
	return run
}

func finished(t *testing.T, c *client.Client, id string) {
	t.Helper()
	until(t, "the run to finish", func() bool {
		run, err := c.Run(context.Background(), id)
		return err == nil && run.Phase == api.Finished
	})
}

// recorded looks at the ledger when nobody has it open.
func (u *upSite) recorded(id string) (map[core.Outcome]int, int) {
	u.t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite:"+filepath.Join(u.data, "ledger.db"), ledger.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return accounted(u.t, l, id)
}

// Told to stop in the middle, the service finishes what runs and records it before its own queue
// ends: after the next start the rest runs, and no job a second time.
func TestUpStoppedInTheMiddleRunsNoJobTwice(t *testing.T) {
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

// Jobs that must not be repeated blindly go on where they were when the service was told to stop:
// each step of each job runs once, and the run is not held for a person, as it is after a crash
// (see the next test).
func TestUpStoppedInTheMiddleGoesOnAtTheSameStep(t *testing.T) {
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

// Negative: killed, the service cannot say what such jobs saw, and holds their run.
func TestUpKilledInTheMiddleHoldsWhatMustNotBeRepeated(t *testing.T) {
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
func TestUpKilledInTheMiddleLosesNothing(t *testing.T) {
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
