package core

import (
	"math"
	"time"
)

// Seconds is a duration as people and programs read it: a number of seconds. Every duration of the
// API and of -o json is one, and its name ends in _seconds. The ledger and the queue keep
// nanoseconds.
type Seconds float64

// InSeconds returns a duration in seconds, rounded to the microsecond, so that it stays short.
func InSeconds(d time.Duration) Seconds {
	return Seconds(math.Round(float64(d)/float64(time.Microsecond)) / 1e6)
}

// Duration returns the seconds as a duration. Numbers that no duration can hold, and what is not a
// number, give the nearest one.
func (s Seconds) Duration() time.Duration {
	ns := math.Round(float64(s)*1e6) * 1e3
	switch {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(ns)
}
