package queuetest

import (
	"errors"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var signalJobTests = []test{
	{name: "WakeJobWakesOne", run: signalOne},
	{name: "WakeJobRefuses", run: signalOneRefuses},
}

func (f *fixture) signalJob(index int, want bool) {
	f.Helper()
	signalled, err := f.q.SignalJob(f.ctx, core.JobID{Run: "a", Index: index}, "e")
	f.must(err)
	eq(f, "signalled", signalled, want)
}

func signalOne(f *fixture) {
	f.submit(run("a", 4))
	s := f.open("n")
	leases := f.leaseN(s, 4)
	acks := make([]queue.Ack, 4)
	for i, l := range leases {
		acks[i] = suspend(l, "e")
		acks[i].State = []byte("state")
	}
	acks[1].After = time.Hour
	acks[3].Event = "other"
	f.ack(s, acks...)
	f.none(s, "all wait")
	f.signalJob(3, false)
	f.signalJob(1, true)
	f.signalJob(1, false) // it waits no more
	l := f.one(s)
	eq(f, "job", l.Job.Index, 1)
	eq(f, "state", string(l.State), "state")
	eq(f, "attempt", l.Attempt, 1)
	f.none(s, "the others wait still")
	f.signalJob(1, false) // it is leased
	f.ack(s, suspend(l, "e"))
	f.signalJob(1, true) // once more, as often as it waits
	f.ack(s, done(f.one(s), core.Changed))
	f.signalJob(1, false)
	eq(f, "suspended", f.status("a").Suspended, 3)
	n, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	eq(f, "signalled together", n, 2)
}

func signalOneRefuses(f *fixture) {
	f.submit(run("a", 1))
	for _, c := range []struct {
		job   core.JobID
		event string
		want  error
	}{
		{core.JobID{Run: "b"}, "e", core.ErrNotFound},
		{core.JobID{Run: "a", Index: 1}, "e", core.ErrInvalid},
		{core.JobID{Run: "a", Index: -1}, "e", core.ErrInvalid},
		{core.JobID{Run: "a"}, "", core.ErrInvalid},
		{core.JobID{Run: "a"}, strings.Repeat("e", queue.MaxIDLength+1), core.ErrInvalid},
	} {
		if _, err := f.q.SignalJob(f.ctx, c.job, c.event); !errors.Is(err, c.want) {
			f.Errorf("WakeJob(%v, %q): %v, expected %v", c.job, c.event, err, c.want)
		}
	}
}
