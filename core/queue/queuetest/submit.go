package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var submitTests = []test{
	{name: "SubmitIsIdempotent", run: submitIdempotent},
	{name: "SubmitRefusesOtherContent", run: submitConflict},
	{name: "SubmitRefusesBadInput", run: submitInvalid},
	{name: "SubmitAnswersEachRun", run: submitMany},
	{name: "SubmitOfCallersAtOnce", run: submitAtOnce},
	{name: "UnknownRunIsNotFound", run: unknownRun},
	{name: "NamesAreOpaque", run: opaqueNames},
	{name: "PayloadIsKept", run: payloadKept},
}

func submitIdempotent(f *fixture) {
	r := run("a", 3)
	r.Payload = []byte("snapshot")
	r.Segments = []queue.Segment{{Count: 2}, {Due: time.Now().Add(time.Hour), Count: 1}}
	f.submit(r)
	s := f.open("n")
	f.ack(s, done(f.one(s), core.Changed))
	created, err := queue.SubmitOne(f.ctx, f.q, r)
	f.must(err)
	eq(f, "created", created, false)
	st := f.status("a")
	eq(f, "total", st.Total, 3)
	eq(f, "changed", st.Outcomes[core.Changed], 1)
	f.ack(s, done(f.one(s), core.Changed))
	f.none(s, "both due jobs are done, a second Submit adds none")
}

func submitConflict(f *fixture) {
	r := run("a", 2)
	f.submit(r)
	for name, change := range map[string]func(*queue.Run){
		"host":    func(r *queue.Run) { r.Targets[1].Host = "other" },
		"data":    func(r *queue.Run) { r.Targets[1].Data = []byte("x") },
		"targets": func(r *queue.Run) { r.Targets = r.Targets[:1] },
		"payload": func(r *queue.Run) { r.Payload = []byte("x") },
		"weight":  func(r *queue.Run) { r.Weight = 2 },
		"tenant":  func(r *queue.Run) { r.Tenant = "t" },
		"budget":  func(r *queue.Run) { r.StopAfter = 1 },
		"due":     func(r *queue.Run) { r.Segments = []queue.Segment{{Due: time.Unix(1, 0), Count: 2}} },
	} {
		other := run("a", 2)
		change(&other)
		if created, err := queue.SubmitOne(f.ctx, f.q, other); !errors.Is(err, core.ErrConflict) || created {
			f.Errorf("other %s: created %t, error %v, expected core.ErrConflict", name, created, err)
		}
	}
}

func submitInvalid(f *fixture) {
	long := strings.Repeat("x", queue.MaxIDLength+1)
	for name, change := range map[string]func(*queue.Run){
		"no id":             func(r *queue.Run) { r.ID = "" },
		"long id":           func(r *queue.Run) { r.ID = long },
		"not UTF-8":         func(r *queue.Run) { r.ID = "\xff" },
		"long tenant":       func(r *queue.Run) { r.Tenant = long },
		"no targets":        func(r *queue.Run) { r.Targets = nil },
		"no host":           func(r *queue.Run) { r.Targets[0].Host = "" },
		"long host":         func(r *queue.Run) { r.Targets[0].Host = long },
		"long HA group":     func(r *queue.Run) { r.Targets[0].HAGroup = long },
		"long group":        func(r *queue.Run) { r.Targets[0].Group = long },
		"big data":          func(r *queue.Run) { r.Targets[0].Data = make([]byte, queue.MaxDataLength+core.EncryptionRoom+1) },
		"big payload":       func(r *queue.Run) { r.Payload = make([]byte, queue.MaxPayload+core.EncryptionRoom+1) },
		"big weight":        func(r *queue.Run) { r.Weight = queue.MaxWeight + 1 },
		"negative weight":   func(r *queue.Run) { r.Weight = -1 },
		"big tenant weight": func(r *queue.Run) { r.TenantWeight = queue.MaxWeight + 1 },
		"high priority":     func(r *queue.Run) { r.Priority = queue.MaxPriority + 1 },
		"low priority":      func(r *queue.Run) { r.Priority = -queue.MaxPriority - 1 },
		"few in segments":   func(r *queue.Run) { r.Segments = []queue.Segment{{Count: 1}} },
		"empty segment":     func(r *queue.Run) { r.Segments = []queue.Segment{{Count: 2}, {Count: 0}} },
		"negative segment":  func(r *queue.Run) { r.Segments = []queue.Segment{{Count: 3}, {Count: -1}} },
		"negative limit":    func(r *queue.Run) { r.Limit = -1 },
		"negative cap":      func(r *queue.Run) { r.MaxInFlight = -1 },
		"negative group":    func(r *queue.Run) { r.PerGroup = -1 },
		"negative budget":   func(r *queue.Run) { r.StopAfter = -1 },
		"negative unreach":  func(r *queue.Run) { r.StopUnreachable = -1 },
		"unknown on_lost":   func(r *queue.Run) { r.OnLost = "pray" },
	} {
		r := run("a", 2)
		change(&r)
		if created, err := queue.SubmitOne(f.ctx, f.q, r); !errors.Is(err, core.ErrInvalid) || created {
			f.Errorf("%s: created %t, error %v, expected core.ErrInvalid", name, created, err)
		}
	}
	f.submit(run("a", 2)) // nothing of the refused ones is left
}

func submitMany(f *fixture) {
	f.submit(run("had", 1))
	other := run("had", 2)
	large := run("large", 700)
	large.Payload = make([]byte, 200_000)
	answers := f.q.Submit(f.ctx, run("a", 1), run("", 1), run("had", 1), other, large, run("b", 2), run("a", 1), run("a", 2), run("c", 1))
	for i, want := range []struct {
		created bool
		err     error
	}{{true, nil}, {false, core.ErrInvalid}, {false, nil}, {false, core.ErrConflict}, {true, nil}, {true, nil}, {false, nil}, {false, core.ErrConflict}, {true, nil}} {
		if got := answers[i]; got.Created != want.created || !errors.Is(got.Err, want.err) {
			f.Errorf("answer %d: %+v, expected %+v", i, got, want)
		}
	}
	eq(f, "answers to no run", len(f.q.Submit(f.ctx)), 0)
	many := make([]queue.Run, queue.MaxSubmit+1)
	for i := range many {
		many[i] = run(fmt.Sprint("many", i), 1)
	}
	for _, a := range f.q.Submit(f.ctx, many...) {
		if !errors.Is(a.Err, core.ErrInvalid) {
			f.Fatalf("%d runs in one call: %+v, expected core.ErrInvalid", len(many), a)
		}
	}
	for _, a := range f.q.Submit(f.ctx, many[1:]...) {
		if !a.Created || a.Err != nil {
			f.Fatalf("%d runs in one call: %+v", len(many)-1, a)
		}
	}
	s := f.open("n")
	got := f.leaseN(s, 1+1+700+2+1+queue.MaxSubmit)
	eq(f, "first", got[0].Job, core.JobID{Run: "had"})
	f.none(s, "all is leased")
	for part := range slices.Chunk(got, queue.MaxAcksPerTurn) {
		acks := core.Map(part, func(l queue.Lease) queue.Ack { return done(l, core.Changed) })
		f.ack(s, acks...)
	}
	st, err := f.q.Stats(f.ctx)
	f.must(err)
	eq(f, "open runs", st.Runs, 0)
}

// submitAtOnce: concurrent calls are answered each for itself, and one whose context ends leaves
// the others alone.
func submitAtOnce(f *fixture) {
	const callers, each = 16, 20
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprint("r", c, "-", i)
				if created, err := queue.SubmitOne(ended, f.q, run("x"+id, 1)); err == nil || created {
					f.Errorf("submit with an ended context: created %t, error %v", created, err)
				}
				if created, err := queue.SubmitOne(f.ctx, f.q, run(id, 1)); err != nil || !created {
					f.Errorf("submit %s: created %t, error %v", id, created, err)
				}
				if _, err := queue.SubmitOne(f.ctx, f.q, run(fmt.Sprint("r", i), 1+c)); err != nil && !errors.Is(err, core.ErrConflict) {
					f.Errorf("submit of one id by all: %v", err)
				}
			}
		})
	}
	wg.Wait()
	st, err := f.q.Stats(f.ctx)
	f.must(err)
	eq(f, "runs", st.Runs, callers*each+each)
}

func unknownRun(f *fixture) {
	wants := func(what string, err error) {
		f.Helper()
		if !errors.Is(err, core.ErrNotFound) {
			f.Errorf("%s: error %v, expected core.ErrNotFound", what, err)
		}
	}
	_, err := f.q.Status(f.ctx, "no")
	wants("Status", err)
	wants("Look", f.q.Poll(f.ctx, 1, queue.Ask{Run: "no", Awaited: true})[0].Err)
	_, err = f.q.Payload(f.ctx, "no")
	wants("Payload", err)
	_, err = f.q.Explain(f.ctx, core.JobID{Run: "no"})
	wants("Explain", err)
	wants("Cancel", f.q.Cancel(f.ctx, "no", "x"))
	wants("Adjust", queue.AdjustOne(f.ctx, f.q, "no", queue.Adjust{}))
	_, err = f.q.Signal(f.ctx, "no", "e")
	wants("Signal", err)
	f.submit(run("a", 1))
	_, err = f.q.Explain(f.ctx, core.JobID{Run: "a", Index: 1})
	wants("Explain of an index outside the run", err)
}

// nasty are names that break what glues keys together.
var nasty = []string{
	"{brace}", "}{", "{}", "a:b:c", "line\nbreak", "tab\there", "süß ☃", " ", "*", "a\x00b", `"quote"`, `back\slash`, "a/b", "%d", "-1", "__proto__", "1e9",
}

func opaqueNames(f *fixture) {
	s := f.open("node {x}:\n☃")
	for i, name := range nasty {
		r := queue.Run{ID: name, Tenant: name, Disruptive: true, PerGroup: 1, Targets: []queue.Target{
			{Host: name, HAGroup: name, Group: name, Data: []byte(name)},
			{Host: name + "2", HAGroup: name, Group: name},
		}}
		f.submit(r)
		l := f.one(s)
		eq(f, "job", l.Job, core.JobID{Run: name, Index: 0})
		eq(f, "host", l.Host, name)
		eq(f, "data", string(l.Data), name)
		f.none(s, "the second shares the HA group")
		f.ack(s, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: name, State: []byte(name)})
		second := f.one(s)
		eq(f, "second job", second.Job.Index, 1)
		f.ack(s, done(second, core.Changed))
		n, err := f.q.Signal(f.ctx, name, name)
		f.must(err)
		eq(f, "signalled", n, 1)
		l = f.one(s)
		eq(f, "state", string(l.State), name)
		a := done(l, core.Unchanged)
		a.Detail = []byte(name)
		f.ack(s, a)
		recs := f.records(name)
		eq(f, "records", len(recs), 2)
		eq(f, "detail", string(recs[1].Detail), name)
		eq(f, "complete", f.status(name).Complete, true)
		eq(f, "tenant", f.status(name).Tenant, name)
		st, err := f.q.Stats(f.ctx)
		f.must(err)
		eq(f, "runs open", st.Runs, 0)
		_ = i
	}
}

func payloadKept(f *fixture) {
	r := run("a", 1)
	r.Payload = []byte("\x00\xff payload")
	f.submit(r)
	p, err := f.q.Payload(f.ctx, "a")
	f.must(err)
	eq(f, "payload", string(p), string(r.Payload))
	f.submit(run("b", 1))
	p, err = f.q.Payload(f.ctx, "b")
	f.must(err)
	eq(f, "payload length", len(p), 0)
}
