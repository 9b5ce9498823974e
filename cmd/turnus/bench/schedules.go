package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/schedulebench"
)

// schedulesBench are the flags of bench schedules.
type schedulesBench struct {
	url                     string
	schedules, due, servers int
}

// benchServerEnv tells the re-executed benchmark that it is one of the servers, and on which ledger.
const benchServerEnv = "TURNUS_BENCH_SCHEDULES"

func benchSchedulesCmd(con *console.Console) *cobra.Command {
	var f schedulesBench
	c := &cobra.Command{
		Use:   "schedules",
		Short: "Schedules in the ledger: an idle server, and fires at one instant while servers are killed",
		Long: `Schedules in the ledger: what a server that has nothing to do costs, and how late and how
often those fire that are due at one instant on several servers, processes of their
own, of which all but one are killed at that instant. The instant is a full minute: it is
waited for. A fire counts as launched once its run is in the ledger.

Without --ledger the ledger is a SQLite file that is made and removed. One given by --ledger
must be empty, and is left full.`,
		Example: "  turnus bench schedules\n  turnus bench schedules --ledger postgres:///bench --due 1000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url := os.Getenv(benchServerEnv); url != "" {
				return benchServer(cmd.Context(), con, url)
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
	out.Volley, err = schedulebench.Fire(ctx, schedulebench.Params{
		Ledger: l, Due: f.due, Servers: f.servers, Kill: f.servers - 1, First: f.schedules, Timeout: time.Minute, Tell: con.Message,
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
	l, err := ledger.Open(ctx, url, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return schedulebench.Serve(ctx, l, con.In, con.Out)
}

// idleServer is what share of a core one server with nothing due takes, over five seconds.
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
		{"due at one instant", fmt.Sprintf("%d on %s, %d of them killed then", v.Due, console.Plural(v.Servers, "server"), v.Killed)},
		{"launch minus due", fmt.Sprintf("p50 %s, p99 %s, max %s", v.P50.Round(time.Millisecond), v.P99.Round(time.Millisecond), v.Max.Round(time.Millisecond))},
		{"launched", fmt.Sprintf("%d runs; counted as fired exactly once: %d; launched twice: %d; of unknown runs: %d", v.Launched, v.Confirmed, v.Repeated, v.Wrong)},
		{"first launches by server", strings.Trim(fmt.Sprint(v.ByServer), "[]")},
	})
}
