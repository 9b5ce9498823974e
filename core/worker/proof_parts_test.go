package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/plugins/host"
)

// line is a node's connection to the queue: it breaks, loses answers, is slow, and the queue's
// clock at its other end is not the node's.
type line struct {
	q    *memory.Queue
	skew time.Duration // the queue's clock less the node's

	mu      sync.Mutex
	r       *rand.Rand // nil: neither slow nor lossy
	cut     bool       // nothing gets through
	noBoard bool
	loses   int // of 100 answers of Turn
}

func (l *line) set(change func(*line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// far is the queue at the other end, which a test may exchange.
func (l *line) far() *memory.Queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.q
}

// pass reports whether a call gets through, and whether its answer does.
func (l *line) pass(board bool) (delay time.Duration, lost bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut:
		return 0, false, fmt.Errorf("the line is cut: %w", core.ErrUnavailable)
	case board && l.noBoard:
		return 0, false, fmt.Errorf("the board is away: %w", core.ErrUnavailable)
	case l.r == nil:
	case board && chance(l.r, 5):
		return time.Duration(l.r.IntN(2500)) * time.Millisecond, false, nil
	case !board:
		return 0, chance(l.r, l.loses), nil
	}
	return 0, false, nil
}

func (l *line) Open(ctx context.Context, node string) (string, error) {
	if _, _, err := l.pass(false); err != nil {
		return "", err
	}
	return l.far().Open(ctx, node)
}

func (l *line) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	_, lost, err := l.pass(false)
	if err != nil {
		return queue.TurnResult{}, err
	}
	res, err := l.far().Turn(ctx, t)
	if err == nil && lost {
		return queue.TurnResult{}, fmt.Errorf("the answer is lost: %w", core.ErrUnknown)
	}
	res.Now = res.Now.Add(l.skew)
	if !res.Next.IsZero() {
		res.Next = res.Next.Add(l.skew)
	}
	return res, err
}

func (l *line) Save(ctx context.Context, s queue.Save) error {
	_, lost, err := l.pass(false)
	if err != nil {
		return err
	}
	if err := l.far().Save(ctx, s); err != nil || !lost {
		return err
	}
	return fmt.Errorf("the answer is lost: %w", core.ErrUnknown)
}

func (l *line) Enter(ctx context.Context, g queue.Guest) (uint64, error) {
	_, lost, err := l.pass(false)
	if err != nil {
		return 0, err
	}
	fence, err := l.far().Enter(ctx, g)
	if err == nil && lost {
		return 0, fmt.Errorf("the answer is lost: %w", core.ErrUnknown)
	}
	return fence, err
}

func (l *line) Leave(ctx context.Context, g queue.Guest) error {
	if _, _, err := l.pass(false); err != nil {
		return err
	}
	return l.far().Leave(ctx, g)
}

func (l *line) Beat(ctx context.Context, session string) (queue.BeatResult, error) {
	if _, _, err := l.pass(false); err != nil {
		return queue.BeatResult{}, err
	}
	res, err := l.far().Beat(ctx, session)
	res.Now, res.Until = res.Now.Add(l.skew), res.Until.Add(l.skew)
	return res, err
}

func (l *line) Wait(ctx context.Context, session string, until time.Time) error {
	if _, _, err := l.pass(false); err != nil {
		return err
	}
	return l.far().Wait(ctx, session, until.Add(-l.skew))
}

func (l *line) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	if _, _, err := l.pass(false); err != nil {
		return nil, err
	}
	return l.far().Adopt(ctx, session)
}

func (l *line) Close(ctx context.Context, session string) error {
	if _, _, err := l.pass(false); err != nil {
		return err
	}
	return l.far().Close(ctx, session)
}

func (l *line) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	delay, _, err := l.pass(true)
	if err != nil {
		return nil, 0, err
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	return l.far().Posted(ctx, name, known)
}

func (l *line) Names(ctx context.Context, prefix string) ([]string, error) {
	if _, _, err := l.pass(true); err != nil {
		return nil, err
	}
	return l.far().Names(ctx, prefix)
}

func (l *line) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	return l.far().Post(ctx, name, data, keep)
}

func (l *line) PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) ([]byte, error) {
	return l.far().PostFirst(ctx, name, data, keep)
}

// driver is the queue for Drive: its looks are far apart, and what is due is moved to the queue's
// clock.
type driver struct {
	*memory.Queue
	skew time.Duration
}

func (d driver) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	return queue.SubmitEach(runs, func(r queue.Run) (bool, error) {
		r.Segments = slices.Clone(r.Segments)
		for i, s := range r.Segments {
			if !s.Due.IsZero() {
				r.Segments[i].Due = s.Due.Add(-d.skew)
			}
		}
		return queue.SubmitOne(ctx, d.Queue, r)
	})
}

func (d driver) News(ctx context.Context, from map[int]string, wait time.Duration) (queue.News, error) {
	return d.Queue.News(ctx, from, 600*wait)
}

// version is definitions and when they came in force, by the queue's clock.
type version struct {
	at   time.Time
	defs proofDefs
}

// fakePlugins does what hosts and job types may: it is slow, fails, crashes, suspends, stops at
// checkpoints; and it holds each start against the oracle.
type fakePlugins struct {
	w      *proofWorld
	oracle *oracle
	// careless heeds neither MayBegin nor MayStart: a control of the proof.
	careless bool

	mu       sync.Mutex
	dice     *rand.Rand
	versions []version
	calls    map[string]int
	busy     map[string]int // calls under way, by host and HA group
	bad      []string
	seen     map[string]int // what happened, for the proof's own coverage
}

var proofTypes = map[string]host.Type{
	"fw.flash": {Name: "fw.flash", Disruptive: true, Idempotent: true, OnLost: "retry"},
	"fw.hold":  {Name: "fw.hold", Disruptive: true, OnLost: "hold"},
	"cmd":      {Name: "cmd", Idempotent: true, OnLost: "retry"},
}

func (p *fakePlugins) Type(name string) (host.Type, bool) {
	t, ok := proofTypes[name]
	return t, ok
}

func (p *fakePlugins) Warm([]string) {}

func (p *fakePlugins) now() time.Time { return time.Now().Add(p.w.skew) }

func (p *fakePlugins) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[what]++
}

// post puts definitions in force. Those of the same instant may or may not have been seen.
func (p *fakePlugins) post(d proofDefs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions = append(p.versions, version{p.now(), d})
}

// holds reports whether any of the definitions in force at t satisfies ok.
func (p *fakePlugins) holds(t time.Time, ok func(proofDefs) bool) bool {
	for _, v := range slices.Backward(p.versions) {
		if v.at.After(t) {
			continue
		}
		if ok(v.defs) {
			return true
		}
		if v.at.Before(t) {
			return false
		}
	}
	return false
}

// The reason for which a call's state was saved.
const (
	stateOwn  = "own"  // it suspended itself, or saved a checkpoint: it continues whatever the window
	stateHeld = "held" // it stopped for its window
)

func encodeKind(kind string) *host.State {
	return &host.State{Version: 1, JSON: json.RawMessage(`{"kind":"` + kind + `"}`)}
}

func kindOf(s *host.State) string {
	switch {
	case s == nil:
		return ""
	case strings.Contains(string(s.JSON), stateOwn):
		return stateOwn
	}
	return stateHeld
}

// needs of a call: its own, and what the steps with a window of its set need from there on.
func (p *fakePlugins) needs(c host.Call, item int) (set string, own, all time.Duration, windowed bool) {
	setOf := func(s proofStep) string {
		if s.window == "" {
			return c.Host.WindowSet
		}
		return s.window
	}
	for i, s := range p.w.steps {
		if s.name != c.Step {
			continue
		}
		set, own, windowed = setOf(s), s.need, s.windowed
		if s.items > 0 {
			own /= time.Duration(s.items)
		}
		all = own * time.Duration(max(s.items, 1)-item)
		for _, later := range p.w.steps[i+1:] {
			if later.windowed && setOf(later) == set {
				all += later.need
			}
		}
	}
	return set, own, all, windowed
}

// begin is the moment of the proof: a step starts now.
func (p *fakePlugins) begin(c host.Call, item int) (own time.Duration, r *rand.Rand) {
	set, own, all, windowed := p.needs(c, item)
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%s/%s", c.Host.Name, c.Step)
	p.calls[key]++
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%d/%s/%d", p.w.seed, key, p.calls[key])
	r = rand.New(rand.NewPCG(sum.Sum64(), p.w.seed))
	for _, name := range []string{"host " + c.Host.Name, "group " + c.Host.HAGroup} {
		if p.busy[name]++; p.busy[name] > 1 && name != "group " {
			p.bad = append(p.bad, fmt.Sprintf("two calls at once on %s", name))
		}
	}
	p.seen["start"]++
	if !windowed {
		return own, r
	}
	if kindOf(c.State) == stateOwn {
		p.seen["continued"]++
		return own, r
	}
	p.seen["gated start"]++
	if c.State != nil {
		p.seen["start after held"]++
	}
	if c.Attempt > 1 {
		p.seen["gated retry"]++
	}
	now := p.now()
	if !p.holds(now, func(d proofDefs) bool { return p.oracle.mayStart(d, set, now, all) }) {
		p.bad = append(p.bad, fmt.Sprintf("%s on %s started at %s (attempt %d, item %d, state %q) outside of window %s, in which it needs %v",
			c.Step, c.Host.Name, now.UTC().Format(time.RFC3339Nano), c.Attempt, item, kindOf(c.State), set, all))
	}
	return own, r
}

func (p *fakePlugins) end(c host.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy["host "+c.Host.Name]--
	p.busy["group "+c.Host.HAGroup]--
}

func (p *fakePlugins) Run(ctx context.Context, c host.Call) (host.Outcome, error) {
	item := 0
	var with struct {
		Item int `json:"item"`
	}
	if json.Unmarshal(c.Params, &with) == nil {
		item = max(with.Item-1, 0)
	}
	if out, wait := p.process(ctx, c); wait {
		return out, nil
	}
	own, r := p.begin(c, item)
	defer p.end(c)
	begun := time.Now()
	took := own * time.Duration(20+r.IntN(70)) / 100
	if chance(r, 15) {
		took = own * time.Duration(1+r.IntN(4)) // slow
		p.note("slow")
	}
	if chance(r, 4) {
		p.note("absent")
		return host.Outcome{Failed: true, Effects: host.EffectsNone}, fmt.Errorf("the plugin does not start: %w", core.ErrUnavailable)
	}
	phases := 1 + r.IntN(3)
	for i := range phases {
		select {
		case <-time.After(took / time.Duration(phases)):
		case <-ctx.Done():
			p.note("cancelled")
			return host.Outcome{Cancelled: true, Effects: host.EffectsPartial}, nil
		}
		if out, stop := p.between(ctx, c, r, i, own, begun); stop {
			return out, nil
		}
	}
	return p.finish(c, r)
}

// process is the wait for a plugin's process, as host.Supervisor has it.
func (p *fakePlugins) process(ctx context.Context, c host.Call) (host.Outcome, bool) {
	p.mu.Lock()
	wait := chance(p.dice, 6)
	took := time.Duration(p.dice.IntN(1500)) * time.Second
	p.mu.Unlock()
	if !wait {
		return host.Outcome{}, false
	}
	p.note("waited for a process")
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return host.Outcome{Cancelled: true, Effects: host.EffectsNone}, true
	}
	if c.MayBegin == nil || p.careless {
		return host.Outcome{}, false
	}
	why := c.MayBegin(ctx)
	if why != "" {
		p.note("may not begin")
	}
	return host.Outcome{Suspended: true, Held: true, Reason: why, State: c.State}, why != ""
}

// between does the work of a job type between its phases.
func (p *fakePlugins) between(ctx context.Context, c host.Call, r *rand.Rand, phase int, own time.Duration, begun time.Time) (host.Outcome, bool) {
	if phase == 0 && chance(r, 30) && c.MayStart != nil {
		need := []time.Duration{0, own / 2, own}[r.IntN(3)]
		if why := c.MayStart(ctx, need); why != "" && !p.careless {
			p.note("may not start")
			return host.Outcome{Suspended: true, Held: true, State: encodeKind(stateHeld), Reason: why}, true
		}
		p.irreversible(c, need, own, begun)
	}
	if chance(r, 40) && c.Checkpoint != nil {
		kind := stateOwn
		if err := c.Checkpoint(ctx, *encodeKind(kind)); err != nil {
			return host.Outcome{Failed: true, Reason: err.Error()}, true
		}
		if c.Stop != nil {
			if why := c.Stop(ctx); why != "" && !chance(r, 20) { // some do not listen
				p.note("stopped at checkpoint")
				return host.Outcome{Suspended: true, Held: true, State: encodeKind(stateHeld), Reason: why}, true
			}
		}
	}
	if chance(r, 10) {
		p.note("suspended")
		return host.Outcome{Suspended: true, State: encodeKind(stateOwn), ResumeAfter: minutes(1 + r.IntN(40)), KeepLocks: chance(r, 30)}, true
	}
	return host.Outcome{}, false
}

// irreversible is the second moment of the proof: the worker allowed what cannot be undone.
func (p *fakePlugins) irreversible(c host.Call, need, own time.Duration, begun time.Time) {
	set, _, _, windowed := p.needs(c, 0)
	if !windowed {
		return
	}
	if need == 0 {
		need = own
	}
	if left := own - time.Since(begun); left > 0 {
		need = min(need, left)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen["may start"]++
	now := p.now()
	if !p.holds(now, func(d proofDefs) bool { return p.oracle.fits(d, set, now, need) }) {
		p.bad = append(p.bad, fmt.Sprintf("%s on %s was allowed its irreversible part at %s outside of window %s, in which it needs %v", c.Step, c.Host.Name, now.UTC().Format(time.RFC3339Nano), set, need))
	}
}

func (p *fakePlugins) finish(c host.Call, r *rand.Rand) (host.Outcome, error) {
	switch dice := r.IntN(100); {
	case dice < 15:
		p.note("failed")
		return host.Outcome{Failed: true, Reason: "no", Effects: host.EffectsPartial}, nil
	case dice < 20:
		p.note("crashed")
		return host.Outcome{Failed: true, Effects: host.EffectsUnknown}, fmt.Errorf("the plugin died: %w", core.ErrPluginFailed)
	case dice < 22:
		return host.Outcome{Failed: true, Unreachable: true, Reason: "no route"}, nil
	}
	return host.Outcome{Changed: true}, nil
}
