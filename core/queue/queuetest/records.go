package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var recordTests = []test{
	{name: "RecordsInOrderExactlyOnce", run: recordsOrder},
	{name: "RecordsWait", run: recordsWait},
	{name: "RecordsOfBulkCancel", run: recordsBulk},
	{name: "RecordsRefuseBadInput", run: recordsInvalid},
}

func recordsOrder(f *fixture) {
	f.submit(run("a", 50))
	s := f.open("n")
	got := f.leaseN(s, 50)
	outcomes := core.Outcomes()
	var want []queue.Record
	cursor, seen := "", 0
	for i, g := range slices.Backward(got) {
		a := done(g, outcomes[i%4]) // good ones and rolled back
		a.Detail = fmt.Append(nil, "detail ", i)
		f.ack(s, a)
		want = append(want, queue.Record{Index: g.Job.Index, Count: 1, Outcome: a.Outcome, Attempt: 1, Detail: a.Detail})
		if i%5 == 0 { // read as it grows
			for seen < len(want) {
				list, next, err := f.q.Records(f.ctx, "a", cursor, 3, 0)
				f.must(err)
				if len(list) == 0 || len(list) > 3 {
					f.Fatalf("Records gave %d of %d that are new, 3 were asked for", len(list), len(want)-seen)
				}
				for _, r := range list {
					eq(f, "record", fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", want[seen]))
					seen++
				}
				cursor = next
			}
			list, next, err := f.q.Records(f.ctx, "a", cursor, 3, 0)
			f.must(err)
			eq(f, "records past the end", len(list), 0)
			cursor = next
		}
	}
	eq(f, "records from the beginning again", len(f.records("a")), 50)
}

func recordsWait(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	start := time.Now()
	list, cursor, err := f.q.Records(f.ctx, "a", "", 10, 30*time.Millisecond)
	f.must(err)
	eq(f, "records", len(list), 0)
	if took := time.Since(start); took < 20*time.Millisecond {
		f.Errorf("waited %v, expected 30ms", took)
	}
	type answer struct {
		list []queue.Record
		err  error
	}
	ended := make(chan answer, 1)
	go func() {
		list, _, err := f.q.Records(f.ctx, "a", cursor, 10, time.Minute)
		ended <- answer{list, err}
	}()
	f.ack(s, done(l, core.Changed))
	got := <-ended
	f.must(got.err)
	eq(f, "records", len(got.list), 1)

	ctx, cancel := context.WithCancel(f.ctx)
	go func() {
		_, _, err := f.q.Records(ctx, "a", "", 10, time.Minute) // there is one: at once
		if err == nil {
			_, _, err = f.q.Records(ctx, "a", cursorAfter(ctx, f.q, "a"), 10, time.Minute)
		}
		ended <- answer{err: err}
	}()
	cancel()
	if got := <-ended; got.err == nil {
		f.Error("Records returned no error though its context ended")
	}
}

// cursorAfter is the cursor behind all records of the run.
func cursorAfter(ctx context.Context, q queue.Queue, run string) string {
	_, next, err := q.Records(context.WithoutCancel(ctx), run, "", 1000, 0)
	if err != nil {
		return ""
	}
	return next
}

func recordsBulk(f *fixture) {
	r := run("a", 10_000)
	r.Segments = []queue.Segment{{Count: 4000}, {Due: time.Now().Add(time.Hour), Count: 6000}}
	f.submit(r)
	s := f.open("n")
	f.ack(s, done(f.one(s), core.Changed))
	f.must(f.q.Cancel(f.ctx, "a", "x"))
	st := f.completes(s, "a")
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 9999)
	recs := f.records("a")
	if len(recs) > 50 {
		f.Errorf("%d records of one bulk cancel, expected a few with counts", len(recs))
	}
	eq(f, "outcomes", len(f.outcomes()), 10_000)
	for _, rec := range recs {
		if rec.Count < 1 {
			f.Errorf("record %+v counts nothing", rec)
		}
	}
}

func recordsInvalid(f *fixture) {
	f.submit(run("a", 1))
	if _, _, err := f.q.Records(f.ctx, "a", "", 0, 0); !errors.Is(err, core.ErrInvalid) {
		f.Errorf("max 0: error %v, expected core.ErrInvalid", err)
	}
	if _, _, err := f.q.Records(f.ctx, "a", "what?", 1, 0); !errors.Is(err, core.ErrInvalid) {
		f.Errorf("odd cursor: error %v, expected core.ErrInvalid", err)
	}
}
