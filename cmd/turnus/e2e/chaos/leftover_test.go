//go:build linux && labs

package chaos

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// A worker is killed while its command runs on a host with OpenSSH, and the command continues
// there. The first call of the other worker's job ends it before it begins, by what the host itself
// noted. Red with an empty Fence.script: both are alive at the same time.
func TestLabFaultR3TheNextJobEndsWhatAKilledWorkerLeftRunning(t *testing.T) {
	c := newCluster(t, shape{ledger: "sqlite", servers: 1, workers: 2}, project{
		hosts: []string{"gate"}, entry: func(string) string { return "" }, windows: "window_sets: {}\n",
		playbooks: map[string]string{
			"endless": "playbook: endless\ntargets: true\nwindow: none\nsteps: [{name: a, uses: command, with: {run: \"/mnt/oracle ${{ run.id }} a 3600 0\"}}]\n",
			"next":    "playbook: next\ntargets: true\nwindow: none\nsteps: [{name: b, uses: command, with: {run: \"/mnt/oracle ${{ run.id }} b 0.1 0\"}}]\n",
		},
	})
	h, ask := c.hosts[0], c.client(0, c.token, true)
	defer ask.Close()
	launch := func(playbook string) (run api.Run) {
		t.Helper()
		var err error
		until(t, "the server to have definitions", func() bool {
			run, err = ask.CreateRun(t.Context(), playbook, api.NewRun{Playbook: playbook})
			return !errors.Is(err, core.ErrUnavailable)
		})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	outcome := func(run api.Run) string {
		t.Helper()
		jobs, err := ask.Jobs(t.Context(), run.ID, client.JobFilter{}, client.Page{Limit: 1})
		if err != nil || len(jobs.Items) != 1 {
			t.Fatalf("jobs of %s: %+v, %v", run.ID, jobs, err)
		}
		return string(jobs.Items[0].Outcome)
	}

	first := launch("endless")
	until(t, "the command on the host", func() bool { return strings.Contains(h.log(t), " "+first.ID+" a ") })
	left := oracleOf(t, h, first.ID)
	c.tending.Lock() // nobody starts the worker again
	defer c.tending.Unlock()
	killed := 0
	if strings.Contains(h.log(t), " worker-1 ") {
		killed = 1
	}
	c.workerAt(killed).kill()
	until(t, "the job of the killed worker to end", func() bool { return outcome(first) != "" })
	if got := outcome(first); got != "lost" {
		t.Errorf("the killed worker's job ends as %q, expected lost", got)
	}
	if err := syscall.Kill(left, 0); err != nil { // the control: nothing else has ended it
		t.Fatalf("the command ended with its worker: %v", err)
	}
	second := launch("next")
	until(t, "the next job to end", func() bool { return outcome(second) != "" })
	if got := outcome(second); got != "changed" {
		t.Errorf("the next job ends as %q, expected changed", got)
	}
	if err := syscall.Kill(left, 0); err == nil {
		t.Errorf("what the killed worker left still runs:\n%s", h.log(t))
	}
	lines := strings.Split(strings.TrimSpace(h.log(t)), "\n")
	if len(lines) != 3 {
		t.Fatalf("the host noted %q, expected a begin, and a begin and an end of the next", lines)
	}
	var fences [2]string
	for i := range fences { // begin FENCE RUN STEP PID WORKER ALIVE TIME
		f := strings.Fields(lines[i])
		if len(f) != 8 || f[0] != "begin" || f[6] != "-" || f[5] != fmt.Sprintf("worker-%d", (killed+i)%2) {
			t.Errorf("the host noted %q, expected a begin by worker-%d with nothing else alive", lines[i], (killed+i)%2)
		}
		fences[i] = f[1]
	}
	if fences[0] == fences[1] || !strings.HasPrefix(lines[2], "end "+fences[1]+" "+second.ID) {
		t.Errorf("the host noted %q", lines)
	}
}

// oracleOf is the process of a run's oracle on a host, by its number here.
func oracleOf(t *testing.T, h *host, run string) (pid int) {
	t.Helper()
	until(t, "the oracle's process", func() bool {
		for _, child := range children(h.process.pid()) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if words := strings.Split(string(line), "\x00"); len(words) > 2 && words[1] == "/mnt/oracle" && words[2] == run {
				pid = child
			}
		}
		return pid != 0
	})
	return pid
}
