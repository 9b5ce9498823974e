//go:build !linux

package worker

import "time"

// suspended is always 0: this system does not report suspended time.
func suspended() time.Duration { return 0 }
