//go:build linux && labs

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/service/scale"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// hookOf is a hook that starts workers until there are as many as wanted. Those that are to go end
// without it.
func hookOf(l *lab) string {
	return l.file("hook.sh", fmt.Sprintf(`set -eu
cd %q
request=$(cat)
echo "$request" >>requests
want=$(echo "$request" | jq .desired.workers)
have=$(echo "$request" | jq .workers)
while [ "$have" -lt "$want" ]; do
  n=$(cat number 2>/dev/null || echo 0)
  echo $((n + 1)) >number
  %q worker --redis %q %s -f 2 --name "scaled-$n" </dev/null >"worker-$n.log" 2>&1 &
  echo $! >>pids
  have=$((have + 1))
done
`, l.dir, binary, l.queue, strings.Join(l.pluginFlags(), " ")))
}

// pids are the workers that the hook has started.
func pids(l *lab) (list []int) {
	text, _ := os.ReadFile(l.dir + "/pids") // none were started yet
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// A hook that starts real workers follows a burst up and down, and every job runs once.
func TestLabHookFollowsABurst(t *testing.T) {
	t.Parallel()
	const hosts = 80
	testparts.Need(t, "jq", "jq")
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := newSite(l, 1, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace, ms: 1000}}", l.dir)) // 40 s for one worker: others have time to come
	t.Cleanup(func() {
		for _, pid := range pids(l) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s.follow = []string{"--project", s.ops, "--scale-hook", "sh " + hookOf(l), "--scale-min", "1", "--scale-max", "3", "--scale-concurrency", "2", "--scale-target", "1s", "--scale-calm", "2s"}
	a := s.server()
	c := s.ask(a)
	workers := func() (n int) {
		list, err := c.Workers(context.Background(), client.Page{})
		if err != nil {
			return -1
		}
		for _, w := range list.Items {
			if w.State == api.WorkerReady || w.State == api.WorkerBusy {
				n++
			}
		}
		return n
	}
	until(t, "the fewest workers", func() bool { return workers() == 1 })
	run := s.submit(func() *client.Client { return c }, "k", "part0")
	until(t, "the most workers", func() bool { return workers() == 3 })
	finished(t, c, run.ID)
	until(t, "the fewest workers again", func() bool { return workers() == 1 })
	outcomes, again := accounted(t, s.open(), run.ID)
	if outcomes[core.Changed] != hosts || again != 0 || len(executions(t, l.dir+"/trace")) != hosts {
		t.Errorf("outcomes %v, %d jobs ran more than once", outcomes, again)
	}
	until(t, "the hook to hear who has gone", func() bool {
		text, err := os.ReadFile(l.dir + "/requests")
		if err != nil {
			return false
		}
		gone := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			var r scale.Request
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			for _, name := range r.Drained {
				gone[name] = true
			}
		}
		return len(gone) >= 2
	})
	log, err := c.Audit(context.Background(), client.AuditFilter{}, client.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	drained := 0
	for _, e := range log.Items {
		if e.What == "worker.drain" && e.Who == "scaling" {
			drained++
		}
	}
	if drained < 2 {
		t.Errorf("the audit log has %d workers that were drained", drained)
	}
	if n := len(pids(l)); n > 6 {
		t.Errorf("the hook started %d workers", n)
	}
}
