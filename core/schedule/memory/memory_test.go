package memory_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/schedule/scheduletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(scheduletest.TB) schedule.Store { return memory.New() }

// TestConformance runs in fake time: minutes pass in no time, and a hang is found as a deadlock.
func TestConformance(t *testing.T) {
	scheduletest.Run(t, scheduletest.Subject{
		Open:   open,
		Around: func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) },
	})
}

// TestConformanceInRealTime is what other stores are put under.
func TestConformanceInRealTime(t *testing.T) {
	scheduletest.Run(t, scheduletest.Subject{Open: open})
}
