package bench

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// apiBench are the flags of bench api.
type apiBench struct {
	ledger      string
	jobs        int
	connections int
	during      time.Duration
}

// Bounds of the load of bench api.
const (
	apiRunJobs    = 3000   // jobs of one recorded run
	apiRecordRate = 5000   // outcomes a second, and
	apiCreateRate = 20     // runs a second, and
	apiReadRate   = 10_000 // reads a second, while both of them are measured
	apiBulkRuns   = 1000   // of one request, over
	apiBulks      = 4      // connections
)

// benchAPIEnv marks the re-executed benchmark as the server, and names the ledger and the number of
// jobs.
const benchAPIEnv = "TURNUS_BENCH_API"

func benchAPICmd(con *console.Console) *cobra.Command {
	var f apiBench
	c := &cobra.Command{
		Use:   "api",
		Short: "One server's answers per second over a million recorded jobs",
		Long: `One server's API over recorded jobs. It measures how fast outcomes are recorded, how many runs and
jobs are shown in a second, and how long a create takes under that load. It also measures runs of one
host from create to record, with a request for each run and with one request for 1000.

The node, in the server's process, does nothing for a job; the queue is in memory. The server is a process of its own that uses two cores. Without --ledger it
has a new SQLite file, which is removed. A ledger given by --ledger is filled, and left so: the next time it is only read.`,
		Example: "  turnus admin bench api --jobs 100000\n  turnus admin bench api --ledger 'postgres:///bench?host=/run/postgresql' -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url := os.Getenv(benchAPIEnv); url != "" {
				return benchAPIServer(cmd.Context(), con, url, f.jobs)
			}
			switch {
			case f.jobs < apiRunJobs || f.jobs > 100_000_000:
				return console.Invalid("--jobs %d: expected %d to 100000000", f.jobs, apiRunJobs)
			case f.connections < 1 || f.connections > 1000:
				return console.Invalid("--connections %d: expected 1 to 1000", f.connections)
			case f.during < time.Second || f.during > time.Hour:
				return console.Invalid("--during %s: expected 1s to 1h", f.during)
			}
			return benchAPI(cmd.Context(), con, f)
		},
	}
	c.Flags().StringVar(&f.ledger, "ledger", "", "sqlite:PATH or postgres://…; it is filled")
	c.Flags().IntVar(&f.jobs, "jobs", 1_000_000, "jobs that are recorded")
	c.Flags().IntVar(&f.connections, "connections", 64, "requests at the same time")
	c.Flags().DurationVar(&f.during, "during", 10*time.Second, "of each measurement")
	return c
}

// apiReport is the -o json document of bench api.
type apiReport struct {
	Jobs     int         `json:"jobs"`
	Recorded float64     `json:"outcomes_per_s"` // while it was filled; 0 where it was before
	Runs     apiRow      `json:"get_run"`
	Results  apiRow      `json:"get_job"` // with its steps
	Both     apiRow      `json:"get_run_and_job"`
	Loaded   apiRow      `json:"get_run_and_job_loaded"` // while creates and outcomes are recorded
	Creates  apiRow      `json:"create_loaded"`
	Under    float64     `json:"outcomes_per_s_loaded"`
	OneHost  apiRow      `json:"create_one_host"`         // as fast as the connections ask
	Finished float64     `json:"finished_one_host_per_s"` // from the first of them to the last that a node has worked on and the ledger has
	Bulk     apiRow      `json:"create_bulk"`             // requests for apiBulkRuns runs of one host
	Bulked   float64     `json:"finished_bulk_per_s"`     // as Finished
	Server   apiServerUp `json:"server"`
}

// apiServerUp is the report of a server that listens.
type apiServerUp struct {
	Address  string  `json:"-"`
	Token    string  `json:"-"`
	Recorded float64 `json:"-"`
	Runs     int     `json:"runs"`
	Cores    int     `json:"cores"`
}

// apiRow is one measurement.
type apiRow struct {
	PerS    float64      `json:"per_s"`
	P50     core.Seconds `json:"p50_seconds"`
	P99     core.Seconds `json:"p99_seconds"`
	Max     core.Seconds `json:"max_seconds"`
	Count   int          `json:"count"`
	CPU     core.Seconds `json:"server_cpu_per_request_seconds"`
	Refused int          `json:"not_answered"`
}

func benchAPI(ctx context.Context, con *console.Console, f apiBench) (err error) {
	dir, err := os.MkdirTemp("", "turnus-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := startBenchAPI(ctx, cmp.Or(f.ledger, "sqlite:"+filepath.Join(dir, "ledger.db")), f.jobs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	out := apiReport{Jobs: f.jobs, Recorded: s.up.Recorded, Server: s.up}
	runs := s.up.Runs
	run := func(i int) string { return s.get(fmt.Sprintf("/v1/runs/bench-%d", i*7919%runs)) }
	job := func(i int) string {
		return s.get(fmt.Sprintf("/v1/runs/bench-%d/jobs/%d", i*7919%runs, i*31%apiRunJobs))
	}
	both := func(i int) string {
		if i%2 == 0 {
			return run(i)
		}
		return job(i)
	}
	for _, m := range []struct {
		to   *apiRow
		path func(int) string
	}{{&out.Runs, run}, {&out.Results, job}, {&out.Both, both}} {
		if *m.to, err = s.ask(ctx, f, 0, m.path); err != nil {
			return err
		}
	}
	if err := s.underLoad(ctx, f, both, &out); err != nil {
		return err
	}
	one := s.post("/v1/runs", `{"playbook":"bench","limit":["bench-1"]}`)
	if out.OneHost, out.Finished, err = s.oneHost(ctx, f, 1, func(int) string { return one }); err != nil {
		return err
	}
	f.connections = min(f.connections, apiBulks)
	if out.Bulk, out.Bulked, err = s.oneHost(ctx, f, apiBulkRuns, s.bulk); err != nil {
		return err
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	writeAPIReport(con, out)
	return nil
}

// underLoad measures reads and creates while outcomes are recorded.
func (s *benchAPIProcess) underLoad(ctx context.Context, f apiBench, path func(int) string, out *apiReport) error {
	if _, err := s.report("record"); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var createErr error
	wg.Go(func() { out.Creates, createErr = s.creates(ctx, f.during) })
	row, err := s.ask(ctx, f, apiReadRate, path)
	wg.Wait()
	if err := errors.Join(err, createErr); err != nil {
		return err
	}
	out.Loaded = row
	n, err := s.report("stop")
	if err == nil {
		out.Under, err = strconv.ParseFloat(n, 64)
	}
	return err
}

// bulk is a request for apiBulkRuns runs of one host, with keys that no other request has.
func (s *benchAPIProcess) bulk(int) string {
	runs := make([]api.KeyedRun, apiBulkRuns)
	for i := range runs {
		runs[i] = api.KeyedRun{Key: rand.Text(), NewRun: api.NewRun{Playbook: "bench", LaunchOptions: api.LaunchOptions{Limit: []string{"bench-1"}}}}
	}
	body, _ := json.Marshal(api.NewRuns{Runs: runs}) // nothing in it is refused
	return s.post("/v1/runs/bulk", string(body))
}

// oneHost creates runs of one host over all connections, so many with each request, and waits until
// all of them are finished and recorded.
func (s *benchAPIProcess) oneHost(ctx context.Context, f apiBench, runs int, request func(int) string) (row apiRow, finished float64, err error) {
	before, err := s.ended()
	if err != nil {
		return row, 0, err
	}
	begin := time.Now()
	if row, err = s.ask(ctx, f, 0, request); err != nil {
		return row, 0, err
	}
	made := (row.Count - row.Refused) * runs
	for all := 0; all < made; {
		now, err := s.ended()
		if err != nil {
			return row, 0, err
		}
		if all = now - before; time.Since(begin) > f.during+10*time.Minute {
			return row, 0, fmt.Errorf("%d of %d runs are finished after %v", all, made, time.Since(begin).Round(time.Second))
		}
		if err := core.Sleep(ctx, 10*time.Millisecond); err != nil {
			return row, 0, err
		}
	}
	return row, float64(made) / time.Since(begin).Seconds(), nil
}

// creates makes runs of four hosts at a steady pace over one connection.
func (s *benchAPIProcess) creates(ctx context.Context, during time.Duration) (apiRow, error) {
	var took []time.Duration
	refused := 0
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(time.Second / apiCreateRate)
	defer ticker.Stop()
	begin := time.Now()
	for time.Since(begin) < during {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.up.Address+"/v1/runs", strings.NewReader(`{"playbook":"bench"}`))
		if err != nil {
			return apiRow{}, err
		}
		req.Header.Set("Authorization", "Bearer "+s.up.Token)
		req.Header.Set("Content-Type", "application/json")
		start := time.Now()
		res, err := client.Do(req)
		if err != nil {
			return apiRow{}, fmt.Errorf("create a run: %w", err)
		}
		took = append(took, time.Since(start))
		if res.StatusCode != http.StatusCreated {
			refused++
		}
		_ = res.Body.Close()
		select {
		case <-ctx.Done():
			return apiRow{}, context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return rowOf(took, time.Since(begin), 0, refused), nil
}

func writeAPIReport(con *console.Console, r apiReport) {
	fmt.Fprintf(con.Out, "%d recorded jobs, one server with %d cores\n\n", r.Jobs, r.Server.Cores)
	if r.Recorded > 0 {
		fmt.Fprintf(con.Out, "%-38s %8.0f /s\n", "record outcomes", r.Recorded)
	}
	row := func(name string, w apiRow) {
		fmt.Fprintf(con.Out, "%-38s %8.0f /s   p50 %s   p99 %s   max %s", name, w.PerS, w.P50.Duration().Round(10*time.Microsecond), w.P99.Duration().Round(10*time.Microsecond), w.Max.Duration().Round(time.Millisecond))
		if w.CPU > 0 {
			fmt.Fprintf(con.Out, "   server CPU %s each", w.CPU.Duration().Round(time.Microsecond))
		}
		if w.Refused > 0 {
			fmt.Fprintf(con.Out, "   %d NOT ANSWERED", w.Refused)
		}
		fmt.Fprintln(con.Out)
	}
	row("show a run", r.Runs)
	row("show a job with its steps", r.Results)
	row("both", r.Both)
	fmt.Fprintf(con.Out, "\nwhile %.0f outcomes/s are recorded\n", r.Under)
	row("both", r.Loaded)
	row("create a run", r.Creates)
	fmt.Fprintf(con.Out, "\nruns of one host, queued and worked on meanwhile: %.0f finished and recorded a second\n", r.Finished)
	row("create a run", r.OneHost)
	fmt.Fprintf(con.Out, "\nthe same with %d runs in a request: %.0f finished and recorded a second\n", apiBulkRuns, r.Bulked)
	row("create runs", r.Bulk)
}

// benchAPIProcess is the measured server.
type benchAPIProcess struct {
	cmd   *exec.Cmd
	in    *bufio.Writer
	close func() error
	out   *bufio.Scanner
	up    apiServerUp
}

func startBenchAPI(ctx context.Context, ledger string, jobs int) (*benchAPIProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "admin", "bench", "api", "--jobs", strconv.Itoa(jobs)) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), benchAPIEnv+"="+ledger, "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	s := &benchAPIProcess{cmd: cmd, in: bufio.NewWriter(in), close: in.Close, out: bufio.NewScanner(out)}
	line, err := s.answer()
	var up struct {
		apiServerUp
		Address, Token string
		Recorded       float64
	}
	if err == nil {
		err = json.Unmarshal([]byte(line), &up)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not come up: %w", err), s.stop())
	}
	s.up = up.apiServerUp
	s.up.Address, s.up.Token, s.up.Recorded = up.Address, up.Token, up.Recorded
	return s, nil
}

func (s *benchAPIProcess) answer() (string, error) {
	if s.out.Scan() {
		return s.out.Text(), nil
	}
	return "", cmp.Or(s.out.Err(), errors.New("the server has ended"))
}

// report sends one word to the server and reads its answer.
func (s *benchAPIProcess) report(word string) (string, error) {
	if _, err := s.in.WriteString(word + "\n"); err != nil {
		return "", err
	}
	if err := s.in.Flush(); err != nil {
		return "", err
	}
	return s.answer()
}

// cpu returns the processor time that the server has used so far.
func (s *benchAPIProcess) cpu() (time.Duration, error) {
	text, err := s.report("cpu")
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// ended is how many runs the server has seen end.
func (s *benchAPIProcess) ended() (int, error) {
	text, err := s.report("ended")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// stop ends the server: it ends with its input.
func (s *benchAPIProcess) stop() error {
	_ = s.close()
	return s.cmd.Wait()
}
