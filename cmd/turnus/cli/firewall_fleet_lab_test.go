//go:build labs

package cli

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/playbooks"
)

// firewalls answers for simulated hosts as nft and the timer would: no table at first, then the one
// that was applied.
type firewalls struct {
	mu      sync.Mutex
	applied map[string]bool
}

const simulatedTable = `{"nftables": [{"table": {"family": "inet", "name": "turnus"}}, {"chain": {"family": "inet", "table": "turnus", "name": "input", "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}}, ` +
	`{"rule": {"family": "inet", "table": "turnus", "chain": "input", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}, {"accept": null}]}}]}`

func (f *firewalls) handle(_ context.Context, c fleet.Command) (int, bool) {
	text := c.Line + c.Script
	if !strings.Contains(text, "/var/lib/turnus/firewall") {
		return 0, false
	}
	_, _ = io.Copy(io.Discard, c.Stdin)
	f.mu.Lock()
	defer f.mu.Unlock()
	live := "absent\n"
	if f.applied[c.Host] {
		live = "live " + simulatedTable + "\nlivetext table inet turnus {}\n"
	}
	var answer string
	switch {
	case strings.Contains(text, "echo \"scratch"):
		answer = "uptime 100\nscratch unshare\n" + live + "want " + simulatedTable + "\nwanttext table inet turnus {}\n"
	case strings.Contains(text, "nft -f new.nft"):
		f.applied[c.Host] = true
		answer = "applied\n"
	case strings.Contains(text, "mv armed confirmed"):
		answer = "state confirmed\n"
	case strings.Contains(text, ".takeover."):
		answer = live + "armed\n"
	default:
		answer = "state armed\nuptime 101\n" + live
	}
	_, _ = io.WriteString(c.Stdout, answer)
	return 0, true
}

const (
	bulkPlaybook = "playbook: bulk\ntargets: host.labels.role == 'other'\nsteps: [{uses: command, with: {run: sleep 0.2}, foreach: [1, 2, 3, 4, 5, 6]}]\n"
	pushPlaybook = `playbook: push
targets: host.labels.role == 'firewall'
strategy: {waves: [1, 10%, 100%], stop_after: 1}
steps:
  - {name: widen, uses: firewall.push, with: {mode: widen, ruleset: "table inet turnus { chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }"}}
  - {name: narrow, uses: firewall.push, after: all_hosts, with: {mode: narrow, ruleset: "table inet turnus { chain input { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }"}}
`
)

// A push to a hundred firewalls begins immediately, though a bulk run of thousands of hosts uses
// the whole concurrency, and goes through its waves twice: nobody is narrowed before all are
// widened. TURNUS_BENCH=N has N hosts in the bulk run, and a bound on the start.
func TestLabPushStartsAtOnceBesideABulkRun(t *testing.T) {
	bulk, bound := 300, 30*time.Second
	if text := os.Getenv("TURNUS_BENCH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		bulk, bound = n, 500*time.Millisecond
	}
	const firewallHosts = 100
	sim := &firewalls{applied: map[string]bool{}}
	fl, err := fleet.Start(t.Context(), fleet.Config{Hosts: bulk + firewallHosts, Seed: 1, Handle: sim.handle})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := fl.Close(); err != nil {
			t.Error(err)
		}
	}()
	hosts := fl.Hosts()
	for i := range hosts {
		role := "other"
		if i >= bulk {
			role = "firewall"
		}
		hosts[i].Labels = map[string]string{"role": role}
	}
	f := node.Flags{Concurrency: 64, Login: node.UserLoginFlags{Keys: []string{fl.IdentityFile()}, Agent: "none"}, SSH: node.SSHFlags{ConnectTimeout: 20 * time.Second}}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	n, err := f.Reach(t.Context(), node.ByUserLogins, func() *inventory.Inventory { return nil }, a.Logger(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}()
	prepare := func(source string) *launch.Launch {
		opts := node.PlaybookOptions(n.Plugins, nil)
		p, err := playbooks.Parse("test.yaml", []byte(source), opts)
		if err != nil {
			t.Fatal(err)
		}
		l, err := launch.Prepare(p, hosts, launch.Options{Types: opts.Types})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	big, push := prepare(bulkPlaybook), prepare(pushPlaybook)
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	var mu sync.Mutex
	var first, lastWiden, firstNarrow time.Time
	events := func(e worker.Event) {
		if e.Job.Run != push.Run.ID {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch now := time.Now(); {
		case e.Kind == worker.StepStarted && first.IsZero():
			first = now
		case e.Kind == worker.StepStarted && e.Step == "narrow" && firstNarrow.IsZero():
			firstNarrow = now
		case e.Kind == worker.StepDone && e.Step == "widen":
			lastWiden = now
		}
	}
	if err := n.Work(&f, node.WorkOptions{Queue: q, Events: events}, a.Logger(false)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var driving sync.WaitGroup
	bulkCtx, endBulk := context.WithCancel(ctx)
	defer driving.Wait()
	defer endBulk()
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	driving.Go(func() {
		_, _ = queuetest.Drive(bulkCtx, q, big, queuetest.DriveOptions{OnRecord: func(core.Result) { fill() }})
	})
	<-full // every slot was taken by then, and most of the bulk run waits
	before, err := q.Status(ctx, big.Run.ID)
	if err != nil || before.InFlight == 0 {
		t.Fatalf("the bulk run is not under way: %+v, %v", before, err)
	}
	at := time.Now()
	status, err := queuetest.Drive(ctx, q, push, queuetest.DriveOptions{OnRecord: func(r core.Result) {
		if r.Outcome != core.Changed {
			t.Errorf("%s: %s: %s", r.Host, r.Outcome, r.Reason)
		}
	}})
	took := time.Since(at)
	if err != nil || status.Outcomes[core.Changed] != firewallHosts {
		t.Fatalf("%+v, %v", status.Outcomes, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if firstNarrow.Before(lastWiden) {
		t.Errorf("somebody was narrowed %v before the last was widened", lastWiden.Sub(firstNarrow))
	}
	start := first.Sub(at)
	if start > bound {
		t.Errorf("the push began after %v, expected %v at most", start, bound)
	}
	after, _ := q.Status(ctx, big.Run.ID)
	t.Logf("beside a bulk run of %d hosts, %d of them waiting: the first job began after %v, 100 hosts widened and narrowed in 2 × 3 waves after %v; %d jobs of the bulk run ended meanwhile",
		bulk, before.Pending, start.Round(time.Millisecond), took.Round(time.Millisecond), after.Outcomes[core.Changed]-before.Outcomes[core.Changed])
}
