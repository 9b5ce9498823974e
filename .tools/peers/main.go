// Command peers measures the queue of Turnus and asynq in turns, on one redis-server that has the
// flags of turnus admin bench queue. It prints medians, and how many times Turnus is as good.
//
//	peers [-rounds N] [-jobs N] TURNUS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
)

// rows are the figures in the order in which both sides return them.
var rows = []struct {
	what, unit string
	rate       bool // more is better
}{
	{"submit one by one, 8 callers", "/s", true},
	{"submit, lease, acknowledge, one by one", "/s", true},
	{"the same in batches of 256; asynq has none", "/s", true},
	{"the same in 3 bulk runs; asynq has none", "/s", true},
	{"Redis memory of a pending run", " B", false},
	{"Redis memory of a pending job of a bulk run", " B", false},
	{"idle to start, p50", " s", false},
	{"idle to start, p99", " s", false},
	{"10,000 due at one instant, all started after", " s", false},
	{"the same in a bulk run", " s", false},
	{"1000 timed jobs over 30 s, start minus due, p99", " s", false},
}

func main() {
	rounds := flag.Int("rounds", 3, "measure both `N` times")
	jobs := flag.Int("jobs", 50_000, "jobs of each throughput row of asynq; Turnus gets six times as many in bulk runs, and always 50,000 runs of one host")
	flag.Parse()
	if flag.NArg() != 1 || *rounds < 1 || *jobs < 1000 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *rounds, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(turnus string, rounds, jobs int) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "turnus-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "redis.sock")
	server := exec.CommandContext(ctx, "redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes",
		"--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--maxmemory-policy", "noeviction", "--logfile", filepath.Join(dir, "log"))
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: 20})
	defer client.Close()

	ours, theirs := make([][]float64, len(rows)), make([][]float64, len(rows))
	for round := range rounds {
		for _, side := range []struct {
			name    string
			all     [][]float64
			measure func() ([]float64, error)
		}{
			{"Turnus", ours, func() ([]float64, error) { return measureTurnus(ctx, turnus, socket, 6*jobs) }},
			{"asynq", theirs, func() ([]float64, error) { return (&peer{redis: client, socket: socket}).measure(ctx, jobs) }},
		} {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, side.name)
			if err := client.FlushAll(ctx).Err(); err != nil {
				return err
			}
			figures, err := side.measure()
			if err != nil {
				return fmt.Errorf("measure %s: %w", side.name, err)
			}
			for i, figure := range figures {
				side.all[i] = append(side.all[i], figure)
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEDIAN OF "+strconv.Itoa(rounds)+"\tTURNUS\tASYNQ\tTURNUS IS")
	for i, row := range rows {
		a, b := median(ours[i]), median(theirs[i])
		times := b / a
		if row.rate {
			times = a / b
		}
		fmt.Fprintf(w, "%s\t%.4g%s\t%.4g%s\t%.1f times as good\n", row.what, a, row.unit, b, row.unit, times)
	}
	return w.Flush()
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func measureTurnus(ctx context.Context, turnus, socket string, jobs int) ([]float64, error) {
	c := exec.CommandContext(ctx, turnus, "admin", "bench", "queue", "--redis", "unix://"+socket, "--jobs", strconv.Itoa(jobs), "-o", "json")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, err
	}
	var r struct {
		Throughput []struct {
			Rate float64 `json:"jobs_per_second"`
		}
		Bytes float64 `json:"bytes_per_pending_job"`
		Idle  late    `json:"idle_to_start"`
		Burst struct {
			All float64 `json:"all_started_seconds"`
		}
		Spread struct{ Late late }
		Single []struct {
			Submits float64 `json:"submits_per_second"`
			Rate    float64 `json:"jobs_per_second"`
			Bytes   float64 `json:"bytes_per_run"`
		}
		SingleBurst struct {
			All float64 `json:"all_started_seconds"`
		} `json:"single_burst"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, err
	}
	if len(r.Single) != 4 || len(r.Throughput) == 0 {
		return nil, fmt.Errorf("bench queue printed %d rows of runs of one host and %d of bulk runs, expected 4 and some", len(r.Single), len(r.Throughput))
	}
	return []float64{
		r.Single[1].Submits, r.Single[3].Rate, r.Single[2].Rate, r.Throughput[0].Rate, r.Single[0].Bytes, r.Bytes,
		r.Idle.P50, r.Idle.P99, r.SingleBurst.All, r.Burst.All, r.Spread.Late.P99,
	}, nil
}

type late struct {
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
}
