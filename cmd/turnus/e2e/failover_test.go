//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Two servers and three workers continue when the master of Redis is killed in the middle of a run,
// and its replica takes over by the Sentinel's word.
func TestLabServiceOverSentinelOutlivesAFailover(t *testing.T) {
	t.Parallel()
	f := servers.StartRedisSentinel(t)
	failover(t, f.URL(), 240, f.Master.Kill)
}

// The same over a Cluster of three masters, of which the one that has the queue is killed.
func TestLabServiceOverClusterOutlivesAFailover(t *testing.T) {
	t.Parallel()
	r := servers.StartReplicatedRedis(t)
	failover(t, r.URL(), 240, r.Owner(t, "{default/0}:ids").Kill)
}

// The same over a Cluster of three masters and nobody else: none is killed, and every run is
// complete.
func TestLabServiceOverClusterWithoutReplicas(t *testing.T) {
	t.Parallel()
	failover(t, servers.StartRedisCluster(t), 90, func() {})
}

// failover has a service of two servers and three workers work on a run over SSH, strikes in the
// middle of it, and submits another while nobody answers. Both are complete, and every job has one
// outcome.
func failover(t *testing.T, url string, hosts int, strike func()) {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: hosts}).traced()
	l.queue = url
	s := emptySite(l)
	inventory, err := os.ReadFile(l.hosts)
	if err != nil {
		t.Fatal(err)
	}
	l.file("ops/inventory.yaml", string(inventory))
	trace := l.dir + "/trace"
	l.file("ops/playbooks/all.yaml", fmt.Sprintf(`playbook: all
targets: true
steps:
  - {uses: wait, with: {command: "true"}}
  - {uses: lab.trace, with: {file: %s, ms: 250}}
`, trace))
	servers := []*process{s.server(), s.server()}
	asked := []*client.Client{s.ask(servers[0]), s.ask(servers[1])}
	for i := range 3 {
		s.worker("-f", "8", "--name", fmt.Sprint("w", i))
	}
	ask := func(i int) func() *client.Client { return func() *client.Client { return asked[i] } }
	runs := []string{s.submit(ask(0), "before", "all").ID}
	until(t, "some jobs", func() bool { return len(executions(t, trace)) > hosts/6 })
	strike()
	at := len(executions(t, trace))
	runs = append(runs, s.submit(ask(1), "while", "all").ID)
	if at >= hosts {
		t.Fatalf("all %d jobs ran before the failover: the test shows nothing", at)
	}
	for _, id := range runs {
		for i, c := range asked {
			until(t, fmt.Sprintf("server %d to say that run %s is over", i, id), func() bool {
				run, err := c.Run(context.Background(), id)
				if err != nil && !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
					t.Fatalf("server %d, while the queue may be away: %v", i, err)
				}
				return err == nil && run.Phase == api.Finished
			})
		}
	}
	records, again := s.open(), 0
	for _, id := range runs {
		outcomes, more := accounted(t, records, id)
		again += more
		if outcomes[core.Changed] != hosts {
			t.Errorf("run %s: outcomes %v, expected %d changed", id, outcomes, hosts)
		}
	}
	t.Logf("%d of %d jobs had begun; %d executions of %d jobs, %d with more than one attempt", at, hosts, len(executions(t, trace)), 2*hosts, again)
	s.healthy()
}

// healthy fails the test unless turnus admin doctor finds nothing.
func (s *site) healthy() {
	s.t.Helper()
	doctor := s.start("admin", "doctor", "--ledger", s.ledger, "--redis", s.queue)
	doctor.wants(0)
	if !doctor.out.has("sound: ledger and queue") || doctor.out.has("note ") {
		s.t.Errorf("doctor: %s", doctor.out)
	}
}
