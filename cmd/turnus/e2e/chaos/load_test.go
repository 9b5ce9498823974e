//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// project is the project that servers follow, with what the judge knows of it.
type project struct {
	hosts     []string
	entry     func(name string) string // more keys of a host's line in the inventory
	playbooks map[string]string
	windows   string

	recipes map[string]recipe
	group   map[string]string
	open    []span
}

const (
	workHosts, probeHosts = 16, 4
	windowNeeds           = 5 * time.Second
	suspension            = 3 * time.Second
)

// newProject makes the playbooks, and windows of two minutes in three, of which every other one
// loses its second minute to a freeze.
func newProject(start time.Time, length time.Duration) project {
	p := project{playbooks: map[string]string{}, recipes: map[string]recipe{}, group: map[string]string{}}
	for i := range workHosts {
		name := fmt.Sprintf("work-%02d", i)
		p.hosts, p.group[name] = append(p.hosts, name), fmt.Sprintf("pair-%d", i/2)
	}
	for i := range probeHosts {
		p.hosts = append(p.hosts, fmt.Sprintf("probe-%d", i))
	}
	p.entry = func(name string) string {
		if g := p.group[name]; g != "" {
			return ", ha_group: " + g + ", labels: {part: work}"
		}
		return ", labels: {part: probe}"
	}
	playbook := func(kind, strategy string, r recipe, steps ...string) {
		part := "work"
		if kind == "pulse" || kind == "timed" || kind == "fire" {
			part = "probe"
		}
		p.recipes[kind] = r
		p.playbooks[kind] = fmt.Sprintf("playbook: %s\ntargets: host.labels.part == '%s'\n%ssteps:\n  - %s\n", kind, part, strategy, strings.Join(steps, "\n  - "))
	}
	again := func(as string, seconds float64, suspend int) string {
		return fmt.Sprintf(`{name: %s, uses: chaos.work, with: {run: "${{ run.id }}", as: %s, seconds: %.2f, park: %d}}`, as, as, seconds, suspend)
	}
	once := func(as string, seconds float64, code int) string {
		return fmt.Sprintf(`{name: %s, uses: command, with: {run: "/mnt/oracle ${{ run.id }} %s %.2f %d"}}`, as, as, seconds, code)
	}
	playbook("pulse", "", recipe{steps: []string{"p"}}, again("p", 0.05, 0))
	playbook("fire", "vars: {mark: none}\n", recipe{steps: []string{"p"}}, `{name: p, uses: chaos.work, with: {run: "${{ run.id }}", as: "${{ vars.mark }}", seconds: 0.05, park: 0}}`)
	playbook("bulk", "strategy: {max_in_flight: 8}\n", recipe{steps: []string{"a", "b", "c"}}, again("a", 0.4, 0), again("b", 0.6, 0), again("c", 0.3, 0))
	playbook("once", "", recipe{steps: []string{"a", "b"}, once: true}, once("a", 0.5, 0), once("b", 1.2, 0))
	playbook("solo", "", recipe{steps: []string{"a"}, once: true}, once("a", 3, 0))
	playbook("long", "", recipe{steps: []string{"a"}, once: true}, once("a", 10, 0)) // outlives its worker's lease
	playbook("fails", "", recipe{steps: []string{"a", "b"}, once: true, fails: "b"}, once("a", 0.3, 0), once("b", 0.3, 3))
	playbook("timed", "", recipe{steps: []string{"a", "b"}, suspended: suspension}, again("a", 0.05, 0), again("b", 0.05, int(suspension.Seconds())))
	playbook("cancel", "strategy: {max_in_flight: 4}\n", recipe{steps: []string{"a", "b"}}, again("a", 0.7, 0), again("b", 0.7, 0))
	playbook("eyes", "", recipe{steps: []string{"a"}, once: true}, once("a", 0.4, 0))
	playbook("window", "window: slots\n", recipe{steps: []string{"a"}, window: true, needs: windowNeeds, haGroup: true},
		fmt.Sprintf(`{name: a, uses: chaos.flash, needs: %s, with: {run: "${{ run.id }}", as: a, seconds: 1.5}}`, windowNeeds))
	const form = "2006-01-02T15:04"
	var allowed, denied, freezes strings.Builder
	n := 0
	for at := start.UTC().Truncate(time.Hour); at.Before(start.Add(length + 15*time.Minute)); at = at.Add(3 * time.Minute) {
		if at.Before(start.Add(-5 * time.Minute)) {
			continue
		}
		w := span{sinceBoot(at), sinceBoot(at.Add(2 * time.Minute))}
		fmt.Fprintf(&allowed, "      - {id: w%d, at: %q, to: %q}\n", n, at.Format(form), at.Add(2*time.Minute).Format(form))
		if n%2 == 0 {
			w.end = sinceBoot(at.Add(time.Minute))
			fmt.Fprintf(&denied, "      - {use: freeze/f%d}\n", n)
			fmt.Fprintf(&freezes, "  f%d: {timezone: UTC, from: %q, to: %q}\n", n, at.Add(time.Minute).Format(form), at.Add(2*time.Minute).Format(form))
		}
		p.open = append(p.open, w)
		n++
	}
	p.windows = "window_sets:\n  slots:\n    timezone: UTC\n    allow:\n" + allowed.String() + "    deny:\n" + denied.String() + "freezes:\n" + freezes.String()
	return p
}

// now is the time since boot, by the clock that hosts note.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has it
	}
	return time.Duration(t.Nano())
}

// sinceBoot is a wall clock time by that clock.
func sinceBoot(t time.Time) time.Duration { return now() + time.Until(t) }

// load asks for runs, and follows them.
type load struct {
	t        *testing.T
	c        *cluster
	approver string // a second token
	quit     chan struct{}
	wg       sync.WaitGroup

	mu       sync.Mutex
	runs     map[string]*accepted
	outcomes map[string]outcome // by run and host
	refused  []string
}

// newLoad waits until the servers have the project.
func newLoad(c *cluster) *load {
	c.t.Helper()
	l := &load{t: c.t, c: c, quit: make(chan struct{}), runs: map[string]*accepted{}, outcomes: map[string]outcome{}}
	admin := c.client(0, c.token, true)
	defer admin.Close()
	until(c.t, "the project", func() bool {
		d, err := admin.Definitions(context.Background())
		return err == nil && d.Playbooks > 0
	})
	l.approver = c.secondPerson()
	return l
}

// begin starts everybody who asks for runs: the seed decides which hosts, answers decide when.
func (l *load) begin(seed uint64, full bool) {
	type source struct {
		kind         string
		every, hosts int // seconds between two; hosts of a run, 0 is all
	}
	sources := []source{{"pulse", 1, 1}, {"bulk", 5, 0}, {"once", 3, 3}, {"solo", 3, 1}, {"fails", 6, 2}, {"timed", 4, 1}, {"cancel", 8, 0}, {"eyes", 9, 2}, {"long", 6, 1}}
	if full { // a short plan has no time for windows
		sources = append(sources, source{"window", 5, 4})
	}
	for n, s := range sources {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		l.wg.Go(func() {
			tick := time.NewTicker(time.Duration(s.every) * time.Second)
			defer tick.Stop()
			for i := 0; ; i++ {
				var limit []string
				for _, h := range r.Perm(workHosts)[:s.hosts] {
					limit = append(limit, fmt.Sprintf("work-%02d", h))
				}
				if s.kind == "pulse" || s.kind == "timed" {
					limit = []string{fmt.Sprintf("probe-%d", i%probeHosts)}
				}
				l.wg.Go(func() { l.ask(s.kind, fmt.Sprintf("%s-%d", s.kind, i), limit) })
				select {
				case <-l.quit:
					return
				case <-tick.C:
				}
			}
		})
	}
	l.wg.Go(l.follow)
}

// ask asks servers in turn until one accepts the run, and does what its kind needs of a person.
func (l *load) ask(kind, key string, limit []string) {
	asked := now()
	var run api.Run
	ok := l.insist(l.c.token, func(ctx context.Context, c *client.Client) (err error) {
		run, err = c.CreateRun(ctx, key, api.NewRun{Playbook: kind, LaunchOptions: api.LaunchOptions{Limit: limit}, FourEyes: kind == "eyes"})
		return err
	})
	if !ok {
		return
	}
	a := &accepted{id: run.ID, kind: kind, asked: asked, accepted: now()}
	l.mu.Lock()
	l.runs[run.ID] = a
	l.mu.Unlock()
	switch kind {
	case "eyes":
		pass(2 * time.Second)
		l.set(func() { a.approved = now() })
		l.insist(l.approver, func(ctx context.Context, c *client.Client) error {
			_, err := c.ApproveRun(ctx, run.ID, api.Approve{Approve: true, Reason: "looks well"})
			if errors.Is(err, core.ErrConflict) { // an answer was lost, and it may be approved
				if after, failed := c.Run(ctx, run.ID); failed != nil || after.Phase != api.Approval {
					err = failed
				}
			}
			return err
		})
	case "cancel":
		pass(2 * time.Second)
		l.cancel(a)
	}
}

func (l *load) cancel(a *accepted) {
	l.set(func() { a.cancel = now() })
	if l.insist(l.c.token, func(ctx context.Context, c *client.Client) error {
		_, err := c.CancelRun(ctx, a.id, "the suite's operator")
		if errors.Is(err, core.ErrConflict) { // it has ended
			err = nil
		}
		return err
	}) {
		l.set(func() { a.cancelled = now() })
	}
}

func (l *load) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// insist asks servers in turn until one answers. It reports false when one refuses.
func (l *load) insist(token string, call func(context.Context, *client.Client) error) bool {
	for i := 0; ; i++ {
		c := l.c.client(i%l.c.shape.servers, token, false)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := call(ctx, c)
		cancel()
		c.Close()
		switch {
		case err == nil:
			return true
		case errors.Is(err, core.ErrUnavailable), errors.Is(err, core.ErrUnknown), errors.Is(err, core.ErrNotFound), errors.Is(err, context.DeadlineExceeded):
		default:
			l.set(func() { l.refused = append(l.refused, err.Error()) })
			return false
		}
		pass(200 * time.Millisecond)
	}
}

// follow checks all runs that have not ended, until all have and the load has ended.
func (l *load) follow() {
	for i := 0; ; i++ {
		l.mu.Lock()
		var list []*accepted
		for _, a := range l.runs {
			if !a.over {
				list = append(list, a)
			}
		}
		l.mu.Unlock()
		slices.SortFunc(list, func(a, b *accepted) int { return strings.Compare(a.id, b.id) })
		c := l.c.client(i%l.c.shape.servers, l.c.token, true)
		for _, a := range list {
			if !l.poll(c, a) {
				break // another server may answer
			}
		}
		c.Close()
		select {
		case <-l.quit:
			return
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// poll notes what the ledger has of a run. It reports false when the server does not answer.
func (l *load) poll(c *client.Client, a *accepted) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	run, err := c.Run(ctx, a.id)
	if err != nil {
		return false
	}
	jobs, err := c.Jobs(ctx, a.id, client.JobFilter{State: "done"}, client.Page{Limit: 100})
	if err != nil {
		return false
	}
	l.mu.Lock()
	for _, j := range jobs.Items {
		id := j.Run + " on " + j.Host
		if _, known := l.outcomes[id]; !known && j.Outcome != "" {
			l.outcomes[id] = outcome{run: j.Run, host: j.Host, outcome: j.Outcome, reason: j.Reason, seen: now()}
		}
	}
	a.over = !run.Ended.IsZero() && len(jobs.Items) == run.Total
	a.state = fmt.Sprintf("phase %s (%s), %d of %d jobs have an outcome", run.Phase, run.Reason, len(jobs.Items), run.Total)
	paused := run.Phase == api.Paused && a.cancel == 0
	l.mu.Unlock()
	if paused { // Redis was emptied, and a person has to decide
		l.cancel(a)
	}
	return true
}

// drained waits until every run has ended, and reports false when that takes longer than any fault
// may cost.
func (l *load) drained(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := 0
		l.set(func() {
			for _, a := range l.runs {
				if !a.over {
					left++
				}
			}
		})
		if left == 0 || time.Now().After(deadline) {
			return left == 0
		}
		pass(200 * time.Millisecond)
	}
}

// finish waits for the remaining runs, once all faults have ended.
func (l *load) finish() {
	l.quit = make(chan struct{})
	l.wg.Go(l.follow)
	l.drained(patience)
	close(l.quit)
	l.wg.Wait()
}
