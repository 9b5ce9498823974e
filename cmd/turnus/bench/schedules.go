package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/redis"
	"github.com/turnus/turnus/core/schedule/schedulebench"
)

// schedulesBench are the flags of bench schedules.
type schedulesBench struct {
	url                     string
	schedules, due, servers int
}

// benchServerEnv tells the re-executed benchmark that it is one of the servers, and on which Redis.
const benchServerEnv = "TURNUS_BENCH_SCHEDULES"

func benchSchedulesCmd(con *console.Console) *cobra.Command {
	var f schedulesBench
	c := &cobra.Command{
		Use:   "schedules",
		Short: "Schedules on Redis: memory, and fires at one instant while servers are killed",
		Long: `Schedules on Redis: what a million of them take, how fast they are put, and how late and
how often those fire that are due at one instant on several servers, processes of their
own, of which all but one are killed at that instant. The instant is a full minute: it is
waited for.

Without --redis a private redis-server (append-only file, fsync each second, Unix socket)
is started and removed. A Redis given by --redis must be empty, and is left full.`,
		Example: "  turnus bench schedules\n  turnus bench schedules --schedules 100000 --due 1000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url := os.Getenv(benchServerEnv); url != "" {
				return benchServer(cmd.Context(), con, url)
			}
			switch {
			case f.schedules < 1000 || f.schedules > 5_000_000:
				return console.Invalid("--schedules %d: expected 1000 to 5000000", f.schedules)
			case f.due < 1 || f.due > 100_000:
				return console.Invalid("--due %d: expected 1 to 100000", f.due)
			case f.servers < 1 || f.servers > 16:
				return console.Invalid("--servers %d: expected 1 to 16", f.servers)
			}
			return benchSchedules(cmd.Context(), con, f)
		},
	}
	c.Flags().StringVar(&f.url, "redis", "", "measure on this Redis")
	c.Flags().IntVar(&f.schedules, "schedules", 1_000_000, "schedules that are kept")
	c.Flags().IntVar(&f.due, "due", 10_000, "further ones that are due at one instant")
	c.Flags().IntVar(&f.servers, "servers", 3, "servers; all but one are killed at that instant")
	return c
}

// schedulesReport is the -o json document of bench schedules.
type schedulesReport struct {
	Put      schedulebench.Fill   `json:"put"`
	Bytes    float64              `json:"bytes_per_schedule"`  // as put; all of used_memory
	History  float64              `json:"bytes_of_history"`    // what five results, counts and a run add
	IdleRate float64              `json:"idle_commands_per_s"` // of one idle server
	Volley   schedulebench.Volley `json:"due"`
}

func benchSchedules(ctx context.Context, con *console.Console, f schedulesBench) (err error) {
	if f.url == "" {
		r, err := startRedis(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		f.url = r.url
	}
	client, err := redisconn.Dial(f.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if n, err := client.DBSize(ctx).Result(); err != nil {
		return redisconn.Translate(ctx, err, "count keys")
	} else if n > 0 {
		return console.Invalid("--redis: it has %d keys, expected an empty database", n)
	}
	out, err := schedulesRows(ctx, con, f, client)
	if err != nil {
		return err
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	writeSchedulesReport(con, out)
	return nil
}

func schedulesRows(ctx context.Context, con *console.Console, f schedulesBench, client goredis.UniversalClient) (out schedulesReport, err error) {
	store, err := redis.New(client, redis.Options{})
	if err != nil {
		return out, err
	}
	before, err := usedMemory(ctx, client)
	if err != nil {
		return out, err
	}
	con.Message(fmt.Sprintf("putting %d schedules", f.schedules))
	if out.Put, err = schedulebench.Put(ctx, store, f.schedules, func(done int) { con.Message(fmt.Sprintf("  %d", done)) }); err != nil {
		return out, err
	}
	fresh, err := usedMemory(ctx, client)
	if err != nil {
		return out, err
	}
	out.Bytes = (fresh - before) / float64(f.schedules)
	con.Message("giving a tenth of them a history")
	aged, err := schedulebench.Age(ctx, store, f.schedules)
	if err != nil {
		return out, err
	}
	after, err := usedMemory(ctx, client)
	if err != nil {
		return out, err
	}
	out.History = (after - fresh) / float64(aged)
	if out.IdleRate, err = idleServer(ctx, f.url); err != nil {
		return out, err
	}
	self, err := os.Executable()
	if err != nil {
		return out, err
	}
	out.Volley, err = schedulebench.Fire(ctx, store, schedulebench.Params{
		Due: f.due, Servers: f.servers, Kill: f.servers - 1, First: f.schedules, Timeout: time.Minute, Tell: con.Message,
		Server: func(int) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, "bench", "schedules")
			cmd.Env = append(os.Environ(), benchServerEnv+"="+f.url)
			cmd.Stderr = con.Err
			return cmd
		},
	})
	return out, err
}

// benchServer is one of the servers of the benchmark.
func benchServer(ctx context.Context, con *console.Console, url string) (err error) {
	client, err := redisconn.Dial(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	store, err := redis.New(client, redis.Options{})
	if err != nil {
		return err
	}
	return schedulebench.Serve(ctx, store, con.In, con.Out)
}

// idleServer counts what one server with nothing due sends Redis a second, over five seconds.
func idleServer(ctx context.Context, url string) (_ float64, err error) {
	client, err := redisconn.Dial(url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	sent := &sentCommands{}
	client.AddHook(sent)
	store, err := redis.New(client, redis.Options{})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	start := time.Now()
	schedule.NewEngine(store, nil, schedule.Options{}).Run(ctx) // nothing is due: it launches nothing
	return float64(sent.n.Load()) / time.Since(start).Seconds(), nil
}

// usedMemory is what Redis says it takes, all in.
func usedMemory(ctx context.Context, client goredis.UniversalClient) (float64, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, redisconn.Translate(ctx, err, "memory")
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("used_memory is %q: %w", text, err)
	}
	return n, nil
}

func writeSchedulesReport(con *console.Console, r schedulesReport) {
	v := r.Volley
	console.Table(con.Out, [][]string{
		{"WHAT", "FIGURE"},
		{"put", fmt.Sprintf("%d schedules in %.1f s, %.0f/s", r.Put.Schedules, r.Put.Seconds, r.Put.PerSecond)},
		{"Redis memory of a schedule", fmt.Sprintf("%.0f bytes; its history of five results adds %.0f", r.Bytes, r.History)},
		{"idle server", fmt.Sprintf("%.1f commands a second", r.IdleRate)},
		{"due at one instant", fmt.Sprintf("%d on %s, %d of them killed then", v.Due, console.Plural(v.Servers, "server"), v.Killed)},
		{"launch minus due", fmt.Sprintf("p50 %s, p99 %s, max %s", v.P50.Round(time.Millisecond), v.P99.Round(time.Millisecond), v.Max.Round(time.Millisecond))},
		{"launched", fmt.Sprintf("%d runs; settled as fired exactly once: %d; calls repeated under the same id: %d; of unknown runs: %d", v.Launched, v.Confirmed, v.Repeated, v.Wrong)},
		{"first launches by server", strings.Trim(fmt.Sprint(v.ByServer), "[]")},
	})
}
