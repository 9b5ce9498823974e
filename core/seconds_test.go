package core_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d    time.Duration
		want string
		back time.Duration
	}{
		{0, "0", 0},
		{90 * time.Minute, "5400", 90 * time.Minute},
		{1500 * time.Millisecond, "1.5", 1500 * time.Millisecond},
		{1234567890, "1.234568", 1234568 * time.Microsecond},
		{123 * time.Microsecond, "0.000123", 123 * time.Microsecond},
		{-2 * time.Second, "-2", -2 * time.Second},
		{499, "0", 0},
	} {
		text, err := json.Marshal(core.InSeconds(tt.d))
		if err != nil || string(text) != tt.want {
			t.Errorf("%v is %s, want %s (%v)", tt.d, text, tt.want, err)
		}
		var s core.Seconds
		if err := json.Unmarshal(text, &s); err != nil || s.Duration() != tt.back {
			t.Errorf("%s is %v, want %v (%v)", text, s.Duration(), tt.back, err)
		}
	}
}

func TestSecondsBeyondADuration(t *testing.T) {
	t.Parallel()
	for s, want := range map[core.Seconds]time.Duration{
		1e300: math.MaxInt64, -1e300: math.MinInt64, core.Seconds(math.Inf(1)): math.MaxInt64, core.Seconds(math.NaN()): 0,
	} {
		if got := s.Duration(); got != want {
			t.Errorf("%v is %v, want %v", s, got, want)
		}
	}
}
