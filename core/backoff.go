package core

import "time"

// Backoff is capped exponential backoff: the delay before attempt n+2 is min(Interval·2^n, Max),
// plus a random share of that delay up to Jitter.
type Backoff struct {
	Interval time.Duration `json:"interval,omitempty"` // first delay; 0 means none
	Max      time.Duration `json:"max,omitempty"`      // cap; 0 means Interval·2^16
	Jitter   float64       `json:"jitter,omitempty"`   // 0 to 1: share of the delay added at most
}

// Delay is the pause after the failed attempt n (from 0). random is in [0,1).
func (b Backoff) Delay(n int, random float64) time.Duration {
	d := b.Interval << min(max(n, 0), 16)
	if d>>min(max(n, 0), 16) != b.Interval { // overflow
		d = 1<<63 - 1
	}
	if b.Max > 0 {
		d = min(d, b.Max)
	}
	extra := time.Duration(float64(d) * b.Jitter * random)
	if d > 1<<63-1-extra {
		return d
	}
	return d + extra
}

// Worst is the longest that n retries can be put off in sum.
func (b Backoff) Worst(n int) time.Duration {
	var sum time.Duration
	for i := range n {
		d := b.Delay(i, 1)
		if sum > 1<<63-1-d {
			return 1<<63 - 1
		}
		sum += d
	}
	return sum
}
