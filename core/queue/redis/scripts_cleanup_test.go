package redis

import (
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// closing makes a cancelled run of n jobs, each of which waits for its cleanup, and returns its
// number.
func (b bench) closing(id string, n int) (no int64) {
	b.Helper()
	no = b.submit(id, n)
	s := b.open()
	b.ack(s, b.lease(s, n), func(a *queue.Ack) { a.Kind, a.Event, a.Cleanup = queue.AckSuspend, "e", true })
	b.must(b.q.Cancel(b.Context(), id, "enough"))
	b.must(b.q.Close(b.Context(), s))
	return no
}

// turnClosesBounded: at most 16 jobs a turn are leased for their cleanup, of which no other set
// knows.
func turnClosesBounded(b bench) {
	no := b.closing("closing", 20)
	b.has("20", "zcard", b.key("kClosing"))
	b.has("0", "exists", b.key("kSweep"), b.key("kReady"), b.run(no, "xQueue"), b.run(no, "xSuspended"), b.run(no, "xEvents"))
	s := b.open()
	l := b.lease(s, 16)
	b.has("4", "zcard", b.key("kClosing"))
	b.ack(s, append(l, b.lease(s, 4)...), func(a *queue.Ack) { a.Outcome = core.Cancelled })
	b.has("0", "exists", b.key("kClosing"), b.run(no, "xJobs"))
	b.sound()
}

// tidyMendsCleanup: damage to jobs that wait for their cleanup is found, and mended.
func tidyMendsCleanup(b bench) {
	no := b.closing("mended", 3)
	s := b.open()
	leased := b.lease(s, 1)
	key := func(index int) string { return fmt.Sprintf("%014d/%08d", no, index) }
	other := (leased[0].Job.Index + 1) % 3
	for _, damage := range [][]any{
		{"zrem", b.key("kClosing"), key(other)},
		{"del", b.key("kClosing")},
		{"zadd", b.key("kClosing"), 1, key(leased[0].Job.Index)},
	} {
		b.sound()
		b.do(damage...)
		if found, err := b.q.Check(b.Context(), false); err != nil || len(found) == 0 {
			b.Errorf("%v: Check: %v, %v", damage, found, err)
		}
		_, err := b.q.Check(b.Context(), true)
		b.must(err)
		b.sound()
		b.has("2", "zcard", b.key("kClosing"))
	}
	b.ack(s, append(leased, b.lease(s, 2)...), func(a *queue.Ack) { a.Outcome = core.Cancelled })
	if st := b.status("mended"); !st.Complete {
		b.Errorf("%+v", st)
	}
}
