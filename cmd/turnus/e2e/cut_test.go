//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
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
	*series  // what else it does; nil: nothing
	receiver *receiver
	runs     map[string]string // by key, as accepted
	known    map[string]bool   // keys that this life was asked for
	asked    time.Time         // the last step
	once     bool              // the schedule was accepted
	weighed  bool              // so was the weight of a run
}

// point is where it dies.
type point struct {
	again bool   // in its second life: the first is killed while hosts are at work
	at    int    // this commit; 0: it does not die
	in    string // the commit is counted in this function of the ledger; empty: in all
	after bool   // the commit, not before it
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	if p.again {
		when = "recovery " + when
	}
	return strings.TrimSpace(fmt.Sprintf("cut %s commit %d %s", when, p.at, p.in))
}

// folder is the name of a folder for the cut.
func (p point) folder() string {
	return strings.NewReplacer(" ", "-", "(*", "", ")", "").Replace(p.String())
}

// cutAt has the next process that is started die at a point. It writes the functions of the ledger
// that commit until then to the file commits.
func (l *lab) cutAt(p point) {
	l.t.Helper()
	cut, err := cutBinary()
	if err != nil {
		l.t.Fatal(err)
	}
	l.under = []string{cut}
	l.env = append(slices.Clone(l.env), fmt.Sprint("CUT_AT=", p.at), "CUT_IN="+p.in, "CUT_COUNT="+filepath.Join(l.dir, "commits"))
	if p.after {
		l.env = append(l.env, "CUT_AFTER=1")
	}
}

func (l *lab) cutting(t *testing.T, at point) *cutting {
	t.Helper()
	c := &cutting{lab: &lab{t: t, fleet: l.fleet, env: append(slices.Clone(l.env), "GOGC=400"), trace: true}, point: at, receiver: newReceiver(t), runs: map[string]string{}}
	c.dir = filepath.Join(l.dir, at.folder())
	c.lab.dir = c.dir
	if err := os.MkdirAll(filepath.Join(c.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var hosts strings.Builder
	for i := range cutHosts {
		ms := 20
		if at.again && i > 0 { // the second wave is at work until the service is killed
			ms = 600_000
		}
		fmt.Fprintf(&hosts, "  h%d: {address: 127.0.0.1, vars: {ms: %d}}\n", i, ms)
	}
	c.file("ops/inventory.yaml", "hosts:\n"+hosts.String())
	c.file("ops/playbooks/all.yaml", fmt.Sprintf(`playbook: all
targets: true
strategy: {waves: [1, 100%%]}
steps:
  - {name: change, uses: lab.hold, notify: [follow], with: {file: %[1]s/change, ms: "${{ host.vars.ms }}"}}
  - {name: second, uses: lab.hold, notify: [follow, last], with: {file: %[1]s/second, ms: 20}}
handlers:
  - {name: follow, uses: lab.hold, with: {file: %[1]s/follow, ms: 20}}
  - {name: last, uses: lab.hold, with: {file: %[1]s/last, ms: 20}}
`, c.dir))
	c.file("ops/playbooks/once.yaml", fmt.Sprintf(`playbook: once
targets: true
steps:
  - {uses: lab.trace, with: {file: %[1]s/once, ms: 20}}
  - {name: single, once: true, uses: lab.trace, with: {file: %[1]s/single, ms: 20}}
`, c.dir))
	c.file("ops/playbooks/short.yaml", fmt.Sprintf("playbook: short\ntargets: true\nsteps:\n  - {uses: lab.trace, with: {file: %s/short, ms: 20}}\n", c.dir))
	return c
}

// up starts the service, as one that dies if dies is set. It returns nil if it died before it
// listened.
func (c *cutting) up(dies bool) (*process, *client.Client) {
	c.t.Helper()
	args := slices.Concat([]string{"up", "--data", filepath.Join(c.dir, "data"), "--project", filepath.Join(c.dir, "ops"), "--listen", "127.0.0.1:0", "--context", "", "--notify", c.receiver.URL}, c.pluginFlags())
	env := c.env
	if dies {
		c.cutAt(c.point)
	}
	if c.series != nil {
		args = append(args, c.serial(dies)...)
	}
	c.known = map[string]bool{}
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

// create asks for a run, once in each life of the service, and returns what it is now.
func (c *cutting) create(ctx context.Context, ask *client.Client, key string, r api.NewRun) (api.Run, error) {
	if !c.known[key] {
		run, err := ask.CreateRun(ctx, key, r)
		if err != nil {
			return run, err
		}
		if had := c.runs[key]; had != "" && run.ID != had {
			c.t.Errorf("%s: run %s was accepted, and now it is %s", c.point, had, run.ID)
		}
		c.runs[key], c.known[key] = run.ID, true
	}
	return ask.Run(ctx, c.runs[key])
}

func over(r api.Run) bool { return r.Ended != (time.Time{}) }

// stepEvery is how often what there is is read: each reading costs the service as much as a job.
const stepEvery = 100 * time.Millisecond

// step asks for what is not there yet, one after the other, and reports whether all has ended. It
// cancels a run that is paused because nobody knows what its hosts saw. An error is of a service
// that has died.
func (c *cutting) step(ask *client.Client) (ended bool, err error) {
	if time.Since(c.asked) < stepEvery {
		return false, nil
	}
	c.asked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if c.series != nil {
		if done, err := c.unelect(ctx, ask); err != nil || !done {
			return false, err
		}
	}
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
	notices, err := ask.Notifications(ctx, client.NotificationFilter{}, client.Page{})
	if err != nil {
		return false, err
	}
	if done, err := c.people(ctx, ask, notices.Items); err != nil || !done {
		return false, err
	}
	run, err := c.create(ctx, ask, "all", api.NewRun{Playbook: "all"})
	if err != nil {
		return false, err
	}
	if run.Phase == api.Paused {
		if c.again && run.Live == nil { // all commits before the queue has it again must be cut
			return false, nil
		}
		_, err := ask.CancelRun(ctx, run.ID, "a job of it may have begun")
		return false, err
	}
	fired, err := ask.Runs(ctx, client.RunFilter{Playbook: "once"}, client.Page{})
	if err != nil {
		return false, err
	}
	waits := func(n api.Notification) bool { return n.State == string(ledger.NotificationWaiting) }
	return over(run) && len(fired.Items) > 0 && !slices.ContainsFunc(fired.Items, func(r api.Run) bool { return !over(r) }) &&
		!slices.ContainsFunc(notices.Items, waits), nil
}

// killedAtWork runs a service until its second wave is at work, and kills it. Each call of what it
// returns puts the data of that moment in place again, for a second life.
func (l *lab) killedAtWork(t *testing.T) func(*testing.T, point) *cutting {
	t.Helper()
	first := l.cutting(t, point{again: true})
	p, ask := first.up(false)
	until(t, "the second wave to be at work", func() bool {
		_, _ = first.step(ask)
		return len(executions(t, filepath.Join(first.dir, "change"))) > 1
	})
	p.kill()
	kept := first.dir + "-kept"
	copyFolder(t, first.dir, kept)
	came := first.receiver.all()
	return func(t *testing.T, at point) *cutting {
		t.Helper()
		copyFolder(t, kept, first.dir)
		c := *first
		c.lab = &lab{t: t, dir: first.dir, fleet: l.fleet, env: first.env, trace: true}
		c.point, c.receiver, c.runs = at, newReceiver(t), maps.Clone(first.runs)
		for id, bodies := range came {
			c.receiver.came[id] = slices.Clone(bodies)
		}
		return &c
	}
}

// copyFolder puts a copy of a folder, with all modes, in the place of another.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// die runs the service until it dies or all has ended, and reports whether it died.
func (c *cutting) die() bool {
	c.t.Helper()
	p, ask := c.up(true)
	if p == nil {
		return true
	}
	until(c.t, "the service to die, or all to end", func() bool {
		ended, _ := c.step(ask)
		return ended || !p.running()
	})
	died := !p.running()
	p.kill()
	return died
}

// cut runs the service until it dies or all has ended, starts it again, and judges what hosts saw.
func (c *cutting) cut() {
	c.t.Helper()
	if died := c.die(); c.series != nil {
		for died && len(c.next) > 0 {
			c.point, c.next = c.next[0], c.next[1:]
			died = c.die()
		}
		if !died {
			c.t.Errorf("%s: all has ended before that", c.point)
		}
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
	problems, err := c.peopleProblems(ctx, ask)
	if err != nil {
		c.t.Fatal(err)
	}
	problems = append(problems, cutProblems(list(c.runs["all"]), c.seenSteps(), left)...)
	var callers []string
	for _, e := range executions(c.t, filepath.Join(c.dir, "single")) {
		callers = append(callers, e.host)
	}
	if len(slices.Compact(callers)) != 1 {
		problems = append(problems, fmt.Sprintf("%v called the step with once, expected one host", callers))
	}
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

// commits are the functions of the ledger that committed until the process died, in this order.
func (l *lab) commits() []string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, "commits"))
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// recovery are the functions of the ledger that committed in a second life, from its first claim
// until the run whose hosts were at work was cancelled.
func (c *cutting) recovery() []string {
	commits := c.commits()
	from, to := slices.Index(commits, "(*Ledger).claim"), slices.Index(commits, "(*Ledger).CancelAll")
	if from < 0 || to < from {
		c.t.Fatalf("%s: no run is claimed and then cancelled: %v", c.point, commits)
	}
	return slices.Compact(slices.Sorted(slices.Values(commits[from : to+1])))
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

// byChance is how many of the other commits are cut each time. Which they are changes, and so does
// what is at work beside them.
const byChance = 4

// recordsOutside are the functions that record what happened outside of the ledger: on a host, at a
// receiver, among the objects of large outputs. Before their commit that has happened, and the
// ledger does not have it. Before others the ledger and the rest of the world are as after the
// commit before them, which is cut also.
var recordsOutside = []string{
	"(*Ledger).recordGroup", "(*Ledger).KeepOnce", "(*Ledger).finishNotification",
	"(*Ledger).removeRows", "(*Ledger).reencryptObject", "(*Ledger).removeReplaced",
}

// turnus up dies behind the first commit of each function of its ledger, behind each change of a
// run by people, before it records what happened outside, and in its second life behind each commit
// until it has recovered. After the next start each run ends, and hosts saw each step once or are
// lost. Each of two handlers follows the last change, one host called the step with once, and the
// schedule triggered once. People are notified, and what they did is done once. No list names these
// commits, which are those that SQLite makes. Beside them one service dies in each of its lives,
// behind rarer commits in turn. A function of the ledger whose commit is not cut fails the test.
func TestLabUpKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	whole := l.cutting(t, point{})
	whole.cut()
	commits := whole.commits()
	functions := slices.Compact(slices.Sorted(slices.Values(commits)))
	secondLife := l.killedAtWork(t)
	again := secondLife(t, point{again: true})
	again.cut()
	recovery := again.recovery()
	for _, problem := range uncut(transactions(t), slices.Concat(functions, recovery, inTurn(), byCommands())) {
		t.Error(problem)
	}
	var points, others []point
	had := map[string]int{}
	for _, name := range commits {
		had[name]++
		before, after := point{at: had[name], in: name}, point{at: had[name], in: name, after: true}
		first, byPeople := had[name] == 1, name == "(*Ledger).change"
		for p, always := range map[point]bool{after: first || byPeople, before: first && slices.Contains(recordsOutside, name)} {
			if always {
				points = append(points, p)
			} else {
				others = append(others, p)
			}
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	chosen := min(byChance, len(others))
	points, others = append(points, others[:chosen]...), others[chosen:]
	cuts := make(chan int, len(points))
	for i := range points {
		cuts <- i
	}
	close(cuts)
	began := time.Now()
	t.Run("in turn", func(t *testing.T) {
		t.Parallel()
		l.inTurn(t).cut()
	})
	t.Cleanup(func() {
		made := len(points) + len(inTurn()) + len(recovery)
		t.Logf("%d of %d cuts at %d commits of %v, and while it recovers of %v, in %v", made, made+len(others), len(commits), functions, recovery, time.Since(began).Round(time.Second))
	})
	for worker := range 4 { // a cut waits most of the time: for starts, and for the second of its schedule
		t.Run("cuts", func(t *testing.T) {
			t.Parallel()
			for _, name := range recovery {
				if worker == 0 { // in one folder, one after the other
					secondLife(t, point{again: true, at: 1, in: name, after: true}).cut()
				}
			}
			for i := range cuts {
				l.cutting(t, points[i]).cut()
			}
		})
	}
}
