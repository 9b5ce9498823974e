//go:build linux && labs

package chaos

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/queue"
)

// Redis comes back as it was before the commands of a run ended and were recorded, and the worker
// also restarts, so nothing that leases remembers them. No recorded command runs again, by what its
// host noted: not before the server has compared the queue with the ledger, and not after a person
// has resumed the run. The control has the queue trust Redis immediately, and cuts the server off:
// each recorded command runs again.
func TestLabFaultR4NoRecordedCommandRunsAgain(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		t.Run(map[bool]string{false: "compared", true: "control"}[trusted], func(t *testing.T) { rollBack(t, trusted) })
	}
}

func rollBack(t *testing.T, trusted bool) {
	hosts := []string{"quick-0", "quick-1", "quick-2", "slow"}
	c := newCluster(t, shape{ledger: "sqlite", servers: 1, workers: 1}, project{
		hosts: hosts, windows: "window_sets: {}\n",
		entry: func(name string) string {
			if name == "slow" {
				return ", labels: {seconds: '3600'}"
			}
			return ", labels: {seconds: '0.1'}"
		},
		playbooks: map[string]string{
			"once": "playbook: once\ntargets: true\nwindow: none\nsteps: [{name: a, uses: command, with: {run: \"/mnt/oracle ${{ run.id }} a ${{ host.labels.seconds }} 0\"}}]\n",
		},
	})
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(c.allLogs(), "\n"))
		}
	}()
	ask := c.client(0, c.token, true)
	defer ask.Close()
	c.tending.Lock() // nobody starts the worker again
	defer c.tending.Unlock()
	c.workerAt(0).kill()
	var run api.Run
	var err error
	until(t, "the server to have definitions", func() bool {
		run, err = ask.CreateRun(t.Context(), "once", api.NewRun{Playbook: "once"})
		return !errors.Is(err, core.ErrUnavailable)
	})
	if err != nil {
		t.Fatal(err)
	}
	phase := func() string {
		r, err := ask.Run(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Phase)
	}
	recorded := func() (n int) {
		jobs, err := ask.Jobs(t.Context(), run.ID, client.JobFilter{State: "done"}, client.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs.Items)
	}
	begun := func(host int) int { return strings.Count(c.hosts[host].log(t), "begin ") }
	until(t, "the run to be in the queue", func() bool { return phase() == "active" })
	pass(time.Second) // it continues in the queue once the ledger has it
	old := c.onDisk("old")
	c.copyTree(c.onDisk("redis"), old)
	c.startWorker(0)
	until(t, "the quick hosts to be recorded, and the slow one to have begun", func() bool { return recorded() == 3 && begun(3) == 1 })

	mend := func() {}
	if trusted {
		mend = c.line("server-0 redis", held, held, 0)
	}
	c.workerAt(0).kill()
	c.redisNow().kill()
	if err := errors.Join(os.RemoveAll(c.onDisk("redis")), os.Rename(old, c.onDisk("redis"))); err != nil {
		t.Fatal(err)
	}
	c.startRedis()
	admin := c.admin()
	defer func() { _ = admin.Close() }()
	until(t, "redis-server to answer", func() bool { return admin.Ping(context.Background()).Err() == nil })
	if trusted {
		c.trust(admin)
	}
	c.startWorker(0)
	if trusted {
		until(t, "the recorded commands to run again", func() bool { return begun(0) == 2 && begun(1) == 2 && begun(2) == 2 })
		mend()
		return
	}
	until(t, "the run to be held", func() bool { return phase() == "paused" })
	pass(queue.SessionTTL + 2*time.Second) // a hold does not last longer
	if _, err := ask.ResumeRun(t.Context(), run.ID, "the slow host was looked at"); err != nil {
		t.Fatal(err)
	}
	until(t, "the command that is not recorded to run again", func() bool { return begun(3) == 2 })
	pass(time.Second)
	for i, name := range hosts[:3] {
		if n := begun(i); n != 1 {
			t.Errorf("the recorded command of %s began %d times:\n%s", name, n, c.hosts[i].log(t))
		}
	}
	if n := recorded(); n != 3 {
		t.Errorf("%d outcomes are recorded, expected 3", n)
	}
}
