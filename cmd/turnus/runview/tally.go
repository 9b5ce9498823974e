package runview

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Outline is the part of a run that is known before it starts.
type Outline struct {
	Name            string
	Total           int      // hosts
	Waves           []int    // hosts up to each wave's end, by job index; nil: not known
	Steps           []string // further ones are added when a host reaches them
	StopAfter       int      // failures at which the run stops; 0: not known, or none
	StopUnreachable int
}

// Tally counts one run while it continues. It is safe for concurrent use.
type Tally struct {
	o Outline

	mu       sync.Mutex
	started  time.Time
	counted  time.Time // since when the rate counts
	ended    time.Time
	outcomes map[core.Outcome]int
	done     int
	inWave   []int                // finished hosts of each of o.Waves
	begun    map[string]*begunJob // by host, until it finishes
	failedAt map[string]int       // failed hosts by step
	failed   failures
	wave     int       // released last, from 1
	waves    int       // in all
	released int       // hosts of the waves up to it
	waveDone int       // hosts that had finished when it was released
	waveAt   time.Time // when it was released
	rate     rate
	estimate estimate
	note     string
	retries  map[string]string // by host that waits for another attempt: why
	inFlight int               // hosts that run, as the server counts them: events before Attach are not known
	waiting  int               // hosts that wait for windows
	opening  string            // when the next window opens
}

// rate counts finished hosts by second, in a ring.
type rate [rateSpan]struct {
	second int64
	hosts  int
}

// rateSpan is how many seconds the rate looks back.
const rateSpan = 10

func (r *rate) add(now time.Time, hosts int) {
	slot := &r[now.Unix()%rateSpan]
	if slot.second != now.Unix() {
		slot.second, slot.hosts = now.Unix(), 0
	}
	slot.hosts += hosts
}

// per returns hosts a second.
func (r *rate) per(now time.Time, elapsed time.Duration) float64 {
	sum := 0
	for _, s := range r {
		if now.Unix()-s.second < rateSpan {
			sum += s.hosts
		}
	}
	return float64(sum) / max(min(elapsed.Seconds(), rateSpan), 1)
}

// begunJob is the job of a host that has begun and not finished.
type begunJob struct {
	host, step string
	since      time.Time
	running    bool // else it is suspended, or waits for another attempt
	tail       string
}

// NewTally returns the tally of a run.
func NewTally(o Outline) *Tally {
	o.Steps = slices.Clone(o.Steps)
	now := time.Now()
	return &Tally{
		o: o, started: now, counted: now, outcomes: map[core.Outcome]int{}, inWave: make([]int, len(o.Waves)), begun: map[string]*begunJob{},
		failedAt: map[string]int{}, retries: map[string]string{},
	}
}

// Begin sets the clock to zero: the run is launched now.
func (t *Tally) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = time.Now()
	t.counted = t.started
}

// Attach begins in the middle of a run: its clock goes since started, and hosts that have finished
// before do not count in its rate.
func (t *Tally) Attach(started time.Time, outcomes map[core.Outcome]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started, t.counted = started, time.Now()
	t.take(outcomes)
}

// InFlight takes from the server how many hosts run.
func (t *Tally) InFlight(hosts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight = hosts
}

// Thresholds sets the failures and the unreachable hosts at which the run stops; 0 is none.
func (t *Tally) Thresholds(failed, unreachable int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.StopAfter, t.o.StopUnreachable = failed, unreachable
}

// JobStarted notes that a host is worked on.
func (t *Tally) JobStarted(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := &begunJob{host: host, since: time.Now(), running: true}
	if old := t.begun[host]; old != nil { // it continues where it was
		j.step, j.tail = old.step, old.tail
	}
	t.begun[host] = j
}

// StepStarted notes the step that a host has reached.
func (t *Tally) StepStarted(host, step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.retries, host)
	if !slices.Contains(t.o.Steps, step) {
		t.o.Steps = append(t.o.Steps, step)
	}
	if j := t.begun[host]; j != nil {
		j.step = step
	}
}

// Output keeps the end of a host's output.
func (t *Tally) Output(host, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.begun[host]; j != nil {
		j.tail = tail(j.tail + tail(text))
	}
}

// Retried notes why a host waits for another attempt.
func (t *Tally) Retried(host, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retries[host] = why
}

// JobLeft notes that a host is not worked on: it is suspended, or its job was given back.
func (t *Tally) JobLeft(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.begun[host]; j != nil {
		j.running = false
	}
}

// Recorded counts an outcome.
func (t *Tally) Recorded(r api.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(r)
	t.outcomes[r.Outcome]++
	t.done++
	t.rate.add(time.Now(), 1)
	if wave, _ := slices.BinarySearch(t.o.Waves, r.Job.Index+1); wave < len(t.inWave) {
		t.inWave[wave]++
	}
}

// Finished notes that a host has finished, whose outcome agree counts.
func (t *Tally) Finished(r api.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(r)
}

// finish needs the lock.
func (t *Tally) finish(r api.Result) {
	delete(t.begun, r.Host)
	delete(t.retries, r.Host)
	if !r.Outcome.Good() && r.Step != "" {
		t.failedAt[r.Step]++
	}
}

// Fail folds a failed host into those with the same reason, and prints the first host of each.
func (t *Tally) Fail(con *console.Console, r api.Result) {
	if r.Outcome.Good() || r.Outcome == core.Cancelled {
		return
	}
	t.mu.Lock()
	first := t.failed.add(r)
	var line string
	if first {
		line = t.failed.list[len(t.failed.list)-1].line(con)
	}
	t.mu.Unlock()
	if first {
		con.Message(line)
	}
}

// agree takes the counts from the server, which knows all outcomes.
func (t *Tally) agree(outcomes map[core.Outcome]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.done
	t.take(outcomes)
	t.rate.add(time.Now(), max(t.done-before, 0))
}

// take needs the lock.
func (t *Tally) take(outcomes map[core.Outcome]int) {
	t.outcomes, t.done = maps.Clone(outcomes), 0
	for _, n := range outcomes {
		t.done += n
	}
}

// Released notes the wave that was released last, from 1, of how many, and the hosts up to its end.
func (t *Tally) Released(wave, waves, hosts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wave == t.wave {
		return
	}
	t.wave, t.waves, t.released, t.waveDone, t.waveAt = wave, waves, hosts, t.done, time.Now()
}

// Say sets the note that follows the figures.
func (t *Tally) Say(note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note = note
}

// Waits notes how many hosts wait for windows.
func (t *Tally) Waits(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = n
}

// Opens notes when the next window opens.
func (t *Tally) Opens(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening = text
}

// End stops the clock.
func (t *Tally) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = time.Now()
}

// Count returns how many hosts have finished.
func (t *Tally) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// snapshot returns the state for one frame, with at most slowest running hosts.
func (t *Tally) snapshot(slowest int) progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.ended.IsZero() {
		now = t.ended
	}
	p := progress{
		name: t.o.Name, total: t.o.Total, done: t.done, outcomes: maps.Clone(t.outcomes), stopAfter: t.o.StopAfter, stopUnreachable: t.o.StopUnreachable,
		elapsed: now.Sub(t.started), ended: !t.ended.IsZero(), note: t.note, waiting: t.waiting, failures: slices.Clone(t.failed.list),
		wave: t.wave, waves: t.waves, released: t.released,
	}
	if t.waiting > 0 {
		p.opening = t.opening
	}
	if p.retrying = len(t.retries); p.retrying > 0 {
		p.retryWhy = t.retries[slices.Min(slices.Collect(maps.Keys(t.retries)))]
	}
	for i, limit := range t.o.Waves {
		w := waveCount{hosts: limit, finished: t.inWave[i], released: limit <= t.released}
		if i > 0 {
			w.hosts -= t.o.Waves[i-1]
		}
		p.limits = append(p.limits, w)
	}
	p.steps = t.steps()
	p.slowest, p.running = t.slowest(now, slowest)
	p.running = min(max(p.running, t.inFlight), p.total-p.done)
	p.rate = t.rate.per(now, now.Sub(t.counted))
	if t.note == "" && !p.ended && !t.waveAt.IsZero() {
		p.left = t.estimate.update(now, pace{
			total: p.total, done: p.done, running: p.running, waiting: p.waiting, released: p.released, finished: p.done - t.waveDone, since: now.Sub(t.waveAt),
		}.left())
	}
	return p
}

// slowest needs the lock. It returns the hosts that run for the longest time, at most n, and how
// many run.
func (t *Tally) slowest(now time.Time, n int) (list []slowHost, running int) {
	jobs := make([]*begunJob, 0, len(t.begun))
	for _, j := range t.begun {
		if j.running {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *begunJob) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.host, b.host)) })
	for _, j := range jobs[:min(n, len(jobs))] {
		if took := now.Sub(j.since); took > slowAfter {
			list = append(list, slowHost{j.host, j.step, took, j.tail})
		}
	}
	return list, len(jobs)
}

// steps needs the lock. It returns how many hosts are at and past each step.
func (t *Tally) steps() []stepCount {
	list := make([]stepCount, len(t.o.Steps))
	past := 0 // all steps
	for o, n := range t.outcomes {
		if o.Good() {
			past += n
		}
	}
	index := make(map[string]int, len(list))
	for i, name := range t.o.Steps {
		list[i].name, list[i].past = name, past
		index[name] = i
	}
	reached := func(step string, hosts int) (at int, ok bool) {
		at, ok = index[step]
		for i := range at {
			list[i].past += hosts
		}
		return at, ok
	}
	for _, j := range t.begun {
		if at, ok := reached(j.step, 1); ok {
			list[at].at++
		}
	}
	for step, n := range t.failedAt {
		reached(step, n)
	}
	return list
}
