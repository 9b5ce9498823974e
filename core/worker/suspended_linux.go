package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns how long the machine was suspended since its boot: by so much CLOCK_BOOTTIME is
// ahead of CLOCK_MONOTONIC, which Go uses. The boot clock is read between two readings of the
// other, because a process that is stopped between two readings would count the stop as suspended
// time.
func suspended() time.Duration {
	least := time.Duration(-1)
	for range 3 {
		before, boot, after := read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC)
		if d := boot - before; least < 0 || d < least {
			least = d
		}
		if after-before < time.Millisecond {
			break
		}
	}
	return least
}

func read(clock int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0 // neither clock is missing on a system that Go runs on
	}
	return time.Duration(t.Nano())
}
