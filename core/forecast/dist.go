package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Dist is how long something takes: its quantiles at even steps, with straight lines
// between them. The zero Dist takes no time. It is immutable.
type Dist struct{ q []float64 } // nanoseconds, ascending

// maxQuantiles is how many a Dist keeps of many observations.
const maxQuantiles = 129

// Observed is the distribution of what was measured. Without any it is the zero Dist.
func Observed(took []time.Duration) Dist {
	if len(took) == 0 {
		return Dist{}
	}
	all := core.Map(took, func(d time.Duration) float64 { return float64(max(d, 0)) })
	slices.Sort(all)
	d := Dist{all}
	if len(all) <= maxQuantiles {
		return d
	}
	few := make([]float64, maxQuantiles)
	for i := range few {
		few[i] = d.at(float64(i) / (maxQuantiles - 1))
	}
	return Dist{few}
}

// Assumed is a log-normal distribution with this median and 95 % quantile, cut at the 99.5 %
// quantile: durations have a long tail on one side. Its error wraps core.ErrInvalid.
func Assumed(median, p95 time.Duration) (Dist, error) {
	if median <= 0 || p95 < median {
		return Dist{}, fmt.Errorf("durations with the median %s and p95 %s: expected 0 < median ≤ p95: %w", median, p95, core.ErrInvalid)
	}
	sigma := math.Log(float64(p95)/float64(median)) / normal(0.95)
	q := make([]float64, 101) // the P50 and the P95 are among them
	for i := range q {
		p := min(max(float64(i)/100, 0.005), 0.995)
		q[i] = float64(median) * math.Exp(sigma*normal(p))
	}
	return Dist{q}, nil
}

// normal is the quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// Quantile is the duration that a share p of all stays under; p is 0 to 1.
func (d Dist) Quantile(p float64) time.Duration {
	return time.Duration(d.at(min(max(p, 0), 1)))
}

// at is the quantile in nanoseconds.
func (d Dist) at(p float64) float64 {
	switch len(d.q) {
	case 0:
		return 0
	case 1:
		return d.q[0]
	}
	x := p * float64(len(d.q)-1)
	i := min(int(x), len(d.q)-2)
	return d.q[i] + (x-float64(i))*(d.q[i+1]-d.q[i])
}
