package queue

import "time"

// Fairness arithmetic, the same for all implementations (the Lua scripts
// repeat it; queuetest compares). Ranks are exact integers below 2^53, so
// they survive a double.
//
// A flow's rank is floor(64·inflight/weight)·2^32 + tag. The tag is served worker
// time over weight in units of TagUnit, and orders flows with equal shares in
// flight. When a flow becomes ready after having had nothing to lease, its tag is
// max(tag, V), where V is the tag of its level's last dispatch: idle time earns no credit.
const (
	TagUnit   = 10 * time.Millisecond
	rankShift = 1 << 32
	maxShare  = 1<<20 - 1
)

// Rank orders tenants, and the flows of one tenant; the lowest goes first.
// Equal ranks are ordered by head start (see HeadStart), then by time of submission.
func Rank(inFlight, weight int, tag int64) int64 {
	share := min(int64(64*inFlight/max(weight, 1)), maxShare)
	return share*rankShift + min(max(tag, 0), rankShift-1)
}

// HeadStart is the part of a run's tag that its priority removes when it first becomes ready: at
// most 10 s of worker time a unit of weight, so that nobody starves.
func HeadStart(priority int) int64 {
	return int64(min(max(priority, -MaxPriority), MaxPriority)) * int64(time.Second/TagUnit)
}
