package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// proofPace is a slow node's, so that hours of fake time are few events.
var proofPace = pace{beat: 20 * time.Second, ttl: time.Minute, poll: 5 * time.Minute}

// proof is one scenario under way.
type proof struct {
	t       *testing.T
	w       *proofWorld
	r       *rand.Rand
	q       *memory.Queue
	plugins *fakePlugins
	admit   func(stepAdmission) (admission.Answer, error)
	launch  *launch.Launch
	nodes   []*proofNode
	opened  int
	posted  []string
	results map[int][]core.Result
	bad     []string
}

type proofNode struct {
	line   *line
	w      *Worker
	stop   context.CancelFunc
	done   chan error
	killed bool // or drained, perhaps on a line that is cut: it need not end cleanly
}

// runProof plays a scenario in a bubble of fake time and returns what went wrong. admit is the
// worker's admission, or a defective one.
func runProof(t *testing.T, seed uint64, admit func(stepAdmission) (admission.Answer, error), careless bool) (bad []string, seen map[string]int) {
	t.Helper()
	w := newWorld(seed)
	<-time.After(time.Until(w.start.Add(-w.skew))) // nothing else lives in the bubble yet
	p := &proof{
		t: t, w: w, r: rand.New(rand.NewPCG(seed, 1)), admit: admit,
		q: memory.New(memory.Options{SessionTTL: proofPace.ttl}), results: map[int][]core.Result{},
		plugins: &fakePlugins{w: w, careless: careless, oracle: newOracle(w.start), dice: rand.New(rand.NewPCG(seed, 2)), calls: map[string]int{}, busy: map[string]int{}, seen: map[string]int{}},
	}
	defer p.q.Shutdown()
	p.play()
	bad = append(p.bad, p.plugins.bad...)
	if len(bad) > 0 {
		bad = append(bad, fmt.Sprintf("seed %d, start %s, skew %v\n%s", seed, w.start.Format(time.RFC3339), w.skew, w.source()))
		bad = append(bad, p.posted...)
	}
	return bad, p.plugins.seen
}

func (p *proof) now() time.Time { return time.Now().Add(p.w.skew) }

func (p *proof) failf(format string, args ...any) {
	p.bad = append(p.bad, fmt.Sprintf(format, args...))
}

func (p *proof) calendarOf(text string) *admission.Calendar {
	b, err := admission.NewCalendar([]windows.Document{{File: "w.yaml", Data: []byte(text)}})
	if err != nil {
		p.t.Fatalf("seed %d: %v\n%s", p.w.seed, err, text)
	}
	return b
}

// post puts the world's definitions on the board, and at times signals the waiting jobs.
func (p *proof) post(wake bool) {
	text := p.w.defs.yaml()
	b := p.calendarOf(text)
	data, err := admission.EncodeCalendar(b)
	if err == nil {
		p.plugins.post(p.w.defs)
		_, err = p.q.Post(context.Background(), p.launch.Snapshot.Windows.Board, data, 30*24*time.Hour)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.posted = append(p.posted, "posted at "+p.now().UTC().Format(time.RFC3339)+":\n"+text)
	if wake {
		if _, err := p.q.Signal(context.Background(), p.launch.Run.ID, queue.EventWindow); err != nil {
			p.t.Fatal(err)
		}
	}
}

// prepare launches as turnus run does; nil when no host ever fits.
func (p *proof) prepare() bool {
	playbook, err := playbooks.Parse("proof.yaml", []byte(p.w.source()), playbooks.Options{})
	if err != nil {
		p.t.Fatalf("seed %d: %v\n%s", p.w.seed, err, p.w.source())
	}
	var hosts []core.Host
	for _, h := range p.w.hosts {
		hosts = append(hosts, core.Host{Name: h.name, WindowSet: h.set, HAGroup: h.ha})
	}
	p.launch, err = launch.Prepare(playbook, hosts, launch.Options{
		RunID: fmt.Sprintf("proof-%d", p.w.seed), Now: p.now(), Windows: p.calendarOf(p.w.defs.yaml()), Board: "windows/proof", SkipNoWindow: true,
		Types: func(name string) (playbooks.Type, bool) {
			t, ok := proofTypes[name]
			return playbooks.Type{Name: t.Name, Idempotent: t.Idempotent, Disruptive: t.Disruptive, OnLost: t.OnLost}, ok
		},
	})
	if noWindow := new(launch.NoWindowError); errors.As(err, &noWindow) {
		p.plugins.seen["no window"]++
		return false
	}
	if err != nil {
		p.t.Fatalf("seed %d: %v", p.w.seed, err)
	}
	return true
}

func (p *proof) play() {
	if !p.prepare() {
		return
	}
	p.post(false)
	driven := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, err := queuetest.Drive(ctx, driver{p.q, p.w.skew}, p.launch, queuetest.DriveOptions{
			OnRecord: func(r core.Result) { p.results[r.Job.Index] = append(p.results[r.Job.Index], r) },
		})
		driven <- err
	}()
	for range p.w.nodes {
		p.start()
	}
	p.storm()
	p.calm()
	if err := p.q.Cancel(ctx, p.launch.Run.ID, "the story is over"); err != nil {
		p.failf("cancel: %v", err)
	}
	if err := <-driven; err != nil && !errors.Is(err, context.Canceled) {
		p.failf("drive: %v", err)
	}
	for _, n := range p.nodes {
		n.stop()
		if err := <-n.done; err != nil && !n.killed {
			p.failf("a node ended uncleanly: %v", err)
		}
	}
	p.check()
}

func (p *proof) start() {
	p.opened++
	l := &line{q: p.q, skew: p.w.skew, r: rand.New(rand.NewPCG(p.w.seed, uint64(p.opened))), loses: p.r.IntN(3)}
	w, err := New(Config{Queue: l, Board: l, Payload: p.q.Payload, Plugins: p.plugins, Concurrency: 1 + p.r.IntN(4), Grace: time.Second, Name: fmt.Sprintf("n%d", p.opened)})
	if err != nil {
		p.t.Fatal(err)
	}
	w.pace, w.clock.beat = proofPace, proofPace.beat
	if p.admit != nil {
		w.admit = p.admit
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &proofNode{line: l, w: w, stop: stop, done: make(chan error, 1)}
	go func() { n.done <- w.Run(ctx) }()
	p.nodes = append(p.nodes, n)
}

// storm lets time pass until the horizon, with edits and faults on the way.
func (p *proof) storm() {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, at := range p.w.edits {
		events = append(events, event{at, func() {
			p.w.edit(p.r, p.now())
			p.post(chance(p.r, 50))
			p.plugins.note("edit")
		}})
	}
	for _, at := range p.w.faults {
		i := p.r.IntN(p.w.nodes)
		lasts := time.Duration(p.r.IntN(180)) * time.Second
		switch p.r.IntN(6) {
		case 0, 1: // killed, and another starts later
			events = append(events, event{at, func() { p.kill(i) }}, event{at + lasts, p.start})
		case 2: // the line is cut, perhaps for longer than the session lives
			events = append(events, event{at, func() { p.nodes[i].line.set(func(l *line) { l.cut = true }) }},
				event{at + lasts, func() { p.nodes[i].line.set(func(l *line) { l.cut = false }) }})
		case 3:
			events = append(events, event{at, func() { p.nodes[i].line.set(func(l *line) { l.noBoard = true }) }},
				event{at + 5*lasts, func() { p.nodes[i].line.set(func(l *line) { l.noBoard = false }) }})
		case 4: // drained, and another starts later
			events = append(events, event{at, func() { p.nodes[i].killed = true; p.nodes[i].stop() }}, event{at + lasts, p.start})
		case 5:
			events = append(events, event{at, func() {
				if _, err := p.q.Signal(context.Background(), p.launch.Run.ID, queue.EventWindow); err != nil {
					p.t.Fatal(err)
				}
			}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	begin := time.Now()
	for _, e := range events {
		<-time.After(time.Until(begin.Add(e.at)))
		e.do()
	}
	<-time.After(max(time.Until(begin.Add(p.w.horizon)), 0))
}

// kill ends a node immediately: as a crash does, with its line cut first so that nothing reaches
// the queue, or as a second SIGTERM does.
func (p *proof) kill(i int) {
	n := p.nodes[i]
	n.killed = true
	crash := chance(p.r, 60)
	n.line.set(func(l *line) { l.cut = l.cut || crash })
	n.w.Kill()
}

// calm opens all windows and lets what is due come to its end.
func (p *proof) calm() {
	for _, n := range p.nodes {
		n.line.set(func(l *line) { l.noBoard = false; l.loses = 0 })
	}
	p.start()
	p.w.defs = proofDefs{sets: slices.Clone(p.w.defs.sets)}
	for i, s := range p.w.defs.sets {
		p.w.defs.sets[i] = proofSet{name: s.name, zone: s.zone, open: true}
	}
	p.post(true)
	id := p.launch.Run.ID
	for range 12 * 6 {
		<-time.After(10 * time.Minute)
		s, err := p.q.Status(context.Background(), id)
		if err != nil {
			p.t.Fatal(err)
		}
		if s.InFlight+s.Suspended+s.Waiting+s.Blocked == 0 && !p.due(s) {
			return
		}
	}
	s, err := p.q.Status(context.Background(), id)
	p.failf("after 12 h of open windows: %+v, %v", s, err)
	for i := range p.launch.Hosts {
		e, err := p.q.Explain(context.Background(), core.JobID{Run: id, Index: i})
		p.failf("  job %d: %+v, %v", i, e, err)
	}
}

// due reports whether a job is pending that could start: it is released, and its planned start has
// passed.
func (p *proof) due(s queue.Status) bool {
	if s.Phase != queue.Active || s.Pending == 0 {
		return false
	}
	due, at := 0, 0
	for _, seg := range p.launch.Run.Segments {
		if !seg.Due.After(p.now()) {
			due += max(min(seg.Count, s.Limit-at), 0)
		}
		at += seg.Count
	}
	if len(p.launch.Run.Segments) == 0 {
		due = s.Limit
	}
	ended := 0
	for _, n := range s.Outcomes {
		ended += n
	}
	return ended < due
}

// check demands exactly one outcome of each job.
func (p *proof) check() {
	for i := range p.launch.Hosts {
		list := p.results[i]
		if len(list) != 1 {
			p.failf("job %d has %d outcomes: %+v", i, len(list), list)
			continue
		}
		r := list[0]
		p.plugins.seen[string(r.Outcome)]++
		if r.ReasonCode == core.NeedsReapproval {
			p.plugins.seen["needs_reapproval"]++
		}
		if !r.Outcome.Valid() || !r.Outcome.Good() && r.Reason == "" {
			p.failf("job %d: %+v", i, r)
		}
	}
}
