package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/bench/queuebench"
	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
)

// queueBench are the flags of bench queue.
type queueBench struct {
	inMemory  bool
	encrypted bool
	bytes     int
	url       string
	jobs      int
	over      time.Duration
}

func benchQueueCmd(con *console.Console) *cobra.Command {
	var f queueBench
	c := &cobra.Command{
		Use:   "queue",
		Short: "The whole cycle of jobs on the queue: throughput, memory, latency",
		Long: `The whole cycle of jobs on the queue: throughput, memory, latency. Without --redis a
private redis-server (append-only file, fsync each second, Unix socket) is started and removed.
A Redis given by --redis must be empty: what the benchmark leaves there is a few keys.`,
		Example: "  turnus admin bench queue\n  turnus admin bench queue --memory\n  turnus admin bench queue --redis redis://127.0.0.1:6379/9 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.jobs < 1000 || f.jobs > 5_000_000 {
				return console.Invalid("--jobs %d: expected 1000 to 5000000", f.jobs)
			}
			if f.bytes < 0 || f.bytes > queue.MaxDataLength {
				return console.Invalid("--bytes %d: expected 0 to %d", f.bytes, queue.MaxDataLength)
			}
			return benchQueue(cmd.Context(), con, f)
		},
	}
	c.Flags().BoolVar(&f.inMemory, "memory", false, "measure the queue in memory")
	c.Flags().StringVar(&f.url, "redis", "", "measure on this Redis")
	c.Flags().BoolVar(&f.encrypted, "encrypted", false, "put the queue behind a key ring that is made for it")
	c.Flags().IntVar(&f.bytes, "bytes", 0, "bytes of data, and of what is recorded, of each job of the throughput rows, up to 65536")
	c.Flags().IntVar(&f.jobs, "jobs", 300_000, "jobs of each throughput row")
	c.Flags().DurationVar(&f.over, "spread", 30*time.Second, "span of the 1000 timed jobs")
	return c
}

// queueReport is the -o json document of bench queue.
type queueReport struct {
	Queue       string                        `json:"queue"`
	Encrypted   bool                          `json:"encrypted"`
	Throughput  []queuebench.ThroughputResult `json:"throughput"`
	Submit      queuebench.SubmitResult       `json:"submit"`
	BytesPerJob float64                       `json:"bytes_per_pending_job"` // 0 if it is unknown
	IdleToStart queuebench.Percentiles        `json:"idle_to_start"`
	Burst       queuebench.TimedResult        `json:"burst"`
	Spread      queuebench.TimedResult        `json:"spread"`
	Single      []queuebench.SingleResult     `json:"single"` // runs of one host
	SingleBurst queuebench.TimedResult        `json:"single_burst"`
	IdlePerS    float64                       `json:"idle_commands_per_s"` // of one idle node
}

func benchQueue(ctx context.Context, con *console.Console, f queueBench) (err error) {
	out := queueReport{Queue: "memory", Encrypted: f.encrypted}
	open := func() (encrypted.Backend, error) { return memory.New(memory.Options{}), nil }
	var client goredis.UniversalClient
	if !f.inMemory {
		url := f.url
		out.Queue = "redis"
		if url == "" {
			r, err := startRedis(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.stop()) }()
			url = r.url
		}
		if client, err = redisconn.Dial(url); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		pools := 0
		open = func() (encrypted.Backend, error) {
			pools++
			return redis.New(client, redis.Options{Pool: fmt.Sprintf("bench-%d-%d", os.Getpid(), pools)})
		}
	}
	if f.encrypted {
		ring, err := passingRing()
		if err != nil {
			return err
		}
		plain := open
		open = func() (encrypted.Backend, error) {
			q, err := plain()
			return encrypted.New(q, ring, nil), err
		}
	}
	if err := queueRows(ctx, con, f, open, client, &out); err != nil {
		return err
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	writeQueueReport(con, out)
	return nil
}

// passingRing is a key ring whose file is removed immediately.
func passingRing() (_ *keyring.Ring, err error) {
	dir, err := os.MkdirTemp("", "turnus-bench-keyring-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "ring.json")
	if _, err := keyring.New(path); err != nil {
		return nil, err
	}
	return keyring.Open(path, keyring.Options{})
}

// queueRows measures; each row has a pool of its own.
func queueRows(ctx context.Context, con *console.Console, f queueBench, open func() (encrypted.Backend, error), client goredis.UniversalClient, out *queueReport) error {
	for _, p := range []queuebench.Params{
		{Runs: 3, Batch: 256, Nodes: 2},
		{Runs: 500, Batch: 256, Nodes: 2},
		{Runs: 3, Batch: 64, Nodes: 2},
		{Runs: 3, Batch: 64, Nodes: 2, InFlightHeld: 1000},
		{Runs: 3, Batch: 64, Nodes: 2, InFlightHeld: 10_000},
	} {
		p.Jobs, p.Bytes = f.jobs, f.bytes
		con.Message(fmt.Sprintf("throughput: %d jobs in %d runs, batches of %d, %d held in flight", p.Jobs, p.Runs, p.Batch, p.InFlightHeld))
		q, err := open()
		if err != nil {
			return err
		}
		r, err := queuebench.Throughput(ctx, q, p)
		if err != nil {
			return err
		}
		out.Throughput = append(out.Throughput, r)
	}
	q, err := open()
	if err != nil {
		return err
	}
	con.Message("submit: one run of 1,000,000 jobs")
	before := keyMemory(ctx, client)
	const million = 1_000_000
	if out.Submit, err = queuebench.Submit(ctx, q, million, func() error {
		out.BytesPerJob = (keyMemory(ctx, client) - before) / million
		return nil
	}); err != nil {
		return err
	}
	return latencyRows(ctx, con, f, open, client, out)
}

func latencyRows(ctx context.Context, con *console.Console, f queueBench, open func() (encrypted.Backend, error), client goredis.UniversalClient, out *queueReport) error {
	q, err := open()
	if err != nil {
		return err
	}
	con.Message("idle to start: 500 jobs, one at a time, four idle nodes")
	if out.IdleToStart, err = queuebench.IdleToStart(ctx, q, 4, 500); err != nil {
		return err
	}
	if out.IdlePerS, err = idleCommands(ctx, q, client); err != nil {
		return err
	}
	con.Message("burst: 10,000 jobs due at one instant")
	if q, err = open(); err != nil {
		return err
	}
	if out.Burst, err = queuebench.Burst(ctx, q, 4, 256, 10_000, 3*time.Second); err != nil {
		return err
	}
	con.Message("spread: 1000 timed jobs over " + f.over.String())
	if q, err = open(); err != nil {
		return err
	}
	if out.Spread, err = queuebench.Spread(ctx, q, 4, 1000, f.over); err != nil {
		return err
	}
	return singleRows(ctx, con, open, client, out)
}

// singleRows measures runs of one host, as events, API clients and schedules submit them.
func singleRows(ctx context.Context, con *console.Console, open func() (encrypted.Backend, error), client goredis.UniversalClient, out *queueReport) error {
	for _, p := range []queuebench.SingleParams{
		{Runs: 50_000, Batch: 256, Callers: 1},
		{Runs: 50_000, Batch: 1, Callers: 8},
		{Runs: 50_000, Batch: 256, Callers: 1, Nodes: 2},
		{Runs: 50_000, Batch: 1, Callers: 8, Nodes: 2},
	} {
		con.Message(fmt.Sprintf("runs of one host: %d, %d a call from %d callers, %d nodes", p.Runs, p.Batch, p.Callers, p.Nodes))
		q, err := open()
		if err != nil {
			return err
		}
		before := serverMemory(ctx, client)
		r, err := queuebench.Single(ctx, q, p)
		if err != nil {
			return err
		}
		if p.Nodes == 0 {
			r.BytesPerRun = (serverMemory(ctx, client) - before) / float64(p.Runs)
		}
		out.Single = append(out.Single, r)
	}
	con.Message("burst: 10,000 runs of one host due at one instant")
	q, err := open()
	if err == nil {
		out.SingleBurst, err = queuebench.SingleBurst(ctx, q, 4, 256, 10_000, 5*time.Second)
	}
	return err
}

// serverMemory returns the memory that the server of Redis reports, 0 if unknown.
func serverMemory(ctx context.Context, client goredis.UniversalClient) float64 {
	if client == nil {
		return 0
	}
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 64) // what is no number is 0
	return n
}

// idleCommands counts what one idle node sends Redis a second, over five seconds.
func idleCommands(ctx context.Context, q encrypted.Backend, client goredis.UniversalClient) (float64, error) {
	if client == nil {
		return 0, nil
	}
	session, err := q.Open(ctx, "idle")
	if err != nil {
		return 0, err
	}
	const span = 5 * time.Second
	sent := &sentCommands{}
	client.AddHook(sent)
	before, start := sent.n.Load(), time.Now()
	beat := time.Now()
	for time.Since(start) < span {
		r, err := q.Turn(ctx, queue.Turn{Session: session, Want: 1})
		if err != nil {
			return 0, err
		}
		until := r.Now.Add(time.Second)
		if err := q.Wait(ctx, session, until); err != nil {
			return 0, err
		}
		if time.Since(beat) >= queue.BeatEvery {
			beat = time.Now()
			if _, err := q.Beat(ctx, session); err != nil {
				return 0, err
			}
		}
	}
	per := float64(sent.n.Load()-before) / time.Since(start).Seconds()
	return per, q.Close(ctx, session)
}

// keyMemory returns the memory of all keys by the report of Redis, their overhead included. The
// server's own used_memory also moves with its buffers and scripts.
func keyMemory(ctx context.Context, client goredis.UniversalClient) float64 {
	one, ok := client.(*goredis.Client)
	if !ok {
		return 0
	}
	var sum int64
	keys := one.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		if n, err := one.MemoryUsage(ctx, keys.Val(), 0).Result(); err == nil {
			sum += n
		}
	}
	if keys.Err() != nil {
		return 0
	}
	return float64(sum)
}

// sentCommands counts what a client sends; INFO would also count the calls of scripts.
type sentCommands struct{ n atomic.Int64 }

// DialHook is not interested in connections.
func (s *sentCommands) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook counts a command.
func (s *sentCommands) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline's commands.
func (s *sentCommands) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		s.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func writeQueueReport(con *console.Console, r queueReport) {
	rows := [][]string{{"RUNS", "BATCH", "NODES", "IN FLIGHT", "JOBS/S", "TURN P50", "TURN P99"}}
	for _, t := range r.Throughput {
		rows = append(rows, []string{fmt.Sprint(t.Runs), fmt.Sprint(t.Batch), fmt.Sprint(t.Nodes), fmt.Sprint(t.InFlightHeld),
			fmt.Sprintf("%.0f", t.JobsPerSecond), t.Turn.P50.Duration().Round(time.Microsecond).String(), t.Turn.P99.Duration().Round(time.Microsecond).String()})
	}
	console.Table(con.Out, rows)
	fmt.Fprintf(con.Out, "submit of a run of %d jobs: %.2f s", r.Submit.Jobs, r.Submit.Seconds)
	if r.BytesPerJob > 0 {
		fmt.Fprintf(con.Out, ", %.1f bytes of Redis memory a pending job", r.BytesPerJob)
	}
	fmt.Fprintf(con.Out, "\nidle to start: p50 %s, p99 %s\n", r.IdleToStart.P50.Duration().Round(time.Microsecond), r.IdleToStart.P99.Duration().Round(time.Microsecond))
	fmt.Fprintf(con.Out, "burst of %d due at one instant: all started after %s\n", r.Burst.Jobs, r.Burst.AllStarted.Duration().Round(time.Millisecond))
	fmt.Fprintf(con.Out, "%d timed jobs over %s: start minus due p50 %s, p99 %s\n", r.Spread.Jobs, r.Spread.Over.Duration().Round(time.Second), r.Spread.Late.P50.Duration().Round(10*time.Microsecond), r.Spread.Late.P99.Duration().Round(10*time.Microsecond))
	rows = [][]string{{"RUNS OF ONE HOST", "A CALL", "CALLERS", "NODES", "SUBMITS/S", "JOBS/S", "BYTES A RUN"}}
	for _, s := range r.Single {
		rows = append(rows, []string{fmt.Sprint(s.Runs), fmt.Sprint(s.Batch), fmt.Sprint(s.Callers), fmt.Sprint(s.Nodes),
			fmt.Sprintf("%.0f", s.SubmitsPerSecond), unlessZero(s.JobsPerSecond), unlessZero(s.BytesPerRun)})
	}
	console.Table(con.Out, rows)
	fmt.Fprintf(con.Out, "burst of %d runs of one host due at one instant: all started after %s\n", r.SingleBurst.Jobs, r.SingleBurst.AllStarted.Duration().Round(time.Millisecond))
	if r.IdlePerS > 0 {
		fmt.Fprintf(con.Out, "an idle node sends Redis %.1f commands a second\n", r.IdlePerS)
	}
}

// unlessZero leaves out what was not measured.
func unlessZero(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
}

// privateRedis is a redis-server that only this process uses.
type privateRedis struct {
	dir, url string
	cmd      *exec.Cmd
}

func startRedis(ctx context.Context) (_ *privateRedis, err error) {
	program, err := findProgram("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: apt-get install redis-server, or --redis URL, or --memory", err)
	}
	dir, err := os.MkdirTemp("", "turnus-bench-redis-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	r := &privateRedis{dir: dir, url: "unix://" + socket}
	r.cmd = exec.CommandContext(ctx, program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", //nolint:gosec // fixed arguments
		"--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--maxmemory-policy", "noeviction", "--logfile", filepath.Join(dir, "log"))
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	client, err := redisconn.Dial(r.url)
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("redis-server does not answer"), r.stop())
		case <-tick.C:
		}
	}
	return r, nil
}

func (r *privateRedis) stop() error {
	err := r.cmd.Process.Kill()
	_ = r.cmd.Wait() // reports only that it was killed
	return errors.Join(err, os.RemoveAll(r.dir))
}
