package forecast

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/windows"
)

// none is no group.
const none = int32(-1)

const never = int64(math.MaxInt64)

// model is the input as the simulation wants it: numbers for names, nanoseconds for times.
type model struct {
	at        int64
	hosts     []host
	waves     []int32 // first host of each wave, and the number of hosts
	ended     []int   // hosts of each wave and those before it that ended before the forecast
	proven    []bool  // waves of which such a host proved the change
	begun     int     // waves that were released before, as far as these show
	stages    int     // most of any host
	groups    map[groupKey]int32
	names     []groupKey // by number
	fits      map[fitKey]*fit
	samples   int
	maxEvents int
	seed      uint64
}

type host struct {
	name     string
	work     *Work
	stages   []*fit // nil: that stage is not gated
	windowed int32  // first gated stage; -1: none
	ha       int32
	group    int32
	wave     int32
	never    bool
	why      string
}

type groupKey struct {
	cause Cause
	name  string
}

func (m *model) groupOf(cause Cause, name string) int32 {
	k := groupKey{cause, name}
	n, ok := m.groups[k]
	if !ok {
		n = int32(len(m.names))
		m.groups[k] = n
		m.names = append(m.names, k)
	}
	return n
}

// newModel checks the input. Errors wrap core.ErrInvalid.
func newModel(in Input) (*model, error) {
	m := &model{at: in.At.UnixNano(), samples: in.Samples, maxEvents: maxSteps, seed: in.Seed, fits: map[fitKey]*fit{}}
	m.samples = cmp.Or(m.samples, DefaultSamples)
	switch {
	case m.samples < 1 || m.samples > MaxSamples:
		return nil, fmt.Errorf("forecast: %d samples: expected 1 to %d: %w", in.Samples, MaxSamples, core.ErrInvalid)
	case in.Concurrency < 0 || in.MaxInFlight < 0 || in.PerGroup < 0 || in.Pause < 0:
		return nil, fmt.Errorf("forecast: a limit is below 0: %w", core.ErrInvalid)
	}
	m.groups = map[groupKey]int32{}
	m.hosts = make([]host, len(in.Hosts))
	wave := 0
	for i, h := range in.Hosts {
		if h.Wave < wave {
			return nil, fmt.Errorf("forecast: host %s of wave %d stands behind wave %d: %w", h.Name, h.Wave, wave, core.ErrInvalid)
		}
		for wave = max(wave, h.Wave); len(m.waves) <= wave; {
			m.waves = append(m.waves, int32(i))
		}
		var err error
		if m.hosts[i], err = m.host(h, in); err != nil {
			return nil, fmt.Errorf("forecast: host %s: %w", h.Name, err)
		}
		m.stages = max(m.stages, len(h.Work.Stages))
	}
	m.ended, m.proven = make([]int, len(m.waves)), make([]bool, len(m.waves))
	sum := 0
	for w := range m.waves {
		if w < len(in.Ended) {
			sum += in.Ended[w].Hosts
			if m.proven[w] = in.Ended[w].Proven; in.Ended[w].Begun {
				m.begun = w + 1
			}
		}
		m.ended[w] = sum
	}
	m.waves = append(m.waves, int32(len(in.Hosts)))
	return m, nil
}

// host makes the model's host of h. A stage that fits no window leaves its reason in never.
func (m *model) host(h Host, in Input) (host, error) {
	out := host{name: h.Name, ha: none, group: none, never: h.Never != "", why: h.Never, wave: int32(h.Wave)}
	if h.Work == nil || len(h.Work.Stages) == 0 {
		return out, fmt.Errorf("it has nothing to do: %w", core.ErrInvalid)
	}
	if in.HAGroups && h.HAGroup != "" {
		out.ha = m.groupOf(ByHAGroup, h.HAGroup)
	}
	if in.PerGroup > 0 && h.Group != "" {
		out.group = m.groupOf(ByGroup, h.Group)
	}
	out.work = h.Work
	out.stages = make([]*fit, len(h.Work.Stages))
	out.windowed = -1
	for k, s := range h.Work.Stages {
		if !s.Windowed {
			continue
		}
		set := cmp.Or(s.Windows, h.Windows)
		if set == nil {
			return out, fmt.Errorf("a gated stage without windows: %w", core.ErrInvalid)
		}
		f, err := m.fitOf(set, s.Need)
		if err != nil {
			return out, err
		}
		out.stages[k] = f
		if out.windowed < 0 {
			out.windowed = int32(k)
		}
		if why := f.never(in.At); why != "" && !out.never {
			out.never, out.why = true, why
		}
	}
	return out, nil
}

// impossible sets which hosts cannot start, and when the others may by their windows alone.
func (m *model) impossible(out []HostResult) {
	for i := range m.hosts {
		h := &m.hosts[i]
		if h.never {
			out[i].Never = h.why
			continue
		}
		start := m.at
		if h.windowed >= 0 {
			start, _, _ = h.stages[h.windowed].next(m.at)
		}
		out[i].Earliest = instant(start)
	}
}

type fitKey struct {
	set  *windows.Compiled
	need time.Duration
}

// fit is a window set for work of one need: only windows in which it fits.
type fit struct {
	set      *windows.Compiled
	need     time.Duration
	starts   []startSpan // ascending
	more     []startSpan // with what is not approved; nil: there is none
	maxMiss  int         // as many windows missed, and a new approval is needed; 0: no limit
	deadline int64       // of the start
}

// startSpan is when work may start in one window: both ends included.
type startSpan struct{ first, last int64 }

func (m *model) fitOf(set *windows.Compiled, need time.Duration) (*fit, error) {
	if need <= 0 {
		return nil, fmt.Errorf("how long the work needs is not known: %w", core.ErrInvalid)
	}
	k := fitKey{set, need}
	if f := m.fits[k]; f != nil {
		return f, nil
	}
	f := &fit{set: set, need: need, deadline: never}
	if c := set.Carry; c != nil {
		f.maxMiss = c.Max
		if !c.Deadline.IsZero() {
			f.deadline = c.Deadline.UnixNano()
		}
	}
	takes := int64(max(need, set.Cutoff))
	if set.Reason() == "" {
		end := set.Horizon.To.UnixNano()
		for _, w := range set.Occurrences(instant(m.at), set.Horizon.To) {
			s := startSpan{max(w.Open.UnixNano(), m.at), min(w.Close.UnixNano()-takes, end-1)}
			if s.last < s.first {
				continue
			}
			if w.Unapproved == "" {
				f.starts = append(f.starts, s)
			} else {
				f.more = append(f.more, s)
			}
		}
	}
	if len(f.more) > 0 {
		f.more = append(f.more, f.starts...)
		slices.SortFunc(f.more, func(a, b startSpan) int { return cmp.Compare(a.first, b.first) })
	}
	m.fits[k] = f
	return f, nil
}

// next is the first start at or after t, and the last start in the same window.
func (f *fit) next(t int64) (start, last int64, ok bool) { return nextIn(f.starts, t) }

// nextIn bisects by hand: a closure would cost a call for each of millions.
func nextIn(list []startSpan, t int64) (start, last int64, ok bool) {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); list[mid].last >= t {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == len(list) {
		return 0, 0, false
	}
	return max(t, list[lo].first), list[lo].last, true
}

// never is why nothing can start from at on, or "".
func (f *fit) never(at time.Time) string {
	start, err := f.set.Next(at, f.need)
	if err != nil {
		return strings.TrimPrefix(err.Error(), windows.ErrClosed.Error()+": ")
	}
	if start.UnixNano() >= f.deadline {
		return fmt.Sprintf("window set %s: the first window that fits opens at %s, after the deadline of its carry_over, %s: it needs a new approval",
			f.set.Name, start.In(f.set.Zone).Format("2006-01-02 15:04 MST"), f.set.Carry.Deadline.In(f.set.Zone).Format("2006-01-02 15:04 MST"))
	}
	return ""
}

// draw fills took, host by host and stage by stage, with the durations of one sample.
func (m *model) draw(took []int64, sample uint64) {
	rng := rand.New(rand.NewPCG(m.seed, sample)) //nolint:gosec // an estimate, repeatable on purpose
	for i := range m.hosts {
		for k, stage := range m.hosts[i].work.Stages {
			sum := 0.0
			for s := range stage.Steps {
				sum += stage.Steps[s].draw(rng)
			}
			took[i*m.stages+k] = int64(min(sum, 1e18)) // 30 years
		}
	}
}

// draw is one duration of the step, its retries included.
func (s *Step) draw(rng *rand.Rand) float64 {
	sum := s.Took.at(rng.Float64())
	for n := 1; n < s.Attempts && s.Fails > 0 && rng.Float64() < s.Fails; n++ {
		sum += float64(s.Backoff.Delay(n-1, rng.Float64())) + s.Took.at(rng.Float64())
	}
	return sum
}

// limits are the bounds that a simulation keeps to. Lifting them in turn shows which of them binds.
type limits struct {
	concurrency, inFlight int // maxInt: none
	perGroup              int32
	pause                 int64
	barriers              bool
	wait                  bool // a wave waits for its hosts' windows
	next                  rollout.NextWave
	approveAll            bool   // windows that are not approved are open
	approve               string // those of this set
	noWindows             bool
	freeSet               string // set that is always open
	free                  int32  // group without a limit
	freeAll               Cause  // all groups of this kind without one
}

func limitsOf(in Input) limits {
	l := limits{concurrency: in.Concurrency, inFlight: in.MaxInFlight, perGroup: int32(in.PerGroup), pause: int64(in.Pause), barriers: true, wait: in.WaitForWindows, next: in.NextWaveAt, free: none}
	l.concurrency = cmp.Or(l.concurrency, math.MaxInt)
	l.inFlight = cmp.Or(l.inFlight, math.MaxInt)
	return l
}

// full is why no more jobs start when as many run as may.
func (l *limits) full() Cause {
	if l.inFlight < l.concurrency {
		return ByInFlight
	}
	return ByConcurrency
}

// span and instant are the public forms of times and lengths, which the model keeps in nanoseconds.
func span(ns int64) time.Duration { return time.Duration(ns) }

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }
