package forecast

import (
	"runtime"
	"sync"
	"sync/atomic"
)

type state uint8

const (
	unreleased     state = iota
	deferred             // until a window opens
	ready                // waits for a slot
	suspendedHA          // waits for its HA group
	suspendedGroup       // waits for its group
	running
	done
)

// The kinds of events.
const (
	evFinish  = iota // of a stage
	evDue            // a window opens
	evRelease        // of the next wave
	evLate           // the wave's stragglers are not waited for any more
)

// sim simulates one sample after the other, in the same memory. Ready hosts start least
// slack first, which is the order of the last moment at which they may, then in run order.
type sim struct {
	m    *model
	lim  limits
	took []int64 // by host and stage: the sample's durations

	now       int64
	events    heap // by time
	ready     heap // by last start
	suspended []heap
	inGroup   []int32
	state     []state
	stage     []int32
	missed    []int32
	running   int
	released  int   // waves
	began     int64 // when the last one was released
	open      int   // released hosts that are not done
	busy      int   // those of them that wait for no window
	proven    bool  // a host of the last wave was done, and did not miss its windows
	pausing   bool  // between waves
	pause     int32 // number of the pause; the end of an older one means nothing
	steps     int   // events so far, of all samples

	begin, start, end []int64
	gave              []bool

	trace bool
	since []int64
	holds [][]Hold
	runs  [][]Span
}

func newSim(m *model, l limits) *sim {
	n := len(m.hosts)
	return &sim{
		m: m, lim: l, took: make([]int64, n*m.stages), suspended: make([]heap, len(m.names)), inGroup: make([]int32, len(m.names)),
		state: make([]state, n), stage: make([]int32, n), missed: make([]int32, n),
		begin: make([]int64, n), start: make([]int64, n), end: make([]int64, n), gave: make([]bool, n),
	}
}

// simulate runs the samples [from, to) on all cores, and gives each to take, one at a time, in
// any order. It returns the number of events of all.
func (m *model) simulate(l limits, from, to int, take func(k int, s *sim)) (steps int) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	next.Store(int64(from))
	for range min(runtime.GOMAXPROCS(0), to-from) {
		wg.Go(func() {
			s := newSim(m, l)
			for k := next.Add(1) - 1; k < int64(to); k = next.Add(1) - 1 {
				m.draw(s.took, uint64(k))
				s.run(false)
				mu.Lock()
				take(int(k), s)
				mu.Unlock()
			}
			mu.Lock()
			steps += s.steps
			mu.Unlock()
		})
	}
	wg.Wait()
	return steps
}

// run simulates the sample in took. With trace it also keeps what each host waited for.
func (s *sim) run(trace bool) {
	s.reset(trace)
	s.release()
	for s.released < s.m.begun {
		s.release()
	}
	for {
		s.dispatch()
		if s.barrier() {
			continue
		}
		if len(s.events) == 0 {
			return
		}
		s.now = s.events[0].key
		for len(s.events) > 0 && s.events[0].key == s.now {
			s.handle(s.events.pop())
		}
	}
}

func (s *sim) reset(trace bool) {
	s.now, s.running, s.released, s.busy, s.pausing = s.m.at, 0, 0, 0, false
	s.events, s.ready = s.events[:0], s.ready[:0]
	for i := range s.suspended {
		s.suspended[i], s.inGroup[i] = s.suspended[i][:0], 0
	}
	for i := range s.m.hosts {
		s.state[i], s.stage[i], s.missed[i], s.gave[i] = unreleased, 0, 0, false
		s.begin[i], s.start[i], s.end[i] = never, never, never
		if s.m.hosts[i].never {
			s.state[i] = done
		}
	}
	if s.trace = trace; trace {
		s.since, s.holds, s.runs = make([]int64, len(s.m.hosts)), make([][]Hold, len(s.m.hosts)), make([][]Span, len(s.m.hosts))
		for i := range s.since {
			s.since[i] = s.m.at
		}
	}
}

func (s *sim) handle(e entry) {
	s.steps++
	switch e.kind {
	case evFinish:
		s.finish(e.host)
	case evDue:
		s.enter(e.host)
	case evRelease:
		if s.pausing && e.host == s.pause {
			s.release()
		}
	}
}

// active reports whether a host in this state waits for no window, and is not done.
func active(st state) bool { return st >= ready && st <= running }

// waveDone is the rule of rollout.Progress.WaveDone.
func (s *sim) waveDone() bool {
	if s.open == 0 || !s.proven {
		return s.open == 0
	}
	waits := s.open
	if !s.lim.wait {
		waits = s.busy
	}
	hosts := int(s.m.waves[s.released]) + s.m.ended[s.released-1]
	return hosts-waits >= s.lim.next.Hosts(hosts) || s.lim.next.After > 0 && s.now >= s.began+int64(s.lim.next.After)
}

func (s *sim) to(h int32, st state) {
	old := s.state[h]
	if old == unreleased {
		s.open++
	}
	if active(old) {
		s.busy--
	}
	if active(st) {
		s.busy++
	}
	if st == done {
		s.open--
		if s.m.hosts[h].wave == int32(s.released-1) && !s.gave[h] {
			s.proven = true
		}
	}
	if s.trace && old != st {
		s.waited(h, old)
	}
	s.state[h] = st
}

// release starts the next wave.
func (s *sim) release() {
	last := s.released + 1
	if !s.lim.barriers {
		last = len(s.m.waves) - 1
	}
	s.pausing, s.proven = false, s.m.proven[last-1]
	from, to := s.m.waves[s.released], s.m.waves[last]
	s.released, s.began = last, s.now
	if s.lim.next.After > 0 {
		s.events.push(entry{key: s.now + int64(s.lim.next.After), kind: evLate}) // has barrier look again
	}
	for h := from; h < to; h++ {
		if s.state[h] != done {
			s.enter(h)
		}
	}
}

// barrier releases the next wave if it may start now, or sets the end of the pause before it.
func (s *sim) barrier() (released bool) {
	if s.released == len(s.m.waves)-1 || !s.waveDone() {
		s.pausing = false
		return false
	}
	if s.lim.pause == 0 {
		s.release()
		return true
	}
	if !s.pausing {
		s.pausing = true
		s.pause++
		s.events.push(entry{key: s.now + s.lim.pause, host: s.pause, kind: evRelease})
	}
	return false
}

// fit is the window of the host's stage; nil: none.
func (s *sim) fit(h int32) *fit {
	f := s.m.hosts[h].stages[s.stage[h]]
	if f == nil || s.lim.noWindows || s.lim.freeSet == f.set.Name && f.set.Name != "" {
		return nil
	}
	return f
}

func (s *sim) next(f *fit, t int64) (start, last int64, ok bool) {
	if f.more != nil && (s.lim.approveAll || s.lim.approve == f.set.Name && f.set.Name != "") {
		return nextIn(f.more, t)
	}
	return f.next(t)
}

// enter makes a host ready for its stage, or lets it wait for a window.
func (s *sim) enter(h int32) {
	last := never
	if f := s.fit(h); f != nil {
		start, until, ok := s.next(f, s.now)
		switch {
		case !ok || start >= f.deadline || f.maxMiss > 0 && int(s.missed[h]) >= f.maxMiss:
			s.gave[h] = true
			s.to(h, done)
			return
		case start > s.now:
			s.to(h, deferred)
			s.events.push(entry{key: start, host: h, kind: evDue})
			return
		}
		last = until
	}
	s.to(h, ready)
	s.ready.push(entry{key: last, host: h})
}

// dispatch starts what may start now.
func (s *sim) dispatch() {
	most := min(s.lim.concurrency, s.lim.inFlight)
	for s.running < most && len(s.ready) > 0 {
		e := s.ready.pop()
		h := &s.m.hosts[e.host]
		s.steps++
		switch {
		case e.key < s.now: // it fits no more
			s.missed[e.host]++
			s.enter(e.host)
			s.wake(h)
		case !s.room(h.ha):
			s.suspend(e, h.ha, suspendedHA)
			s.wakeIn(h.group)
		case !s.room(h.group):
			s.suspend(e, h.group, suspendedGroup)
			s.wakeIn(h.ha)
		default:
			s.begins(e.host)
		}
	}
}

func (s *sim) suspend(e entry, group int32, st state) {
	s.to(e.host, st)
	s.suspended[group].push(e)
}

// room reports whether another job of the group may run.
func (s *sim) room(group int32) bool {
	if group == none || group == s.lim.free {
		return true
	}
	cause := s.m.names[group].cause
	if cause == s.lim.freeAll {
		return true
	}
	if cause == ByHAGroup {
		return s.inGroup[group] == 0
	}
	return s.inGroup[group] < s.lim.perGroup
}

// wake lets the next of a host's groups try, since the host does not take their room.
func (s *sim) wake(h *host) {
	s.wakeIn(h.ha)
	s.wakeIn(h.group)
}

func (s *sim) wakeIn(group int32) {
	if group == none || len(s.suspended[group]) == 0 || !s.room(group) {
		return
	}
	e := s.suspended[group].pop()
	s.to(e.host, ready)
	s.ready.push(e)
}

// begins starts the host's stage, and takes a slot and its groups' room.
func (s *sim) begins(h int32) {
	s.to(h, running)
	s.running++
	s.count(h, 1)
	s.work(h)
}

// work runs the stage that the host is at, in the slot that it has.
func (s *sim) work(h int32) {
	stage := s.stage[h]
	if stage == 0 {
		s.begin[h] = s.now
	}
	if stage == max(s.m.hosts[h].windowed, 0) {
		s.start[h] = s.now
	}
	end := s.now + s.took[int(h)*s.m.stages+int(stage)]
	s.events.push(entry{key: end, host: h, kind: evFinish})
	if s.trace {
		s.worked(h, end)
	}
}

func (s *sim) count(h int32, by int32) {
	if g := s.m.hosts[h].ha; g != none {
		s.inGroup[g] += by
	}
	if g := s.m.hosts[h].group; g != none {
		s.inGroup[g] += by
	}
}

// finish ends a stage: the host is done, continues in its slot, or waits for a window without one.
func (s *sim) finish(h int32) {
	host := &s.m.hosts[h]
	last := int(s.stage[h]) == len(host.stages)-1
	if !last {
		s.stage[h]++
		if f := s.fit(h); f == nil || s.opens(f) {
			s.work(h)
			return
		}
	}
	s.running--
	s.count(h, -1)
	if last {
		s.end[h] = s.now
		s.to(h, done)
	} else {
		s.enter(h)
	}
	s.wake(host)
}

// opens reports whether the work fits now.
func (s *sim) opens(f *fit) bool {
	start, _, ok := s.next(f, s.now)
	return ok && start == s.now && start < f.deadline
}

// finished is when the last host was done; false if none was.
func (s *sim) finished() (int64, bool) {
	last, found := int64(0), false
	for _, end := range s.end {
		if end != never {
			last, found = max(last, end), true
		}
	}
	return last, found
}
