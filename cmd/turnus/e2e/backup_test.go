//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// A backup is made while jobs run and outcomes come in; then the service is killed, and its data are gone. What comes back from the
// backup is sound. The run whose jobs may be repeated goes on to its end; that whose jobs must not be waits for a person, and none
// of its jobs has run a second time, though more of them had run than the backup knows. With a person's word it ends.
func TestServiceComesBackFromABackup(t *testing.T) {
	const hosts = 60
	dir := t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s/again, ms: 60}}", dir))
	u.file("ops/playbooks/once.yaml", fmt.Sprintf("playbook: once\ntargets: true\nsteps:\n  - {uses: lab.hold, with: {file: %s/once, ms: 60}}\n", dir))
	p, c := u.up()
	again := submitted(t, c)
	once, err := c.CreateRun(context.Background(), "once", api.NewRun{Playbook: "once"})
	if err != nil {
		t.Fatal(err)
	}
	queued, err := c.CreateRun(context.Background(), "third", api.NewRun{Playbook: "once"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the first jobs of both", func() bool { return len(executions(t, dir+"/again")) > 5 && len(executions(t, dir+"/once")) > 5 })
	backups := filepath.Join(dir, "backups")
	u.start("backup", "--data", u.data, backups).wants(0)
	known := len(executions(t, dir+"/once"))
	until(t, "jobs that the backup does not know", func() bool { return len(executions(t, dir+"/once")) > known+5 })
	p.kill()
	if err := os.RemoveAll(u.data); err != nil {
		t.Fatal(err)
	}
	u.start("backup", "verify", backups).wants(0)
	u.start("restore", backups, "--data", u.data).wants(0)
	ran := len(executions(t, dir+"/once"))
	if ran >= 2*hosts {
		t.Fatal("all jobs had run before the end: the test shows nothing")
	}
	doctor := []string{"doctor", "--ledger", "sqlite:" + filepath.Join(u.data, "ledger.db")}
	u.start(doctor...).wants(0)

	// The first admin token was in the folder that is gone: its hash is in the ledger, its secret nowhere.
	token := u.start("tokens", "create", "ann", "--role", "admin", "--ledger", "sqlite:"+filepath.Join(u.data, "ledger.db"))
	token.wants(0)
	u.file("data/admin.token", token.out.String())
	var c2 *client.Client
	p, c2 = u.up()
	finished(t, c2, again.ID)
	for _, id := range []string{once.ID, queued.ID} {
		until(t, "the run to be held", func() bool {
			run, err := c2.Run(context.Background(), id)
			return err == nil && run.Phase == api.Paused
		})
	}
	if n := len(executions(t, dir+"/once")); n != ran {
		t.Errorf("%d executions of jobs that must not be repeated, %d before the restore", n, ran)
	}
	for _, id := range []string{once.ID, queued.ID} {
		if _, err := c2.ResumeRun(context.Background(), id, "looked at"); err != nil {
			t.Fatal(err)
		}
		finished(t, c2, id)
	}
	p.signal(syscall.SIGTERM)
	p.wants(0)
	u.start(doctor...).wants(0)
	for _, id := range []string{again.ID, once.ID, queued.ID} {
		if outcomes, _ := u.recorded(id); outcomes[core.Changed] != hosts {
			t.Errorf("run %s: outcomes %v", id, outcomes)
		}
	}
}
