package localrun

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// A second Ctrl-C stops the only worker in a step of a group, or in always of it. Nobody is left to
// run always, so the command reports that and does not wait.
func TestSecondInterruptWaitsForNobody(t *testing.T) {
	warm(t)
	for name, suspends := range map[string]bool{"a step runs": false, "a suspended host does always": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interruptTwice(t, suspends) })
		})
	}
}

// suspending suspends each host in step b.
type suspending struct{ *database }

func (s suspending) Run(ctx context.Context, c host.Call) (host.Outcome, error) {
	if c.Step == "b" {
		return host.Outcome{Suspended: true, ResumeAfter: time.Hour}, nil
	}
	return s.database.Run(ctx, c)
}

// interruptTwice drives a run of two hosts. If they suspend, the first Ctrl-C has them do always.
func interruptTwice(t *testing.T, suspends bool) {
	t.Helper()
	p, err := playbooks.Parse("site.yaml", []byte("playbook: site\ntargets: true\nsteps: [{name: g, steps: [{name: b, uses: file, with: {path: /b}}], always: [{name: z, uses: file, with: {path: /z}}]}]\n"), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDatabase("retry")
	types := func(name string) (playbooks.Type, bool) {
		found, ok := d.types[name]
		return playbooks.Type{Name: found.Name, OnLost: found.OnLost}, ok
	}
	l, err := launch.Prepare(p, []core.Host{{Name: "a"}, {Name: "b"}}, launch.Options{RunID: "r", Types: types})
	if err != nil {
		t.Fatal(err)
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	cfg := worker.Config{Queue: q, Payload: q.Payload, Board: q, Plugins: d, Name: "only", Grace: time.Second}
	first := 250 * time.Millisecond // a step takes a second
	if suspends {
		cfg.Plugins, first = suspending{d}, time.Minute
	}
	w, err := worker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	worked := make(chan error, 1)
	go func() { worked <- w.Run(t.Context()) }()
	var printed bytes.Buffer
	c := NewConductor(console.New(nil, &bytes.Buffer{}, &printed), q)
	now := make(chan struct{})
	c.Now = now
	part := c.Add(l)
	end, err := c.Begin(t.Context(), types)
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	time.AfterFunc(first, interrupt)
	var stopped time.Time
	time.AfterFunc(first+500*time.Millisecond, func() {
		stopped = time.Now()
		close(now)
		w.Kill()
	})
	report, err := c.Drive(ctx, part)
	took := time.Since(stopped)
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if err != nil || report.Exit != console.ExitCancelled || took > patience/2 || !strings.Contains(printed.String(), "always of a group did not run on 2 hosts") {
		t.Errorf("%v after the second Ctrl-C: exit %d, %v\n%s", took, report.Exit, err, printed.String())
	}
}
