//go:build !linux

package worker

import "time"

// asleep is not known on this system.
func asleep() time.Duration { return 0 }
