package redis

import (
	"strconv"
	"time"

	"github.com/turnus/turnus/core/queue"
)

// A dropped run is swept and forgotten under its number, and takes nothing of the run that has its
// id since.
func dropEndsUnderItsNumber(b bench) {
	paused := func(r *queue.Run) { r.Paused = true }
	for _, jobs := range []int{1, 300} {
		r := "r" + strconv.Itoa(jobs)
		b.submit(r, jobs, paused)
		b.returns(b.q.scripts.drop, "1", r, 1)
		b.returns(b.q.scripts.drop, "1", r, 1) // it is not there
		b.submit(r, jobs)
		s := b.open()
		if got := len(b.lease(s, min(jobs, 200))); got != min(jobs, 200) {
			b.Errorf("%d jobs of the second run were leased", got)
		}
		for range 10 { // sweeps the rest of the first
			b.call(b.q.scripts.turn, s, 0, time.Hour.Microseconds(), 0, "")
		}
		for _, no := range b.do("zrange", b.key("kDone"), 0, -1).([]any) {
			b.do("zadd", b.key("kDone"), 1, no) // its retention has ended
		}
		b.call(b.q.scripts.beat, s, time.Hour.Microseconds())
		if n := b.do("zcard", b.key("kDone")); n != int64(0) {
			b.Errorf("%v complete runs are kept", n)
		}
		if st, err := b.q.Status(b.Context(), r); err != nil || st.InFlight != min(jobs, 200) {
			b.Errorf("the second run: %+v, %v", st, err)
		}
		b.must(b.q.Cancel(b.Context(), r, ""))
		b.must(b.q.Close(b.Context(), s))
	}
}

func dropRefuses(b bench) {
	b.submit("active", 2)
	b.unchanged("drop of a run that is not paused", func() { b.returns(b.q.scripts.drop, "0", "active", 1) })
	s := b.open()
	b.lease(s, 1)
	yes := true
	b.must(queue.AdjustOne(b.Context(), b.q, "active", queue.Adjust{Paused: &yes}))
	b.unchanged("drop of a run with a job in flight", func() { b.returns(b.q.scripts.drop, "0", "active", 1) })
	b.submit("even", 2, func(r *queue.Run) { r.Paused = true })
	b.unchanged("drop of a run that is not behind", func() { b.returns(b.q.scripts.drop, "0", "even", 0) })
}

// A hold of an emptied queue lasts for the life of a session, and is nothing to compare.
func recoveryHolds(b bench) {
	b.returns(b.q.scripts.recovery, "[]", "")
	b.submit("r", 1)
	s := b.open()
	b.returns(b.q.scripts.recovery, "[]", "hold")
	b.returns(b.q.scripts.recovery, "[]", "hold") // by another server
	b.returns(b.q.scripts.recovery, "[]", "trust", "-")
	if got := b.turnLeases(s); got != 0 {
		b.Errorf("%d jobs were leased by a queue that must lease none", got)
	}
	b.do("hset", b.key("kMeta"), "until", 1)
	if got := b.turnLeases(s); got != 1 {
		b.Errorf("%d jobs were leased after the hold", got)
	}
}

func (b bench) turnLeases(session string) int {
	b.Helper()
	res, err := b.q.Turn(b.Context(), queue.Turn{Session: session, Want: 1})
	b.must(err)
	return len(res.Leases)
}
