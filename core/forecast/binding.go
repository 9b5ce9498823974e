package forecast

import (
	"cmp"
	"slices"
	"time"
)

// The constraint that binds is found by lifting in turn every limit that delayed a host, and
// simulating the run again with the same durations. That constraint lets the most hosts finish that
// otherwise do not, or else ends the run the earliest. The alternative is to follow the chain of
// events that ended last. It names the last cause even where another one would have taken its place
// immediately.
const (
	liftSamples     = 12 // of each limit that is lifted
	fewLiftSamples  = 5  // the same, where one sample has over 1/manyEvents of the model's maxEvents
	manyEvents      = 400
	maxNamed        = 4 // sets and groups tried by name
	lastHosts       = 8 // of each wave, whose waits show which are worth trying
	minGain         = time.Second
	minGainShare    = 200 // what gains less than 1/minGainShare of the run does not bind
	nearlyAllTenths = 9   // a narrower limit that gains so much of the widest's is named instead
)

// binding tries the limits that delayed the hosts that were last in s, which has a trace.
func (m *model) binding(in Input, s *sim, o *observations) (Constraint, []Constraint) {
	samples := min(liftSamples, m.samples)
	if o.steps > m.maxEvents/manyEvents {
		samples = min(samples, fewLiftSamples)
	}
	base := m.finish(limitsOf(in), samples)
	var tried []Constraint
	for _, c := range m.candidates(s) {
		tried = append(tried, c.without(base, m.finish(m.lift(limitsOf(in), c), samples)))
	}
	slices.SortStableFunc(tried, func(a, b Constraint) int { return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(b.Gain, a.Gain)) })
	best := Constraint{Cause: ByWork}
	if len(tried) > 0 && (tried[0].Hosts > 0 || tried[0].Gain >= max(minGain, span(base.at-m.at)/minGainShare)) {
		best = preferNamed(tried)
	}
	return best, tried
}

// without is the constraint with what lifting it changes. An end at which more hosts are done, or
// fewer, is neither earlier nor later: there the hosts count, and no time.
func (c Constraint) without(base, lifted ending) Constraint {
	switch {
	case lifted.undone < base.undone:
		c.Hosts = base.undone - lifted.undone
	case lifted.undone == base.undone:
		c.Gain = max(span(base.at-lifted.at), 0)
	}
	return c
}

// preferNamed takes the narrower limit that does nearly all that the widest does: the one set or
// group of all of its kind, the pause of the waves that it stands between.
func preferNamed(tried []Constraint) Constraint {
	best := tried[0]
	for _, c := range tried[1:] {
		narrower := c.Cause == best.Cause && best.Name == "" && c.Name != "" || c.Cause == ByPause && best.Cause == ByWaves
		if narrower && c.Hosts*10 >= best.Hosts*nearlyAllTenths && c.Gain*10 >= best.Gain*nearlyAllTenths {
			return c
		}
	}
	return best
}

// ending is how a run ends, in the median of its samples.
type ending struct {
	undone int   // hosts that find no window any more, or need a new approval
	at     int64 // when the last of the others is done
}

// finish is the ending under other limits.
func (m *model) finish(l limits, samples int) ending {
	ends, undone := make([]int64, 0, samples), make([]int, 0, samples)
	m.simulate(l, 0, samples, func(_ int, s *sim) {
		end, gave := m.at, 0
		for i, t := range s.end {
			switch {
			case s.gave[i]:
				gave++
			case t != never:
				end = max(end, t)
			}
		}
		ends, undone = append(ends, end), append(undone, gave)
	})
	slices.Sort(undone)
	return ending{undone: undone[rank(len(undone), 0.5)], at: quantile(ends, 0.5).UnixNano()}
}

// candidates are the limits that delayed the last hosts of each wave, also by their names, and
// those that hold in any case.
func (m *model) candidates(s *sim) []Constraint {
	total := map[Constraint]time.Duration{}
	for w := range len(m.waves) - 1 {
		last := make([]int32, 0, m.waves[w+1]-m.waves[w])
		for h := m.waves[w]; h < m.waves[w+1]; h++ {
			if s.end[h] != never || s.gave[h] {
				last = append(last, h)
			}
		}
		slices.SortFunc(last, func(a, b int32) int { return cmp.Or(cmp.Compare(s.end[b], s.end[a]), cmp.Compare(a, b)) })
		for _, h := range last[:min(lastHosts, len(last))] {
			for _, hold := range s.holds[h] {
				total[Constraint{Cause: hold.Cause, Name: hold.Name}] += hold.For
				if hold.Cause == ByWindows && m.unapproved(h) {
					total[Constraint{Cause: ByApproval, Name: hold.Name}] += hold.For
				}
			}
		}
	}
	var out []Constraint
	for _, cause := range []Cause{ByWindows, ByApproval, ByConcurrency, ByInFlight, ByGroup, ByHAGroup, ByWaves, ByPause} {
		var named []Constraint
		for c := range total {
			if c.Cause == cause {
				named = append(named, c)
			}
		}
		if len(named) == 0 {
			continue
		}
		slices.SortFunc(named, func(a, b Constraint) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a.Name, b.Name)) })
		if named[0].Name == "" {
			out = append(out, named[0])
			continue
		}
		if len(named) > 1 {
			out = append(out, Constraint{Cause: cause})
		}
		out = append(out, named[:min(maxNamed, len(named))]...)
	}
	return out
}

// unapproved reports whether the host's windows have some that are not approved.
func (m *model) unapproved(h int32) bool {
	return slices.ContainsFunc(m.hosts[h].stages, func(f *fit) bool { return f != nil && f.more != nil })
}

// lift takes one limit away.
func (m *model) lift(l limits, c Constraint) limits {
	big := limitsOf(Input{})
	switch c.Cause {
	case ByWindows:
		if c.Name == "" {
			l.noWindows = true
		}
		l.freeSet = c.Name
	case ByApproval:
		l.approve, l.approveAll = c.Name, c.Name == ""
	case ByConcurrency:
		l.concurrency = big.concurrency
	case ByInFlight:
		l.inFlight = big.inFlight
	case ByGroup, ByHAGroup:
		if c.Name == "" {
			l.freeAll = c.Cause
			break
		}
		l.free = m.groups[groupKey{c.Cause, c.Name}]
	case ByWaves:
		l.barriers = false
	case ByPause:
		l.pause = 0
	}
	return l
}
