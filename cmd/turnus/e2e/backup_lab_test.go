//go:build linux && labs

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

// A backup is made beside a service at work, which continues, and is killed; then its data are
// gone. The restored data are sound. The run whose jobs may be repeated continues to its end. The
// run whose jobs must not be repeated waits for a person. None of its jobs runs a second time,
// though jobs had run that the backup does not know. With a person's word it ends.
func TestLabServiceComesBackFromABackup(t *testing.T) {
	t.Parallel()
	const hosts = 24
	ctx, dir := context.Background(), t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s/again, ms: 60}}", dir))
	u.file("ops/playbooks/once.yaml", fmt.Sprintf("playbook: once\ntargets: true\nstrategy: {waves: [50%%, 100%%], pause_between: approve}\nsteps:\n  - {uses: lab.hold, with: {file: %s/once, ms: 60}}\n", dir))
	p, c := u.up()
	again := submitted(t, c)
	once, err := c.CreateRun(ctx, "once", api.NewRun{Playbook: "once"})
	if err != nil {
		t.Fatal(err)
	}
	approve := func(c *client.Client) {
		until(t, "the second wave to wait", func() bool {
			run, err := c.Run(ctx, once.ID)
			return err == nil && run.Waits != nil
		})
		if _, err := c.ApproveRun(ctx, once.ID, api.Approve{Approve: true, Wave: 2}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the first wave", func() bool { return len(executions(t, dir+"/once")) == hosts/2 })
	backups := filepath.Join(dir, "backups")
	u.start("admin", "backup", "--data", u.data, backups).wants(0)
	approve(c)
	until(t, "jobs that the backup does not know", func() bool { return len(executions(t, dir+"/once")) > hosts/2+2 })
	p.kill()
	if err := os.RemoveAll(u.data); err != nil {
		t.Fatal(err)
	}
	u.start("admin", "backup", "verify", backups).wants(0)
	u.start("admin", "restore", backups, "--data", u.data).wants(0)
	ran := len(executions(t, dir+"/once"))
	doctor := []string{"admin", "doctor", "--ledger", "sqlite:" + filepath.Join(u.data, "ledger.db")}
	u.start(doctor...).wants(0)

	// The first admin token was in the folder that is gone: its hash is in the ledger, its secret
	// nowhere.
	token := u.start("admin", "tokens", "create", "ann", "--role", "admin", "--ledger", "sqlite:"+filepath.Join(u.data, "ledger.db"))
	token.wants(0)
	if err := os.WriteFile(filepath.Join(u.data, "admin.token"), []byte(token.out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p, c = u.up()
	finished(t, c, again.ID)
	until(t, "the run to be held", func() bool {
		run, err := c.Run(ctx, once.ID)
		return err == nil && run.Phase == api.Paused
	})
	if n := len(executions(t, dir+"/once")); n != ran {
		t.Errorf("%d executions of jobs that must not be repeated, %d before the restore", n, ran)
	}
	if _, err := c.ResumeRun(ctx, once.ID, "looked at"); err != nil {
		t.Fatal(err)
	}
	approve(c)
	finished(t, c, once.ID)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	u.start(doctor...).wants(0)
	for _, id := range []string{again.ID, once.ID} {
		if outcomes, _ := u.recorded(id); outcomes[core.Changed] != hosts {
			t.Errorf("run %s: outcomes %v", id, outcomes)
		}
	}
}

// When it is asked to stop, the service leaves word of what its queue had reached. A ledger that
// was put in the place of its own does not know what ran since the backup: that word is not for it,
// and jobs that must not be repeated wait for a person.
func TestLabABackupIsNotTakenForTheLedgerThatStopped(t *testing.T) {
	t.Parallel()
	const hosts = 40
	ctx, dir := context.Background(), t.TempDir()
	u := newUpSite(t, hosts, fmt.Sprintf("{uses: lab.hold, with: {file: %s/once, ms: 4000}}", dir))
	p, c := u.up()
	run := submitted(t, c)
	backups := filepath.Join(dir, "backups")
	u.start("admin", "backup", "--data", u.data, backups).wants(0)
	before := len(executions(t, dir+"/once"))
	until(t, "jobs that the backup does not know", func() bool { return len(executions(t, dir+"/once")) > before+2 })
	p.signal(syscall.SIGTERM)
	p.wants(0)
	ran := len(executions(t, dir+"/once"))
	if ran >= hosts {
		t.Fatalf("all %d jobs ran before the stop: the test shows nothing", ran)
	}
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-shm"} {
		if err := os.Remove(filepath.Join(u.data, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	u.start("admin", "restore", backups, "--data", u.data).wants(0)
	p, c = u.up()
	until(t, "the run to be held or to end", func() bool {
		run, err := c.Run(ctx, run.ID)
		return err == nil && (run.Phase == api.Paused || run.Phase == api.Finished)
	})
	if n := len(executions(t, dir+"/once")); n != ran {
		t.Errorf("%d executions of jobs that must not be repeated, %d before the restore", n, ran)
	}
	p.signal(syscall.SIGTERM)
	p.wants(0)
}
