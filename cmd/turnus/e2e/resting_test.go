//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/cmd/turnus/bench/schedulebench"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// How many runs rest, and for how long it is measured; docs/benchmarks.md has the long form.
var (
	waitingRuns    = flag.Int("resting.runs", 20, "runs that wait, half of them paused, half for a window")
	waitingPlans   = flag.Int("resting.schedules", 0, "schedules beside them, none of them due")
	waitingSettle  = flag.Duration("resting.settle", 8*time.Second, "until it is measured what they cost: the longer they rest, the more rarely they are looked at")
	waitingMeasure = flag.Duration("resting.measure", 2*time.Second, "how long it is measured")
)

// cost is the work that a server, and those that it asks, have done.
type cost struct {
	cpu, redisCPU   time.Duration
	asked, recorded int64 // requests to Redis, transactions of PostgreSQL
}

func (c cost) String() string {
	return fmt.Sprintf("%.2f %% of a core; Redis %.2f %% of one, %d requests/s; PostgreSQL %d transactions/s", 100*c.cpu.Seconds(), 100*c.redisCPU.Seconds(), c.asked, c.recorded)
}

// Runs that wait cost a server next to nothing: measured against the same server without them.
func TestLabWaitingRunsCostNextToNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := newSite(l, 1, 3, fmt.Sprintf("{uses: lab.trace, window: far, needs: 10m, with: {file: %s/trace}}", l.dir))
	far := time.Now().UTC().AddDate(0, 0, 40)
	l.file("ops/windows.yaml", fmt.Sprintf(`window_sets:
  far: {timezone: UTC, allow: [{id: once, rrule: "FREQ=YEARLY;BYMONTH=%d;BYMONTHDAY=%d", from: "01:00", to: "03:00"}]}
`, far.Month(), far.Day()))
	server := s.server()
	s.worker("-f", "4")
	c := s.ask(server)
	until(t, "the definitions", func() bool {
		d, err := c.Definitions(context.Background())
		return err == nil && d.Playbooks == 1
	})
	idle := s.measure(server)
	if _, err := schedulebench.Put(context.Background(), s.open(), *waitingPlans); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < *waitingRuns; from += api.MaxNewRuns {
		s.createWaiting(server, from, min(from+api.MaxNewRuns, *waitingRuns))
	}
	q := dialQueue(t, s.queue)
	until(t, "all to be in the queue", func() bool {
		ids, err := q.Runs(context.Background())
		return err == nil && len(ids) == *waitingRuns
	})
	pass(*waitingSettle)
	rest := s.measure(server)
	t.Logf("a server without runs: %v", idle)
	t.Logf("with %d that rest and %d schedules: %v", *waitingRuns, *waitingPlans, rest)
	if more := rest.asked - idle.asked; more > 20 {
		t.Errorf("%d runs that wait cost %d requests to Redis a second more", *waitingRuns, more)
	}
	if n := len(executions(t, l.dir+"/trace")); n > 0 {
		t.Errorf("%d jobs ran", n)
	}
}

// createWaiting has runs wait, each second one paused.
func (s *site) createWaiting(server *process, from, to int) {
	s.t.Helper()
	var runs []api.KeyedRun
	for i := from; i < to; i++ {
		runs = append(runs, api.KeyedRun{Key: fmt.Sprint("rest-", i), NewRun: api.NewRun{Playbook: "part0", Paused: i%2 == 0}})
	}
	body, err := json.Marshal(api.NewRuns{Runs: runs})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, address(server)+"/v1/runs/bulk", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"error"`)) {
		s.t.Fatalf("%s: %s, %v", resp.Status, text, err)
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// measure returns the work of a second, on average over waitingMeasure.
func (s *site) measure(p *process) cost {
	s.t.Helper()
	before, began := s.spent(p), time.Now()
	pass(*waitingMeasure)
	after, took := s.spent(p), time.Since(began).Seconds()
	rate := func(after, before int64) int64 { return int64(float64(after-before) / took) }
	return cost{
		cpu: time.Duration(rate(int64(after.cpu), int64(before.cpu))), redisCPU: time.Duration(rate(int64(after.redisCPU), int64(before.redisCPU))),
		asked: rate(after.asked, before.asked), recorded: rate(after.recorded, before.recorded),
	}
}

// spent returns the work since the start: CPU of the server, everything that Redis and PostgreSQL
// did for whomever.
func (s *site) spent(p *process) (c cost) {
	s.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		c.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	ctx := context.Background()
	r := s.redis.admin()
	info, err := r.Info(ctx, "stats", "cpu").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	number := func(name string) float64 {
		_, rest, _ := strings.Cut(info, name+":")
		text, _, _ := strings.Cut(rest, "\r")
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.t.Fatalf("INFO of Redis: %s: %v", name, err)
		}
		return n
	}
	c.asked = int64(number("total_reads_processed"))
	c.redisCPU = time.Duration((number("used_cpu_sys") + number("used_cpu_user")) * float64(time.Second))
	db, err := pgx.Connect(ctx, s.ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close(ctx) }()
	if err := db.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&c.recorded); err != nil {
		s.t.Fatal(err)
	}
	return c
}
