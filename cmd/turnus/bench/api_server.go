package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/server"
)

// benchAPIServer is the measured server: it fills its ledger, prints its address, and obeys the
// lines of its input until that ends.
func benchAPIServer(ctx context.Context, con *console.Console, url string, jobs int) (err error) {
	l, err := ledger.Open(ctx, url, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	var ended atomic.Int64
	ctl, err := controller.New(controller.Config{Name: "bench", Ledger: l, Queue: q, Board: q, Events: func(e controller.Event) {
		if e.Kind == controller.RunEnded {
			ended.Add(1)
		}
	}})
	if err != nil {
		return err
	}
	cat, err := catalog.New(catalog.Config{Ledger: l, Board: q, Controller: ctl})
	if err != nil {
		return err
	}
	if _, err := cat.Apply(ctx, "bench", benchDefinitions(), definitions.Revision{}, catalog.AnyVersion); err != nil {
		return err
	}
	runs := (jobs + apiRunJobs - 1) / apiRunJobs
	rate, err := fillBench(ctx, l, runs)
	if err != nil {
		return err
	}
	secret, _, err := l.NewToken(ctx, "bench", ledger.Token{Name: "bench", AllTenants: true, Roles: []string{string(server.Admin)}, Expires: time.Now().Add(24 * time.Hour)})
	if err != nil {
		return err
	}
	api, err := server.New(server.Config{Ledger: l, Controller: ctl, Queue: q, Board: q, Backend: "memory", Catalog: cat, Version: settings.Version()})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := server.HTTP(api, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	defer wg.Wait()
	working, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { _ = ctl.Run(working) })
	wg.Go(func() { workBench(working, q, func(core.JobID) {}) })
	wg.Go(func() {
		if e := web.Serve(listener); !errors.Is(e, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, e)
		}
	})
	defer func() { err = errors.Join(err, web.Close()) }()
	up := map[string]any{"Address": listener.Addr().String(), "Token": secret, "Recorded": rate, "runs": runs, "cores": runtime.GOMAXPROCS(0)}
	if err := json.NewEncoder(con.Out).Encode(up); err != nil {
		return err
	}
	return obeyBench(ctx, con, l, &ended)
}

// obeyBench answers the words of the benchmark.
func obeyBench(ctx context.Context, con *console.Console, l *ledger.Ledger, ended *atomic.Int64) error {
	r := &benchRecorder{ledger: l}
	defer func() { _, _ = r.end() }()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "cpu":
			fmt.Fprintln(con.Out, processCPU())
		case "ended":
			fmt.Fprintln(con.Out, ended.Load())
		case "record":
			r.begin(ctx)
			fmt.Fprintln(con.Out, "ok")
		case "stop":
			rate, err := r.end()
			if err != nil {
				return err
			}
			fmt.Fprintln(con.Out, rate)
		}
	}
	return in.Err()
}

// workBench is a node on which each job ends immediately.
func workBench(ctx context.Context, q queue.Queue, leased func(core.JobID)) {
	session, err := q.Open(ctx, "node")
	var acks []queue.Ack
	for err == nil && ctx.Err() == nil {
		var turn queue.TurnResult
		if turn, err = q.Turn(ctx, queue.Turn{Session: session, Acks: acks, Want: 256}); err != nil {
			break
		}
		acks = nil
		for _, lease := range turn.Leases {
			leased(lease.Job)
			var detail []byte
			if detail, err = launch.EncodeResult(core.Result{
				Job: lease.Job, Host: lease.Host, Outcome: core.Changed, Attempt: lease.Attempt, Worker: "node", Started: time.Now(),
			}); err != nil {
				break
			}
			acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed, Detail: detail})
		}
		if len(turn.Leases) == 0 {
			_ = q.Wait(ctx, session, time.Now().Add(time.Second))
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "the node has ended:", err)
	}
}

func benchDefinitions() []definitions.Document {
	return []definitions.Document{
		{Path: "playbooks/bench.yaml", Data: []byte("playbook: bench\ntargets: true\nwindow: none\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n")},
		{Path: "inventory/hosts.yaml", Data: []byte("hosts:\n  bench-1: {address: 192.0.2.1}\n  bench-2: {address: 192.0.2.2}\n  bench-3: {address: 192.0.2.3}\n  bench-4: {address: 192.0.2.4}\n")},
		{Path: "windows/sets.yaml", Data: []byte("window_sets: {}\n")},
	}
}

// fillBench records runs with an outcome of each job, those that are there already excepted, and
// returns outcomes a second.
func fillBench(ctx context.Context, l *ledger.Ledger, runs int) (rate float64, err error) {
	begin, recorded := time.Now(), 0
	for i := range runs {
		id := "bench-" + strconv.Itoa(i)
		_, err := l.Run(ctx, ledger.AllTenants(), id)
		if err == nil {
			continue
		}
		if !errors.Is(err, core.ErrNotFound) {
			return 0, err
		}
		if err := acceptBench(ctx, l, id); err != nil {
			return 0, err
		}
		for from := 0; from < apiRunJobs; from += 500 {
			if err := recordBench(ctx, l, id, from, 500); err != nil {
				return 0, err
			}
		}
		recorded += apiRunJobs
	}
	return float64(recorded) / time.Since(begin).Seconds(), nil
}

func acceptBench(ctx context.Context, l *ledger.Ledger, id string) error {
	hosts := make([]ledger.JobHost, apiRunJobs)
	for i := range hosts {
		hosts[i] = ledger.JobHost{Host: "host-" + strconv.Itoa(i), Tenant: "bench"}
	}
	_, _, err := l.Accept(ctx, ledger.NewRun{
		ID: id, Tenant: "bench", Playbook: "bench", LaunchedBy: "bench", Created: time.Now(), Jobs: hosts, Snapshot: []byte("{}"), Queue: []byte("{}"),
		Approvals: 1, // the engine leaves it alone
	})
	return err
}

func recordBench(ctx context.Context, l *ledger.Ledger, id string, from, n int) error {
	batch := ledger.Batch{Run: id}
	for i := from; i < from+n; i++ {
		detail, err := launch.EncodeResult(core.Result{
			Job: core.JobID{Run: id, Index: i}, Host: "host-" + strconv.Itoa(i), Outcome: core.Changed, Attempt: 1, Worker: "worker-1", Started: time.Now(), Took: time.Second,
			Steps: []core.StepResult{{
				Name: "upgrade", Uses: "command", Outcome: core.Changed, Attempts: 1, Took: time.Second,
				Stdout: "Reading package lists...\nBuilding dependency tree...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n",
			}},
		})
		if err != nil {
			return err
		}
		batch.Outcomes = append(batch.Outcomes, ledger.Outcome{
			Index: i, Outcome: core.Changed, Attempt: 1, Worker: "worker-1", Started: time.Now(), Took: time.Second, Detail: detail,
		})
	}
	recorded, err := l.Record(ctx, batch)
	if err != nil {
		return err
	}
	return recorded[0].Err
}

// benchRecorder records outcomes at a steady rate beside the requests.
type benchRecorder struct {
	ledger   *ledger.Ledger
	stop     context.CancelFunc
	wg       sync.WaitGroup
	started  time.Time
	recorded int
	err      error
}

func (r *benchRecorder) begin(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	r.started = time.Now()
	r.wg.Go(func() { r.err = r.record(ctx) })
}

func (r *benchRecorder) record(ctx context.Context) error {
	const batch = 100
	ticker := time.NewTicker(time.Second * batch / apiRecordRate)
	defer ticker.Stop()
	for n := 0; ; n++ {
		id, from := fmt.Sprintf("load-%d-%d", r.started.UnixNano(), n*batch/apiRunJobs), n*batch%apiRunJobs
		if from == 0 {
			if err := acceptBench(ctx, r.ledger, id); err != nil {
				return unlessEnded(ctx, err)
			}
		}
		if err := recordBench(ctx, r.ledger, id, from, batch); err != nil {
			return unlessEnded(ctx, err)
		}
		r.recorded += batch
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// unlessEnded passes over an error of what was asked to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// end stops recording, and returns outcomes a second.
func (r *benchRecorder) end() (rate float64, err error) {
	if r.stop == nil {
		return 0, nil
	}
	r.stop()
	r.wg.Wait()
	r.stop = nil
	return float64(r.recorded) / time.Since(r.started).Seconds(), r.err
}
