package runview

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Tally counts one run as it goes. Safe for concurrent use.
type Tally struct {
	name    string
	total   int
	started time.Time

	mu       sync.Mutex
	outcomes map[core.Outcome]int
	done     int
	running  map[string]runningJob // by host
	recent   [rateSpan]finished    // ring, by second
	note     string
	retries  map[string]string // by host that waits for another attempt: why
	waiting  int               // for windows
	opening  string            // what is known of the next
	ended    time.Time
}

// rateSpan is how many seconds the rate looks back.
const rateSpan = 10

type finished struct {
	second int64
	jobs   int
}

type runningJob struct {
	host, step string
	since      time.Time
}

// NewTally returns the tally of a run of that many hosts.
func NewTally(name string, total int) *Tally {
	return &Tally{name: name, total: total, started: time.Now(), outcomes: map[core.Outcome]int{}, running: map[string]runningJob{}, retries: map[string]string{}}
}

// Begin sets the clock to zero: the run is launched now.
func (t *Tally) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = time.Now()
}

// JobStarted notes that a host is worked on.
func (t *Tally) JobStarted(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[host] = runningJob{host: host, since: time.Now()}
}

// StepStarted notes the step that a host has reached.
func (t *Tally) StepStarted(host, step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.retries, host)
	if j, ok := t.running[host]; ok {
		j.step = step
		t.running[host] = j
	}
}

// Retried notes why a host waits for another attempt.
func (t *Tally) Retried(host, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retries[host] = why
}

// JobLeft takes a job off the running ones: done, suspended, or given back.
func (t *Tally) JobLeft(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, host)
}

// Recorded counts an outcome.
func (t *Tally) Recorded(r core.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, r.Host)
	delete(t.retries, r.Host)
	t.outcomes[r.Outcome]++
	t.done++
	now := time.Now().Unix()
	slot := &t.recent[now%rateSpan]
	if slot.second != now {
		*slot = finished{second: now}
	}
	slot.jobs++
}

// agree takes the counts from somebody who knows them all.
func (t *Tally) agree(outcomes map[core.Outcome]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := 0
	for _, n := range outcomes {
		done += n
	}
	now := time.Now().Unix()
	slot := &t.recent[now%rateSpan]
	if slot.second != now {
		*slot = finished{second: now}
	}
	slot.jobs += max(done-t.done, 0)
	t.outcomes, t.done = maps.Clone(outcomes), done
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

// Count returns how many hosts are done.
func (t *Tally) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// progress is a tally at one moment.
type progress struct {
	name        string
	total, done int
	outcomes    map[core.Outcome]int
	running     int
	slowest     []runningJob  // longest first
	rate        float64       // jobs a second over the last seconds
	eta         time.Duration // 0: unknown
	elapsed     time.Duration
	note        string
	retrying    int
	retryWhy    string // of the first of them by name
	waiting     int
	opening     string
}

func (t *Tally) snapshot(slowest int) progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.ended.IsZero() {
		now = t.ended
	}
	p := progress{name: t.name, total: t.total, done: t.done, outcomes: map[core.Outcome]int{}, running: len(t.running), elapsed: now.Sub(t.started), note: t.note, waiting: t.waiting}
	if t.waiting > 0 {
		p.opening = t.opening
	}
	if p.retrying = len(t.retries); p.retrying > 0 {
		p.retryWhy = t.retries[slices.Min(slices.Collect(maps.Keys(t.retries)))]
	}
	maps.Copy(p.outcomes, t.outcomes)
	jobs := make([]runningJob, 0, len(t.running))
	for _, j := range t.running {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b runningJob) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.host, b.host))
	})
	p.slowest = jobs[:min(slowest, len(jobs))]
	sum := 0
	for _, f := range t.recent {
		if now.Unix()-f.second < rateSpan {
			sum += f.jobs
		}
	}
	p.rate = float64(sum) / max(min(p.elapsed.Seconds(), rateSpan), 0.1)
	if left := p.total - p.done - p.waiting; p.rate > 0 && left > 0 && p.elapsed > time.Second {
		p.eta = time.Duration(float64(left) / p.rate * float64(time.Second))
	}
	return p
}
