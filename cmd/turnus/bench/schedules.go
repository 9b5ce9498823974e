package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/bench/schedulebench"
	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/playbooks"
)

// schedulesBench are the flags of bench schedules.
type schedulesBench struct {
	url, redis              string
	schedules, due, servers int
}

// benchServerEnv marks the re-executed benchmark as one of the servers, and names its ledger;
// benchQueueEnv names its Redis.
const (
	benchServerEnv = "TURNUS_BENCH_SCHEDULES"
	benchQueueEnv  = "TURNUS_BENCH_SCHEDULES_QUEUE"
)

func benchSchedulesCmd(con *console.Console) *cobra.Command {
	var f schedulesBench
	c := &cobra.Command{
		Use:   "schedules",
		Short: "Schedules in the ledger: an idle server, and many triggers at one instant while servers are killed",
		Long: `Schedules in the ledger: the cost of an idle server, and how late and how often schedules trigger
that are due at one instant on several servers. The servers are processes of their own, and all
except one are killed at that instant, a full minute. A trigger counts as launched once its run is
in the ledger. It counts as started once a node in this process has leased its host from the queue.

Without --ledger the ledger is a SQLite file, and without --redis the queue a private
redis-server; both are made and removed. Those given must be empty, and are left full.`,
		Example: "  turnus admin bench schedules\n  turnus admin bench schedules --ledger postgres:///bench --due 1000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url := os.Getenv(benchServerEnv); url != "" {
				return benchServer(cmd.Context(), con, url, os.Getenv(benchQueueEnv))
			}
			switch {
			case f.schedules < 1000 || f.schedules > 1_000_000:
				return console.Invalid("--schedules %d: expected 1000 to 1000000", f.schedules)
			case f.due < 1 || f.due > 100_000:
				return console.Invalid("--due %d: expected 1 to 100000", f.due)
			case f.servers < 1 || f.servers > 16:
				return console.Invalid("--servers %d: expected 1 to 16", f.servers)
			}
			return benchSchedules(cmd.Context(), con, f)
		},
	}
	c.Flags().StringVar(&f.url, "ledger", "", "measure on this ledger: sqlite:PATH or postgres://…")
	c.Flags().StringVar(&f.redis, "redis", "", "measure on this Redis")
	c.Flags().IntVar(&f.schedules, "schedules", 100_000, "schedules that are kept")
	c.Flags().IntVar(&f.due, "due", 10_000, "further ones that are due at one instant")
	c.Flags().IntVar(&f.servers, "servers", 3, "servers; all but one are killed at that instant")
	return c
}

// schedulesReport is the -o json document of bench schedules.
type schedulesReport struct {
	Put      schedulebench.Fill   `json:"put"`
	IdleCore float64              `json:"idle_core"` // share of a core of one idle server, without the database's process
	Volley   schedulebench.Volley `json:"due"`
	Started  schedulesStarted     `json:"started"`
}

// schedulesStarted is the report of the node.
type schedulesStarted struct {
	Hosts int          `json:"hosts"`
	Again int          `json:"again"`        // starts of a host of a run that had started
	Last  core.Seconds `json:"last_seconds"` // start of the last host minus due
	P50   core.Seconds `json:"p50_seconds"`
}

func benchSchedules(ctx context.Context, con *console.Console, f schedulesBench) (err error) {
	if f.url == "" {
		dir, err := os.MkdirTemp("", "turnus-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		f.url = "sqlite:" + filepath.Join(dir, "ledger.db")
	}
	l, err := ledger.Open(ctx, f.url, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if all, _, err := l.Schedules(ctx, ledger.AllTenants(), ledger.Page{Limit: 1}); err != nil {
		return err
	} else if len(all) > 0 {
		return console.Invalid("--ledger: it has schedules, expected an empty database")
	}
	if f.redis == "" {
		r, err := startRedis(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		f.redis = r.url
	}
	out, err := schedulesRows(ctx, con, f, l)
	if err != nil {
		return err
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	writeSchedulesReport(con, out)
	return nil
}

func schedulesRows(ctx context.Context, con *console.Console, f schedulesBench, l *ledger.Ledger) (out schedulesReport, err error) {
	con.Message(fmt.Sprintf("putting %d schedules", f.schedules))
	if out.Put, err = schedulebench.Put(ctx, l, f.schedules); err != nil {
		return out, err
	}
	out.IdleCore = idleServer(ctx, l)
	self, err := os.Executable()
	if err != nil {
		return out, err
	}
	q, end, err := benchQueueOf(f.redis)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, end()) }()
	node := &startsNode{starts: map[string]time.Time{}}
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() { workBench(ctx, q, node.started) })
	out.Volley, err = schedulebench.Trigger(ctx, schedulebench.Params{
		Ledger: l, Due: f.due, Servers: f.servers, Kill: f.servers - 1, First: f.schedules, Timeout: time.Minute, Report: con.Message,
		Server: func(int) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, "admin", "bench", "schedules")
			cmd.Env = append(os.Environ(), benchServerEnv+"="+f.url, benchQueueEnv+"="+f.redis)
			cmd.Stderr = con.Err
			return cmd
		},
		Until: func(ctx context.Context) error { return node.all(ctx, f.due) },
	})
	out.Started = node.report(out.Volley.At)
	return out, err
}

// startsNode records which hosts a node leases, and when.
type startsNode struct {
	mu     sync.Mutex
	starts map[string]time.Time
	again  int
}

func (n *startsNode) started(job core.JobID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, had := n.starts[job.Run]; had {
		n.again++
		return
	}
	n.starts[job.Run] = time.Now()
}

// all waits until so many runs have started, for a minute.
func (n *startsNode) all(ctx context.Context, runs int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not all hosts started within a minute"))
	defer cancel()
	for {
		n.mu.Lock()
		now := len(n.starts)
		n.mu.Unlock()
		if now >= runs {
			return nil
		}
		if err := core.Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d runs started: %w", now, runs, err)
		}
	}
}

func (n *startsNode) report(due time.Time) schedulesStarted {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := schedulesStarted{Hosts: len(n.starts), Again: n.again}
	var late []time.Duration
	for _, at := range n.starts {
		late = append(late, at.Sub(due))
	}
	if slices.Sort(late); len(late) > 0 {
		r.P50, r.Last = core.InSeconds(late[len(late)/2]), core.InSeconds(late[len(late)-1])
	}
	return r
}

// benchQueueOf opens the queue on a Redis.
func benchQueueOf(url string) (*redis.Queue, func() error, error) {
	client, err := redisconn.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	q, err := redis.New(client, redis.Options{Pool: "bench"})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return q, client.Close, nil
}

// benchServer is one of the servers of the benchmark.
func benchServer(ctx context.Context, con *console.Console, url, redisURL string) (err error) {
	l, err := ledger.Open(ctx, url, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	q, end, err := benchQueueOf(redisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctl, err := controller.New(controller.Config{Name: fmt.Sprint("bench-", os.Getpid()), Ledger: l, Queue: q, Board: q})
	if err != nil {
		return err
	}
	playbook, err := playbooks.Parse("backup.yaml", []byte("playbook: backup\ntargets: true\nwindow: none\nsteps: [{name: back up, uses: command, with: {run: uptime}}]\n"), playbooks.Options{})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = ctl.Run(working) })
	return schedulebench.Serve(ctx, l, schedulebench.Maker{
		Run:      func(f schedule.Trigger) (ledger.NewRun, error) { return runOfTrigger(playbook, f) },
		Accepted: func(runs []ledger.Run) { ctl.Accepted(runs...) },
	}, con.In, con.Out)
}

// runOfTrigger is a run of one host, another for each schedule.
func runOfTrigger(playbook *playbooks.Playbook, f schedule.Trigger) (ledger.NewRun, error) {
	by := "schedule:" + f.Schedule.String()
	hosts := []core.Host{{Name: f.Schedule.Name, Customer: f.Schedule.Tenant}}
	l, err := launch.Prepare(playbook, hosts, launch.Options{RunID: f.RunID, LaunchedBy: by})
	if err != nil {
		return ledger.NewRun{}, err
	}
	l.Run.Tenant = f.Schedule.Tenant
	return (&controller.Acceptance{Launch: l, By: by, Request: []byte(f.RunID)}).Record()
}

// idleServer returns the share of a core that one server with nothing due takes, over five seconds.
func idleServer(ctx context.Context, l *ledger.Ledger) float64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	start, used := time.Now(), processCPU()
	schedule.NewEngine(l, nil, func(schedule.Event) {}).Run(ctx) // nothing is due: it launches nothing
	return (processCPU() - used).Seconds() / time.Since(start).Seconds()
}

func writeSchedulesReport(con *console.Console, r schedulesReport) {
	v := r.Volley
	console.Table(con.Out, [][]string{
		{"WHAT", "FIGURE"},
		{"put", fmt.Sprintf("%d schedules in %.1f s, %.0f/s", r.Put.Schedules, r.Put.Seconds, r.Put.PerSecond)},
		{"idle server", fmt.Sprintf("%.2f %% of a core", 100*r.IdleCore)},
		{"due at one instant", fmt.Sprintf("%d on %s, %d of them killed then", v.Due, core.Plural(v.Servers, "server"), v.Killed)},
		{"launch minus due", fmt.Sprintf("p50 %s, p99 %s, max %s", v.P50.Duration().Round(time.Millisecond), v.P99.Duration().Round(time.Millisecond), v.Max.Duration().Round(time.Millisecond))},
		{"launched", fmt.Sprintf("%d runs; counted as launched exactly once: %d; launched twice: %d; of unknown runs: %d", v.Launched, v.Confirmed, v.Repeated, v.Wrong)},
		{"started", fmt.Sprintf("%d hosts: p50 %s, last %s after they were due; again: %d", r.Started.Hosts, r.Started.P50.Duration().Round(time.Millisecond), r.Started.Last.Duration().Round(time.Millisecond), r.Started.Again)},
		{"first launches by server", strings.Trim(fmt.Sprint(v.ByServer), "[]")},
	})
}
