//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// cutBinary is turnus that kills itself at a commit of its ledger.
var cutBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(base, "cut")
	build := exec.Command("go", "build", "-o", path, "./testdata/cut")
	build.Env = testparts.Shipped()
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the program that cuts: %w\n%s", err, out)
	}
	return path, err
})

const cutHosts = 4

// cutting is one turnus up that dies at one commit, and another one that continues with its data.
type cutting struct {
	*lab
	dir string // of this cut: project, data and traces
	point
	run  string // as accepted
	once bool   // the schedule was accepted
}

// point is where it dies.
type point struct {
	at    int    // this commit; 0: it does not die
	in    string // the commit is counted in this function of the ledger; empty: in all
	after bool   // the commit, not before it
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return strings.TrimSpace(fmt.Sprintf("cut %s commit %d %s", when, p.at, p.in))
}

func (l *lab) cutting(t *testing.T, at point) *cutting {
	t.Helper()
	c := &cutting{lab: &lab{t: t, fleet: l.fleet, env: slices.Clone(l.env), trace: true}, point: at}
	c.dir = filepath.Join(l.dir, strings.NewReplacer(" ", "-", "(*", "", ")", "").Replace(at.String()))
	c.lab.dir = c.dir
	if err := os.MkdirAll(filepath.Join(c.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var hosts strings.Builder
	for i := range cutHosts {
		fmt.Fprintf(&hosts, "  h%d: {address: 127.0.0.1}\n", i)
	}
	c.file("ops/inventory.yaml", "hosts:\n"+hosts.String())
	c.file("ops/playbooks/all.yaml", fmt.Sprintf(`playbook: all
targets: true
strategy: {waves: [1, 100%%]}
steps:
  - {name: change, uses: lab.hold, notify: [follow], with: {file: %[1]s/change, ms: 20}}
  - {name: second, uses: lab.hold, notify: [follow, last], with: {file: %[1]s/second, ms: 20}}
handlers:
  - {name: follow, uses: lab.hold, with: {file: %[1]s/follow, ms: 20}}
  - {name: last, uses: lab.hold, with: {file: %[1]s/last, ms: 20}}
`, c.dir))
	c.file("ops/playbooks/once.yaml", fmt.Sprintf("playbook: once\ntargets: true\nsteps:\n  - {uses: lab.trace, with: {file: %s/once, ms: 20}}\n", c.dir))
	return c
}

// up starts the service, as one that dies if dies is set. It returns nil if it died before it
// listened.
func (c *cutting) up(dies bool) (*process, *client.Client) {
	c.t.Helper()
	args := slices.Concat([]string{"up", "--data", filepath.Join(c.dir, "data"), "--project", filepath.Join(c.dir, "ops"), "--listen", "127.0.0.1:0", "--context", ""}, c.pluginFlags())
	env := c.env
	if dies {
		cut, err := cutBinary()
		if err != nil {
			c.t.Fatal(err)
		}
		c.under = []string{cut}
		c.env = append(slices.Clone(env), fmt.Sprint("CUT_AT=", c.at), "CUT_IN="+c.in, "CUT_COUNT="+filepath.Join(c.dir, "commits"))
		if c.after {
			c.env = append(c.env, "CUT_AFTER=1")
		}
	}
	p := c.start(args...)
	c.under, c.env = nil, env
	until(c.t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	token, err := os.ReadFile(filepath.Join(c.dir, "data", "admin.token"))
	if !p.running() || err != nil {
		if !dies {
			c.t.Fatalf("%s: the service does not start again: %s", c.point, p.err)
		}
		p.kill()
		return nil, nil
	}
	ask, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token))})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(ask.Close)
	return p, ask
}

// step asks for what is not there yet, and reports whether all has ended. A run that is held,
// because nobody knows what its hosts saw, is cancelled. An error is of a service that has died.
func (c *cutting) step(ask *client.Client) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !c.once {
		if _, err := ask.Schedule(ctx, "soon"); errors.Is(err, core.ErrNotFound) {
			_, err = ask.PutSchedule(ctx, "soon", "", api.NewSchedule{Playbook: "once", At: time.Now().Add(2 * time.Second).Truncate(time.Second)})
			if err != nil {
				return false, err
			}
		} else if err != nil {
			return false, err
		}
		c.once = true
	}
	run, err := ask.CreateRun(ctx, "k", api.NewRun{Playbook: "all"})
	if err != nil {
		return false, err
	}
	if c.run != "" && run.ID != c.run {
		c.t.Errorf("%s: run %s was accepted, and now it is %s", c.point, c.run, run.ID)
	}
	c.run = run.ID
	if run, err = ask.Run(ctx, run.ID); err != nil {
		return false, err
	}
	if run.Phase == api.Paused {
		_, err := ask.CancelRun(ctx, run.ID, "a job of it may have begun")
		return false, err
	}
	fired, err := ask.Runs(ctx, client.RunFilter{Playbook: "once"}, client.Page{})
	if err != nil {
		return false, err
	}
	over := func(r api.Run) bool { return r.Ended != (time.Time{}) }
	return over(run) && len(fired.Items) > 0 && !slices.ContainsFunc(fired.Items, func(r api.Run) bool { return !over(r) }), nil
}

// cut runs the service until it dies or all has ended, starts it again, and judges what hosts saw.
func (c *cutting) cut() {
	c.t.Helper()
	if p, ask := c.up(true); p != nil {
		until(c.t, "the service to die, or all to end", func() bool {
			ended, _ := c.step(ask)
			return ended || !p.running()
		})
		p.kill()
	}
	p, ask := c.up(false)
	var last error
	until(c.t, "all to end", func() (ended bool) { ended, last = c.step(ask); return ended })
	if last != nil {
		c.t.Fatal(last)
	}
	ctx := context.Background()
	list := func(run string) map[string]core.Outcome {
		jobs, err := ask.Jobs(ctx, run, client.JobFilter{}, client.Page{})
		if err != nil {
			c.t.Fatal(err)
		}
		out := map[string]core.Outcome{}
		for _, j := range jobs.Items {
			out[j.Host] = j.Outcome
		}
		return out
	}
	pending, err := ask.Handlers(ctx, client.HandlerFilter{}, client.Page{})
	if err != nil {
		c.t.Fatal(err)
	}
	left := map[string][]string{}
	for _, h := range pending.Items {
		left[h.Host] = append(left[h.Host], h.Handler)
	}
	fired, err := ask.Runs(ctx, client.RunFilter{Playbook: "once"}, client.Page{})
	if err != nil {
		c.t.Fatal(err)
	}
	problems := cutProblems(list(c.run), c.seenSteps(), left)
	if len(fired.Items) != 1 {
		problems = append(problems, fmt.Sprintf("the schedule launched %d runs, expected one", len(fired.Items)))
	} else {
		for host, outcome := range list(fired.Items[0].ID) {
			if outcome != core.Changed {
				problems = append(problems, fmt.Sprintf("%s of the schedule's run: %s", host, outcome))
			}
		}
	}
	for _, problem := range problems {
		c.t.Errorf("%s: %s", c.point, problem)
	}
	p.kill()
}

// commits are the functions of the ledger that committed until the service died, in this order.
func (c *cutting) commits() []string {
	b, err := os.ReadFile(filepath.Join(c.dir, "commits"))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// notifies are the handlers that the steps of the playbook notify.
var notifies = map[string][]string{"change": {"follow"}, "second": {"follow", "last"}}

// seenSteps returns the steps and handlers that each host saw, in the order in which they began.
func (c *cutting) seenSteps() map[string][]string {
	type one struct {
		name string
		*execution
	}
	var all []one
	for _, name := range []string{"change", "second", "follow", "last"} {
		for _, e := range executions(c.t, filepath.Join(c.dir, name)) {
			all = append(all, one{name, e})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return a.begin.Compare(b.begin) })
	seen := map[string][]string{}
	for _, e := range all {
		seen[e.host] = append(seen[e.host], e.name)
	}
	return seen
}

// cutProblems compares what is recorded with what hosts saw: each step once, or the host is lost;
// and a handler runs after the last change that notifies it, or is pending.
func cutProblems(outcomes map[string]core.Outcome, seen map[string][]string, pending map[string][]string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(outcomes) != cutHosts {
		bad("%d hosts have an outcome, expected %d", len(outcomes), cutHosts)
	}
	for host, outcome := range outcomes {
		saw := seen[host]
		switch {
		case len(slices.Compact(slices.Sorted(slices.Values(saw)))) < len(saw):
			bad("%s saw a step or a handler twice: %v", host, saw)
		case outcome == core.Changed && !slices.Equal(saw, []string{"change", "second", "follow", "last"}):
			bad("%s is changed, and saw %v", host, saw)
		case outcome == core.Cancelled && len(saw) > 0:
			bad("%s is cancelled, and saw %v", host, saw)
		case outcome != core.Changed && outcome != core.Cancelled && outcome != core.Lost:
			bad("%s is %q", host, outcome)
		}
		for step, handlers := range notifies {
			changed := slices.Index(saw, step)
			for _, handler := range handlers {
				if changed >= 0 && slices.Index(saw, handler) < changed && !slices.Contains(pending[host], handler) {
					bad("%s was changed by %s, and handler %s is forgotten: %v", host, step, handler, saw)
				}
			}
		}
	}
	return problems
}

func TestLabCutProblemsAreNoticed(t *testing.T) {
	all := func(o core.Outcome) map[string]core.Outcome {
		return map[string]core.Outcome{"a": o, "b": core.Cancelled, "c": core.Cancelled, "d": core.Cancelled}
	}
	for _, tc := range []struct {
		why      string
		outcomes map[string]core.Outcome
		saw      string // host a
		pending  []string
		bad      bool
	}{
		{"well", all(core.Changed), "change second follow last", nil, false},
		{"lost between step and handlers", all(core.Lost), "change second", []string{"follow", "last"}, false},
		{"lost between the steps", all(core.Lost), "change", []string{"follow"}, false},
		{"lost between the handlers", all(core.Lost), "change second follow", []string{"last"}, false},
		{"lost before the step", all(core.Lost), "", nil, false},
		{"twice", all(core.Changed), "change change second follow last", nil, true},
		{"never", all(core.Changed), "", nil, true},
		{"cancelled, and it ran", all(core.Cancelled), "change second follow last", nil, true},
		{"a handler is forgotten", all(core.Lost), "change", nil, true},
		{"the second handler is forgotten", all(core.Lost), "change second follow", nil, true},
		{"a handler before the last change", all(core.Lost), "change follow second", []string{"last"}, true},
		{"a host without an outcome", map[string]core.Outcome{"a": core.Changed}, "change second follow last", nil, true},
	} {
		got := cutProblems(tc.outcomes, map[string][]string{"a": strings.Fields(tc.saw)}, map[string][]string{"a": tc.pending})
		if len(got) > 0 != tc.bad {
			t.Errorf("%s: %q", tc.why, got)
		}
	}
}

// cutFor bounds the lab: after each function of the ledger was cut at its first commit, it takes a
// part of all commits, in an order that changes.
const cutFor = 40 * time.Second

// turnus up dies at each commit of its ledger, before and after it. After the next start each run
// ends, and hosts saw each step once or are lost. Each of two handlers follows the last change, and
// the schedule triggered once. No list names the commits, which are those that SQLite makes. A
// function of the ledger that makes none here fails the test.
func TestLabUpKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	whole := l.cutting(t, point{})
	whole.cut()
	commits := whole.commits()
	functions := slices.Compact(slices.Sorted(slices.Values(commits)))
	for _, problem := range uncut(transactions(t), functions) {
		t.Error(problem)
	}
	var points []point
	for _, name := range functions {
		points = append(points, point{1, name, false}, point{1, name, true})
	}
	always := len(points)
	for _, i := range rand.Perm(2 * len(commits)) {
		points = append(points, point{1 + i/2, "", i%2 == 1})
	}
	cuts := make(chan int, len(points))
	for i := range points {
		cuts <- i
	}
	close(cuts)
	began, done := time.Now(), atomic.Int64{}
	t.Cleanup(func() {
		t.Logf("%d of %d cuts at %d commits of %v in %v", done.Load(), len(points), len(commits), functions, time.Since(began).Round(time.Second))
	})
	for range 4 { // a cut waits most of the time: for starts, and for the second of its schedule
		t.Run("cuts", func(t *testing.T) {
			t.Parallel()
			for i := range cuts {
				if i >= always && time.Since(began) > cutFor {
					return
				}
				l.cutting(t, points[i]).cut()
				done.Add(1)
			}
		})
	}
}
