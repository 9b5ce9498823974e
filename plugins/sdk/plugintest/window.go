package plugintest

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Window scripts the host's window: open from the instants of opens on for so long each.
// While it is closed, Checkpoint and MayStart hold the job; MayStart also when less is left than
// it asks for. The instants are compared with time.Now.
func Window(opens ...Opening) Option {
	return func(c *call) {
		c.window = func(need time.Duration) string {
			now := time.Now()
			for _, o := range opens {
				left := o.For - now.Sub(o.From)
				if now.Before(o.From) || left <= 0 {
					continue
				}
				if left < need {
					return fmt.Sprintf("the window closes in %v; %v are needed", left, need)
				}
				return ""
			}
			return "the window is closed"
		}
	}
}

// Opening is one time during which a window is open.
type Opening struct {
	From time.Time
	For  time.Duration
}

// Open is a window that is open now, for so long.
func Open(d time.Duration) Option { return Window(Opening{From: time.Now(), For: d}) }

// Shut is a window that is closed: the first Checkpoint or MayStart holds the job.
func Shut() Option { return Window() }

// ShutAfter is a window that holds the job at the nth question, counted from 0 over
// Checkpoint and MayStart alike: it closed while the job ran.
func ShutAfter(n int) Option {
	return func(c *call) {
		var asked atomic.Int64
		c.window = func(time.Duration) string {
			if asked.Add(1) > int64(n) {
				return "the window has closed meanwhile"
			}
			return ""
		}
	}
}
