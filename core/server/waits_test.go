package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// askedBed is a run in a queue, of which some hosts are leased by a node.
type askedBed struct {
	t       *testing.T
	queue   *memory.Queue
	session string
	leases  []queue.Lease
	waits   waits
}

func newAskedBed(t *testing.T, hosts, leased int, change func(*queue.Run)) *askedBed {
	t.Helper()
	b := &askedBed{t: t, queue: memory.New(memory.Options{SessionTTL: time.Hour}), waits: waits{sheet: &sheet{}}}
	t.Cleanup(b.queue.Shutdown)
	r := queue.Run{ID: "r"}
	for i := range hosts {
		host := fmt.Sprint("web", i)
		r.Targets = append(r.Targets, queue.Target{Host: host})
		b.waits.sheet.rows = append(b.waits.sheet.rows, sheetRow{Job: ledger.Job{JobID: core.JobID{Run: "r", Index: i}, Host: host}})
	}
	if change != nil {
		change(&r)
	}
	_, err := queue.SubmitOne(t.Context(), b.queue, r)
	must(t, err)
	b.session, err = b.queue.Open(t.Context(), "w1")
	must(t, err)
	b.lease(leased)
	return b
}

// lease leases until there are n leases, all in all.
func (b *askedBed) lease(n int) {
	b.t.Helper()
	for len(b.leases) < n {
		res, err := b.queue.Turn(b.t.Context(), queue.Turn{Session: b.session, Want: min(n-len(b.leases), queue.MaxLeasesTurn)})
		must(b.t, err)
		if len(res.Leases) == 0 {
			b.t.Fatalf("%d hosts are leased, expected %d", len(b.leases), n)
		}
		b.leases = append(b.leases, res.Leases...)
	}
}

// suspend suspends leases until an event, the oldest first.
func (b *askedBed) suspend(n int, event string) {
	b.t.Helper()
	for n > 0 {
		acks := make([]queue.Ack, min(n, 100))
		for i := range acks {
			acks[i] = queue.Ack{Job: b.leases[i].Job, Token: b.leases[i].Token, Kind: queue.AckSuspend, Event: event}
		}
		_, err := b.queue.Turn(b.t.Context(), queue.Turn{Session: b.session, Acks: acks})
		must(b.t, err)
		b.leases, n = b.leases[len(acks):], n-len(acks)
	}
}

// text returns the waits of the hosts, as list-waits does.
func (b *askedBed) text() (text string) {
	b.t.Helper()
	s := &Server{cfg: Config{Queue: b.queue}}
	open := make([]int, len(b.waits.sheet.rows))
	for i := range open {
		open[i] = i
	}
	said, err := s.askAll(b.t.Context(), &ledger.Run{ID: "r"}, open, len(open))
	must(b.t, err)
	b.waits.tell(&said, notLeased(open, said.leased), func(string) string { return "" })
	for _, o := range b.waits.list().Items {
		text += fmt.Sprintf("%d %s %v; ", o.Total, o.Code, o.Hosts)
	}
	return text
}

// Hosts that run do not count as waiting, and those that wait have one reason, also beyond the
// hosts that the queue is asked about.
func TestWaitsBeyondTheHostsThatAreAsked(t *testing.T) {
	t.Parallel()
	b := newAskedBed(t, 3000, 256, nil)
	if got := b.text(); got != "2744 concurrency [web256 web257 web258 web259 web260]; " {
		t.Error(got)
	}
	b = newAskedBed(t, 3000, 0, func(r *queue.Run) {
		r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 3000}}
	})
	if got := b.text(); got != "3000 not_due [web0 web1 web2 web3 web4]; " {
		t.Error(got)
	}
}

// Counts of the queue give the reasons of hosts that it was not asked about one by one.
func TestWaitsAreCountedByState(t *testing.T) {
	t.Parallel()
	b := newAskedBed(t, 1000, 700, func(r *queue.Run) {
		r.Segments = []queue.Segment{{Count: 900}, {Due: time.Now().Add(time.Hour), Count: 40}, {Due: time.Now().Add(2 * time.Hour), Count: 60}}
	})
	b.suspend(300, "go")
	b.suspend(300, queue.EventWindow)
	got := b.text()
	for _, want := range []string{
		"300 signal [web0 web1 web2 web3 web4]; ", "300 window [web314 web329 web344 web359 web374]; ", "200 concurrency [web714 ", "93 not_due []; ", "4 not_due [web954 ", "3 not_due [web909 ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	if len(b.waits.all) != 6 {
		t.Errorf("%d reasons: %s", len(b.waits.all), got)
	}
}

// In a paused run all pending hosts wait for that, also those that start later. Of a run with more
// hosts than the sheet has rows, the queue's counts are of other hosts also: they give no reason.
func TestWaitsOfHostsThatAreDueLater(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*askedBed){
		"1000 paused [web": func(b *askedBed) { b.waits.paused = true },
		"1000 worker [web": func(b *askedBed) { b.waits.unworked = nobodyWorks },
		"800 not_due []":   func(*askedBed) {},
		"700  [":           func(b *askedBed) { b.waits.sheet.rows = b.waits.sheet.rows[:900] },
	} {
		b := newAskedBed(t, 1000, 0, func(r *queue.Run) {
			r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 100}, {Due: time.Now().Add(2 * time.Hour), Count: 900}}
		})
		change(b)
		if got := b.text(); !strings.Contains(got, want) {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}

// The hosts that run for longest are named, without those that have ended meanwhile.
func TestTheLongestRunningHosts(t *testing.T) {
	t.Parallel()
	b := newAskedBed(t, 30, 1, nil)
	b.suspend(1, "go")
	b.lease(9)
	first, rows := b.leases[0], b.waits.sheet.rows
	rows[b.leases[1].Job.Index].Outcome = core.Changed
	_, err := b.queue.Signal(t.Context(), "r", "go")
	must(t, err)
	b.lease(12)
	leased, err := b.queue.Leased(t.Context(), "r")
	must(t, err)
	got := b.waits.sheet.longest(append(leased, queue.Leased{Index: len(rows)}))
	if len(got) != maxLongest || got[0].Index != first.Job.Index || got[0].Host != first.Host || got[0].Worker != "w1" || got[0].Since.IsZero() {
		t.Errorf("%+v", got)
	}
	for i, h := range got {
		if h.Index == 0 || h.Index == b.leases[1].Job.Index || i > 0 && h.Since.Before(got[i-1].Since) {
			t.Errorf("%+v, expected the longest first, without host 0, which was suspended", got)
		}
	}
}

// A list that is cut counts what it leaves out.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	w := waits{sheet: &sheet{rows: make([]sheetRow, 1)}}
	for i := range maxWaits + 3 {
		w.add(w.of(&queue.Explanation{State: core.Blocked, Reason: core.Because(core.LockHeld, fmt.Sprint("waits for host h", i))}, ""), 0)
	}
	if got := w.list(); len(got.Items) != maxWaits || got.LeftOut != 3 || got.LeftOutHosts != 3 {
		t.Errorf("%d reasons, %d of %d hosts left out", len(got.Items), got.LeftOut, got.LeftOutHosts)
	}
}
