package queuetest

import (
	"errors"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var guestTests = []test{
	{name: "GuestIsAlone", run: guestAlone},
	{name: "GuestLeavesWithItsLease", run: guestLease},
	{name: "GuestLeavesWithItsNode", ttl: shortTTL, run: guestCrash},
	{name: "GuestAndTheHostsOwnJob", run: guestBeside},
	{name: "GuestEntersAgain", run: guestAgain},
	{name: "GuestWaitsUntilJobsAreLeased", ttl: shortTTL, run: guestHeld},
	{name: "GuestRefuses", run: guestRefuses},
}

func guest(session string, l queue.Lease, host string) queue.Guest {
	return queue.Guest{Session: session, Job: l.Job, Token: l.Token, Host: host}
}

// enter returns the fence of a job on a host, 0 where another job is the guest.
func (f *fixture) enter(session string, l queue.Lease, host string) uint64 {
	f.Helper()
	fence, err := f.q.Enter(f.ctx, guest(session, l, host))
	f.must(err)
	return fence
}

func (f *fixture) entered(what string, session string, l queue.Lease, host string, want bool) {
	f.Helper()
	eq(f, what, f.enter(session, l, host) > 0, want)
}

// guestAlone: a host has one guest, and fences grow from guest to guest and above those of leases.
func guestAlone(f *fixture) {
	f.submit(run("a", 3))
	s := f.open("n")
	l := f.leaseN(s, 3)
	first := f.enter(s, l[2], "lb")
	if first <= l[2].Token {
		f.Errorf("fence %d is not above the lease's %d", first, l[2].Token)
	}
	f.entered("a second guest", s, l[0], "lb", false)
	f.entered("on another host", s, l[0], "lb2", true)
	again := f.enter(s, l[2], "lb")
	f.must(f.q.Leave(f.ctx, guest(s, l[1], "lb"))) // it is none
	f.entered("after another job left", s, l[0], "lb", false)
	f.must(f.q.Leave(f.ctx, guest(s, l[2], "lb")))
	f.must(f.q.Leave(f.ctx, guest(s, l[2], "lb")))
	next := f.enter(s, l[0], "lb")
	if first >= again || again >= next {
		f.Errorf("fences %d, %d and %d: expected each above the one before", first, again, next)
	}
}

// guestLease: a guest whose lease has ended is none, whichever ack ended it.
func guestLease(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	for _, end := range []func(l queue.Lease) queue.Ack{
		giveBack, func(l queue.Lease) queue.Ack { return suspend(l, "") }, func(l queue.Lease) queue.Ack { return done(l, core.Changed) },
	} {
		l := f.leaseN(s, 2)
		f.entered("the first", s, l[0], "lb", true)
		f.entered("the second meanwhile", s, l[1], "lb", false)
		f.ack(s, end(l[0]))
		f.entered("the second after the ack", s, l[1], "lb", true)
		_, err := f.q.Enter(f.ctx, guest(s, l[0], "other"))
		if !errors.Is(err, core.ErrConflict) {
			f.Errorf("a job that is not leased enters: %v", err)
		}
		f.ack(s, giveBack(l[1]))
	}
}

// guestCrash: so is one whose node was silent for too long.
func guestCrash(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	l := f.one(s)
	f.entered("the first", s, l, "lb", true)
	f.clean()
	next := f.expire(s)
	if _, err := f.q.Enter(f.ctx, guest(s, l, "lb")); !errors.Is(err, core.ErrSessionGone) {
		f.Errorf("a session that is gone enters: %v", err)
	}
	if err := f.q.Leave(f.ctx, guest(s, l, "lb")); !errors.Is(err, core.ErrSessionGone) {
		f.Errorf("a session that is gone leaves: %v", err)
	}
	f.entered("another", next, f.leaseN(next, 2)[1], "lb", true)
}

// guestBeside: guests have nothing to do with the locks of hosts.
func guestBeside(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	l := f.leaseN(s, 2)
	f.entered("on the host of the other job", s, l[0], l[1].Host, true)
	f.entered("and the other way", s, l[1], l[0].Host, true)
	f.ack(s, done(l[0], core.Changed), done(l[1], core.Changed))
	f.completes(s, "a")
}

// guestAgain: under the fence that it has, a guest is the guest still, unless a later one is.
func guestAgain(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	l := f.leaseN(s, 2)
	again := func(l queue.Lease, fence, want uint64) {
		f.Helper()
		g := guest(s, l, "lb")
		g.Fence = fence
		got, err := f.q.Enter(f.ctx, g)
		f.must(err)
		eq(f, "fence", got, want)
	}
	first := f.enter(s, l[0], "lb")
	again(l[0], first, first)
	f.entered("another meanwhile", s, l[1], "lb", false)
	f.must(f.q.Leave(f.ctx, guest(s, l[0], "lb")))
	again(l[0], first, first) // the queue has forgotten it
	f.entered("another after it came back", s, l[1], "lb", false)
	f.must(f.q.Leave(f.ctx, guest(s, l[0], "lb")))
	second := f.enter(s, l[1], "lb")
	again(l[0], first, 0)
	again(l[1], second, second)
}

// guestHeld: while no job is leased, because workers may be at work that the queue does not know,
// no new guest enters. The control is the same job before and afterwards.
func guestHeld(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	l := f.leaseN(s, 2)
	first := f.enter(s, l[0], "lb")
	f.must(f.q.Hold(f.ctx))
	if _, err := f.q.Enter(f.ctx, guest(s, l[1], "lb2")); !errors.Is(err, core.ErrUnavailable) {
		f.Errorf("a new guest: %v", err)
	}
	g := guest(s, l[0], "lb")
	g.Fence = first
	if got, err := f.q.Enter(f.ctx, g); err != nil || got != first {
		f.Errorf("a guest of before: %d, %v", got, err)
	}
	f.eventually("a guest to enter", func() bool {
		_, err := f.q.Beat(f.ctx, s)
		f.must(err)
		fence, err := f.q.Enter(f.ctx, guest(s, l[1], "lb2"))
		return err == nil && fence > first
	})
}

func guestRefuses(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	for what, c := range map[string]struct {
		guest queue.Guest
		want  error
	}{
		"no host":         {guest(s, l, ""), core.ErrInvalid},
		"a long name":     {guest(s, l, strings.Repeat("x", queue.MaxIDLength+1)), core.ErrInvalid},
		"another session": {guest("nobody", l, "lb"), core.ErrSessionGone},
		"another token":   {queue.Guest{Session: s, Job: l.Job, Token: l.Token + 1, Host: "lb"}, core.ErrConflict},
		"a huge token":    {queue.Guest{Session: s, Job: l.Job, Token: 1 << 60, Host: "lb"}, core.ErrConflict},
		"another run":     {queue.Guest{Session: s, Job: core.JobID{Run: "b"}, Token: l.Token, Host: "lb"}, core.ErrConflict},
		"an index below":  {queue.Guest{Session: s, Job: core.JobID{Run: "a", Index: -1}, Token: l.Token, Host: "lb"}, core.ErrConflict},
	} {
		if _, err := f.q.Enter(f.ctx, c.guest); !errors.Is(err, c.want) {
			f.Errorf("%s: %v, expected %v", what, err, c.want)
		}
	}
	f.entered("a right one", s, l, "lb", true)
}
