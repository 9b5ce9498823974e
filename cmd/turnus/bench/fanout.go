// Package bench owns turnus admin bench: the figures of docs/benchmarks.md, measured on this
// machine.
//
// It must not know other verbs.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/playbooks"
)

// Command returns turnus admin bench.
func Command(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: fan-out over SSH, the queue, schedules, fairness, the API",
		Long:  "Measure this machine. docs/benchmarks.md holds figures, with the command beside each.",
		Example: `  turnus admin bench fanout
  turnus admin bench queue`,
	}
	c.AddCommand(benchFanoutCmd(con), benchQueueCmd(con), benchSchedulesCmd(con), benchFairCmd(con), benchAPICmd(con))
	for _, sub := range c.Commands() {
		sub.RunE = interruptible(con, sub.RunE)
	}
	return c
}

// interruptible has a measurement end with the first signal, and remove what it made.
func interruptible(con *console.Console, measure func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, release := con.Interruptible(cmd.Context())
		defer release()
		cmd.SetContext(ctx)
		if os.Getenv(benchAPIEnv) == "" && os.Getenv(benchServerEnv) == "" {
			con.Message("measuring, for minutes; Ctrl-C ends it")
		}
		if err := measure(cmd, args); ctx.Err() == nil {
			return err
		}
		return &console.Exit{Code: console.ExitCancelled, Err: errors.New("the measurement was interrupted: there are no figures")}
	}
}

// fanoutReport is the -o json document of bench fanout.
type fanoutReport struct {
	Hosts       int         `json:"hosts"`
	Concurrency int         `json:"concurrency"`
	Rounds      []fanoutRow `json:"rounds"` // the first over new connections, the others over pooled ones
	WrongHost   int         `json:"wrong_host"`
	PeakMB      float64     `json:"peak_mb"` // of this process, fleet included, and its plugin processes
	Goroutines  int         `json:"goroutines_left"`
}

type fanoutRow struct {
	Round      int          `json:"round"`
	Took       core.Seconds `json:"took_seconds"`
	HostsPerS  float64      `json:"hosts_per_s"`
	ClientCPU  core.Seconds `json:"cpu_seconds"` // of this process, simulated hosts included, per round
	NotChanged int          `json:"not_done"`
}

const fanoutPlaybook = `playbook: fanout
targets: "true"
steps:
  - {name: name, uses: command, with: {run: hostname}}
`

func benchFanoutCmd(con *console.Console) *cobra.Command {
	var hosts, concurrency, rounds int
	var real realBench
	c := &cobra.Command{
		Use:   "fanout",
		Short: "One command on many hosts: simulated ones, or a real OpenSSH beside Ansible",
		Example: `  turnus admin bench fanout
  turnus admin bench fanout --hosts 10000 -f 512 -o json
  turnus admin bench fanout --openssh          # 500 addresses of one sshd; bare SSH loop and Ansible beside it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hosts < 1 || hosts > 20_000 || rounds < 1 || rounds > 20 || concurrency < 1 {
				return console.Invalid("expected --hosts 1 to 20000, --rounds 1 to 20, --forks from 1")
			}
			if real.on {
				return benchOpenSSH(cmd.Context(), con, real, concurrency)
			}
			return benchFanout(cmd.Context(), con, hosts, concurrency, rounds)
		},
	}
	c.Flags().IntVar(&hosts, "hosts", 3000, "simulated hosts")
	c.Flags().IntVarP(&concurrency, "forks", "f", 256, "jobs at the same time")
	c.Flags().IntVar(&rounds, "rounds", 2, "how often; the first round dials, later ones use pooled connections")
	real.add(c)
	return c
}

func benchFanout(ctx context.Context, con *console.Console, hosts, concurrency, rounds int) (err error) {
	before := runtime.NumGoroutine()
	out := fanoutReport{Hosts: hosts, Concurrency: concurrency}
	if err := fanoutRounds(ctx, con, &out, rounds); err != nil {
		return err
	}
	// Goroutines that are ending get a moment. Those that remain after it are a leak.
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if out.Goroutines = runtime.NumGoroutine() - before; out.Goroutines <= 0 {
			break
		}
	}
	out.Goroutines = max(out.Goroutines, 0)
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	rows := [][]string{{"ROUND", "HOSTS", "SECONDS", "HOSTS/S", "CPU S"}}
	for _, r := range out.Rounds {
		rows = append(rows, []string{fmt.Sprint(r.Round), fmt.Sprint(hosts), fmt.Sprintf("%.2f", r.Took), fmt.Sprintf("%.0f", r.HostsPerS), fmt.Sprintf("%.2f", r.ClientCPU)})
	}
	console.Table(con.Out, rows)
	fmt.Fprintf(con.Out, "outputs attributed to a wrong host: %d; peak memory of the whole: %.0f MB; goroutines left: %d\n", out.WrongHost, out.PeakMB, out.Goroutines)
	return nil
}

func fanoutRounds(ctx context.Context, con *console.Console, out *fanoutReport, rounds int) (err error) {
	fl, err := fleet.Start(ctx, fleet.Config{Hosts: out.Hosts, Seed: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close()) }()
	bench, err := startFanout(ctx, con, fl.Hosts(), node.Flags{Concurrency: out.Concurrency, Login: node.UserLoginFlags{Keys: []string{fl.IdentityFile()}, Agent: "none"}, SSH: node.SSHFlags{ConnectTimeout: 30 * time.Second, MaxConns: node.BesideFleet(), Warnings: con.Warnings()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bench.stop()) }()
	for round := range rounds {
		row, results, err := bench.round(ctx)
		if err != nil {
			return err
		}
		row.Round = round + 1
		out.Rounds = append(out.Rounds, row)
		for _, r := range results {
			if len(r.Steps) == 1 && strings.TrimSpace(r.Steps[0].Stdout) != r.Host {
				out.WrongHost++
			}
		}
	}
	out.PeakMB = peakMB()
	return nil
}

// fanout is a node and a queue that run one playbook on all hosts again and again.
type fanout struct {
	con   *console.Console
	hosts []core.Host
	node  *node.Node
	queue *memory.Queue
	c     *localrun.Conductor
	stop  func() error
}

func startFanout(ctx context.Context, con *console.Console, hosts []core.Host, f node.Flags) (*fanout, error) {
	n, err := f.Reach(ctx, node.ByUserLogins, func() *inventory.Inventory { return nil }, con.Logger(false))
	if err != nil {
		return nil, err
	}
	b := &fanout{con: con, hosts: hosts, node: n, queue: memory.New(memory.Options{})}
	b.c = localrun.NewConductor(con.Quiet(), b.queue)
	if err := n.Work(&f, node.WorkOptions{Queue: b.queue}, con.Logger(false)); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	end, err := b.c.Begin(ctx, node.PlaybookOptions(n.Plugins, nil).Types)
	if err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	b.stop = sync.OnceValue(func() error {
		err := errors.Join(end(), n.Stop())
		b.queue.Shutdown()
		return err
	})
	return b, nil
}

func (b *fanout) round(ctx context.Context) (fanoutRow, []api.Result, error) {
	opts := node.PlaybookOptions(b.node.Plugins, nil)
	p, err := playbooks.Parse("fanout.yaml", []byte(fanoutPlaybook), opts)
	if err != nil {
		return fanoutRow{}, nil, err
	}
	cpu, start := processCPU(), time.Now()
	l, err := launch.Prepare(p, b.hosts, launch.Options{Types: opts.Types})
	if err != nil {
		return fanoutRow{}, nil, err
	}
	r, err := b.c.Drive(ctx, b.c.Add(l))
	if err != nil {
		return fanoutRow{}, nil, err
	}
	took := time.Since(start)
	row := fanoutRow{Took: core.InSeconds(took), HostsPerS: float64(len(b.hosts)) / took.Seconds(), ClientCPU: core.InSeconds(processCPU() - cpu), NotChanged: len(b.hosts) - r.Outcomes[core.Changed]}
	if row.NotChanged > 0 {
		for _, res := range r.Results {
			if res.Outcome != core.Changed {
				return row, r.Results, fmt.Errorf("%d of %d hosts did not answer; %s: %s", row.NotChanged, len(b.hosts), res.Host, runview.ReasonText(res))
			}
		}
		return row, r.Results, fmt.Errorf("%d of %d hosts have no outcome: %s", row.NotChanged, len(b.hosts), r.Reason)
	}
	return row, r.Results, nil
}
