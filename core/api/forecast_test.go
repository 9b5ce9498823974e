package api

import (
	"testing"
	"time"
)

func TestBeside(t *testing.T) {
	at := func(minutes int) time.Time {
		return time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
	}
	x := &Expectation{FinishP50: at(60), FinishP90: at(80)}
	for _, c := range []struct {
		ended, now time.Time
		want       string
	}{
		{time.Time{}, at(70), ""},
		{time.Time{}, at(80).Add(30 * time.Second), "late by 30s so far"},
		{at(0), at(90), "it ended 1h0m before its P50"},
		{at(60), at(90), "it ended between both"},
		{at(80).Add(300 * time.Millisecond), at(90), "it ended at its P90"},
		{at(80).Add(1200 * time.Millisecond), at(90), "it ended 1s after its P90"},
		{at(85), at(90), "it ended 5m after its P90"},
	} {
		if got := x.Beside(c.ended, c.now); got != c.want {
			t.Errorf("ended %v, now %v: %q, expected %q", c.ended, c.now, got, c.want)
		}
	}
}
