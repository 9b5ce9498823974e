//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/testparts"
)

// trigger is a schedule that triggers once. Its run notes the mark on the host.
type trigger struct {
	mark string
	at   time.Duration
	run  string // as the ledger has it; "" when it launched none
}

// How many schedules trigger at the same time, and how long before that they are made.
const (
	triggersAtOnce = 8
	triggerAhead   = 3 * time.Second
)

// killAtTrigger makes schedules of one instant, and ends two servers at that instant.
func (c *cluster) killAtTrigger(p planned) (end func()) {
	c.t.Helper()
	at := time.Now().Add(triggerAhead).Truncate(time.Second)
	for i := range triggersAtOnce {
		f := trigger{mark: fmt.Sprintf("fire-%d", len(c.triggers)), at: sinceBoot(at)}
		s := api.NewSchedule{
			Playbook: "fire", At: at, Timezone: "UTC",
			LaunchOptions: api.LaunchOptions{Limit: []string{fmt.Sprintf("probe-%d", i%probeHosts)}, Vars: map[string]any{"mark": f.mark}},
		}
		if c.put(f.mark, s, at) {
			c.triggers = append(c.triggers, f)
		}
	}
	return func() {
		pass(time.Until(at))
		for i := range min(2, c.shape.servers) {
			_ = syscall.Kill(c.serverAt((p.target+i)%c.shape.servers).pid(), syscall.SIGKILL)
		}
	}
}

// put has any server make a schedule before it is due, and reports whether one did.
func (c *cluster) put(name string, s api.NewSchedule, before time.Time) bool {
	c.t.Helper()
	var failed error
	for i := 0; time.Now().Before(before.Add(-100 * time.Millisecond)); i++ {
		ask := c.client(i%c.shape.servers, c.token, true)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		_, err := ask.PutSchedule(ctx, name, "", s)
		if errors.Is(err, core.ErrInvalid) {
			c.t.Fatalf("make schedule %s: %v", name, err)
		}
		if err != nil { // an answer was lost, and it may be there
			failed = err
			_, err = ask.Schedule(ctx, name)
		}
		cancel()
		ask.Close()
		if err == nil {
			return true
		}
		pass(50 * time.Millisecond)
	}
	c.t.Logf("no server made schedule %s in time: %v", name, failed) // another fault has them all
	return false
}

// launched notes the runs that schedules launched.
func (l *load) launched(triggers []trigger) {
	for i := range triggers {
		f, deadline := &triggers[i], time.Now().Add(30*time.Second)
		for n := 0; f.run == "" && time.Now().Before(deadline); n++ {
			ask := l.c.client(n%l.c.shape.servers, l.c.token, true)
			if s, err := ask.Schedule(context.Background(), f.mark); err == nil {
				f.run = s.LastRun
			}
			ask.Close()
			if f.run == "" {
				pass(200 * time.Millisecond)
			}
		}
		if f.run != "" {
			l.set(func() { l.runs[f.run] = &accepted{id: f.run, kind: "fire", asked: f.at, accepted: f.at} })
		}
	}
}

// triggeredOnce: each fire launches one run, by what the hosts noted. The ledger has the reason of
// a run that touched no host.
func triggeredOnce(v evidence, _ map[string]string) (all []violation) {
	runs, explained := map[string]map[string]string{}, map[string]bool{}
	for _, e := range v.seen {
		if strings.HasPrefix(e.step, "fire-") {
			if runs[e.step] == nil {
				runs[e.step] = map[string]string{}
			}
			runs[e.step][e.run] = e.line
		}
	}
	for _, o := range v.outcomes {
		explained[o.run] = explained[o.run] || o.outcome == core.Unreachable || o.outcome == core.Cancelled || o.outcome == core.Lost
	}
	for _, f := range v.triggers {
		var proof []string
		for _, line := range runs[f.mark] {
			proof = append(proof, line)
		}
		switch n := len(runs[f.mark]); {
		case n > 1:
			all = append(all, violation{"fire", f.at, fmt.Sprintf("schedule %s fired once, and %d runs of it began", f.mark, n), proof})
		case n == 0 && !explained[f.run]:
			all = append(all, violation{"fire", f.at, fmt.Sprintf("schedule %s fired, and no host saw a run of it (run %q)", f.mark, f.run), nil})
		}
	}
	return all
}

// promote makes a replica of Redis that gets nothing from now on, and at the end of the fault takes
// the place of its master.
func (c *cluster) promote() (end func()) {
	c.t.Helper()
	port, dir := strconv.Itoa(testparts.FreePort(c.t)), "replica-"+strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.Mkdir(c.onDisk(dir), 0o755); err != nil {
		c.t.Fatal(err)
	}
	replica := c.redisOn(port, dir)
	admin := goredis.NewClient(c.guard.Options(c.t, "127.0.0.1:"+port))
	ctx := context.Background()
	until(c.t, "the replica to answer", func() bool { return admin.Ping(ctx).Err() == nil })
	follow := func(host, port string) {
		if err := admin.ReplicaOf(ctx, host, port).Err(); err != nil {
			c.t.Errorf("replicate Redis: %v", err)
		}
	}
	follow("127.0.0.1", c.redisPort)
	deadline := time.Now().Add(5 * time.Second) // another fault may have the master
	linked := func() bool {
		info, err := admin.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}
	for !linked() && time.Now().Before(deadline) {
		pass(20 * time.Millisecond)
	}
	if !linked() {
		c.t.Log("Redis has no replica in time")
		_ = admin.Close()
		replica.kill()
		return func() {}
	}
	follow("127.0.0.1", "1")
	return func() {
		c.tending.Lock()
		defer c.tending.Unlock()
		master := c.redisNow()
		master.kill()
		follow("no", "one")
		_ = admin.Close()
		_ = os.RemoveAll(c.onDisk(c.redisDir))
		c.redisPort, c.redisDir = port, dir
		for name, p := range c.proxies {
			if strings.HasSuffix(name, " redis") {
				p.retarget(net.JoinHostPort("127.0.0.1", port))
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.retire("redis", master)
		c.redis = replica
	}
}
