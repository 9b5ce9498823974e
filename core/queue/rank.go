package queue

import (
	"math/bits"
	"time"
)

// Fairness arithmetic, the same for all implementations (the Lua scripts
// repeat it; their test compares). Ranks are exact integers below 2^53, so
// they survive a double.
//
// A flow's rank is floor(64·inflight/weight)·2^32 + the place of its tag. The tag is served worker
// time over weight in units of TagUnit, and orders flows with equal shares in
// flight. When a flow becomes ready after having had nothing to lease, its tag is
// max(tag, V), where V is the tag of its level's last dispatch: idle time earns no credit.
const (
	TagUnit   = 10 * time.Millisecond
	rankShift = 1 << 32
	maxShare  = 1<<20 - 1
	exactTags = 1 << 31 // 248 days of worker time
	octaveLog = 26
)

// Rank orders tenants, and the flows of one tenant; the lowest goes first.
// Equal ranks are ordered by head start (see HeadStart), then by time of submission.
func Rank(inFlight, weight int, tag int64) int64 {
	share := min(int64(64*inFlight/max(weight, 1)), maxShare)
	return share*rankShift + tagPlace(max(tag, 0))
}

// tagPlace maps tags to less than 2^32, in their order. Tags only grow, without a maximum. Each tag
// below exactTags has a place of its own. Above, 2^26 places follow for each doubling, so two tags
// that differ by more than a 2^26th of the smaller one have different places.
func tagPlace(tag int64) int64 {
	if tag < exactTags {
		return tag
	}
	octave := bits.Len64(uint64(tag)) - 32
	return exactTags + int64(octave)<<octaveLog + tag>>(octave+31-octaveLog) - 1<<octaveLog
}

// HeadStart is the part of a run's tag that its priority removes when it first becomes ready: at
// most 10 s of worker time a unit of weight, so that nobody starves.
func HeadStart(priority int) int64 {
	return int64(min(max(priority, -MaxPriority), MaxPriority)) * int64(time.Second/TagUnit)
}
