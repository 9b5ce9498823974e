package forecast

import (
	"cmp"
	"slices"
	"time"
)

// maxSteps bounds the events of one forecast. Past it fewer samples are taken, but never
// fewer than leastSamples: thousands of hosts on one slot miss a window each day.
const (
	maxSteps     = 12_000_000
	leastSamples = 20
)

// observations are the results of the samples.
type observations struct {
	m                 *model
	samples           int
	begin, start, end [][]int64 // by host, then sample
	misses            []int
	gave              []int
	finish            []int64 // by sample; -1: no host was done
	steps             int     // events of a sample, in the mean
	missed            int     // hosts that missed a window, over all samples
}

func newObservations(m *model) *observations {
	n := len(m.hosts)
	o := &observations{m: m, misses: make([]int, n), gave: make([]int, n), finish: make([]int64, m.samples)}
	for _, list := range []*[][]int64{&o.begin, &o.start, &o.end} {
		all := make([]int64, n*m.samples)
		*list = make([][]int64, n)
		for i := range n {
			(*list)[i] = all[i*m.samples : i*m.samples : (i+1)*m.samples]
		}
	}
	return o
}

// observe simulates all samples, or as many as maxEvents allows.
func (m *model) observe(l limits) *observations {
	o := newObservations(m)
	first := min(leastSamples, m.samples)
	steps := m.simulate(l, 0, first, o.add)
	o.steps = steps / first
	if most := m.maxEvents / max(o.steps, 1); m.samples > first {
		m.simulate(l, first, min(m.samples, max(most, first)), o.add)
	}
	o.finish = o.finish[:o.samples]
	return o
}

// add takes the outcome of sample k.
func (o *observations) add(k int, s *sim) {
	o.samples++
	for i := range o.m.hosts {
		if s.missed[i] > 0 {
			o.misses[i] += int(s.missed[i])
			o.missed++
		}
		if s.gave[i] {
			o.gave[i]++
		}
		if s.end[i] == never {
			continue
		}
		o.begin[i] = append(o.begin[i], s.begin[i])
		o.start[i] = append(o.start[i], s.start[i])
		o.end[i] = append(o.end[i], s.end[i])
	}
	last, ok := s.finished()
	if !ok {
		last = -1
	}
	o.finish[k] = last
}

// summarise fills in the quantiles.
func (o *observations) summarise(r *Result) {
	r.Samples = o.samples
	n := float64(o.samples)
	for i := range r.Hosts {
		h := &r.Hosts[i]
		h.Misses, h.Unfinished = float64(o.misses[i])/n, float64(o.gave[i])/n
		r.Unfinished += h.Unfinished
		if len(o.end[i]) == 0 {
			continue
		}
		h.Begin, h.Start = quantile(o.begin[i], 0.5), quantile(o.start[i], 0.5)
		h.Finish = quantile(o.end[i], 0.5)
		h.Late = quantile(o.end[i], 0.9)
	}
	r.Missed = float64(o.missed) / n
	ends := slices.DeleteFunc(slices.Clone(o.finish), func(t int64) bool { return t < 0 })
	if len(ends) > 0 {
		r.FinishP50, r.FinishP90 = quantile(ends, 0.5), quantile(ends, 0.9)
	}
}

// median is the sample whose end is the P50.
func (o *observations) median() int {
	order := make([]int, len(o.finish))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.finish[a], o.finish[b]) })
	return order[rank(len(order), 0.5)]
}

// quantile sorts the list.
func quantile(list []int64, p float64) time.Time {
	slices.Sort(list)
	return instant(list[rank(len(list), p)])
}

// rank is the nearest rank of a quantile: the smallest index that a share p of all does not exceed.
func rank(n int, p float64) int {
	const almostOne = 0.999999 // rounds up, except what a product of floats is over a whole number
	return min(max(int(p*float64(n)+almostOne)-1, 0), n-1)
}
