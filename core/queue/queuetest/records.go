package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var recordTests = []test{
	{name: "RecordsInOrderExactlyOnce", run: recordsOrder},
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
				sight := f.pollAt(cursor, 3)
				if n := len(sight.Records); n == 0 || n > 3 {
					f.Fatalf("Look gave %d of %d records that are new, 3 were asked for", n, len(want)-seen)
				}
				for _, r := range sight.Records {
					eq(f, "record", fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", want[seen]))
					seen++
				}
				cursor = sight.Next
			}
			sight := f.pollAt(cursor, 3)
			eq(f, "records past the end", len(sight.Records), 0)
			cursor = sight.Next
		}
	}
	eq(f, "records from the beginning again", len(f.records("a")), 50)
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
	if err := f.q.Poll(f.ctx, 0, queue.Ask{Run: "a"})[0].Err; !errors.Is(err, core.ErrInvalid) {
		f.Errorf("max 0: error %v, expected core.ErrInvalid", err)
	}
	if err := f.q.Poll(f.ctx, 1, queue.Ask{Run: "a", Cursor: "what?"})[0].Err; !errors.Is(err, core.ErrInvalid) {
		f.Errorf("odd cursor: error %v, expected core.ErrInvalid", err)
	}
}
