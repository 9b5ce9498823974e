package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var newsTests = []test{
	{name: "NewsOfEachChange", run: newsOfChanges},
	{name: "NewsOfCrashOnlyWhereRecorded", ttl: shortTTL, run: newsOfCrash},
	{name: "NewsWakesItsReader", run: newsSignals},
	{name: "NewsOfItsPartsOnly", run: newsOfParts},
	{name: "NewsLostIsTold", run: newsLost},
	{name: "NewsOfManyRuns", run: newsOfMany},
	{name: "NewsRefusesBadInput", run: newsInvalid},
	{name: "LookAtManyRuns", run: pollMany},
	{name: "LookIsAsStatusAndRecords", run: pollSame},
	{name: "LookGivesAllThatStatusCounts", run: pollWhole},
	{name: "LookCountsWhatIsAwaited", run: pollAwaited},
	{name: "LookRefusesBadInput", run: pollInvalid},
	{name: "AdjustOfManyRuns", run: adjustMany},
}

// reader is somebody who follows all parts.
type reader struct {
	f    *fixture
	from map[int]string
}

// reads gives a reader that has no news yet.
func (f *fixture) reads() *reader {
	f.Helper()
	from := map[int]string{}
	for part := range queue.Parts {
		from[part] = ""
	}
	news, err := f.q.News(f.ctx, from, time.Minute)
	f.must(err)
	eq(f, "parts lost at the beginning", len(news.Lost), queue.Parts)
	eq(f, "cursors", len(news.Next), queue.Parts)
	return &reader{f, news.Next}
}

// reported returns the runs of which there is news, sorted.
func (r *reader) reported() []string {
	r.f.Helper()
	var all []string
	for {
		news, err := r.f.q.News(r.f.ctx, r.from, 0)
		r.f.must(err)
		eq(r.f, "parts lost", len(news.Lost), 0)
		r.from = news.Next
		if len(news.Runs) == 0 {
			slices.Sort(all)
			return slices.Compact(all)
		}
		all = append(all, news.Runs...)
	}
}

// wants expects news of these runs after what was done.
func (r *reader) wants(what string, runs ...string) {
	r.f.Helper()
	if got := r.reported(); !slices.Equal(got, runs) {
		r.f.Errorf("after %s there is news of %v, expected %v", what, got, runs)
	}
}

// newsOfChanges makes each change to a large run and to one of a single host, which may be kept in
// another way.
func newsOfChanges(f *fixture) {
	r := f.reads()
	r.wants("nothing")
	for _, id := range []string{"a", "b"} {
		n := map[string]int{"a": 9, "b": 1}[id]
		spec := run(id, n)
		spec.Limit = min(n, 5)
		f.submit(spec)
		r.wants("submit", id)
		created, err := queue.SubmitOne(f.ctx, f.q, spec)
		f.must(err)
		eq(f, "created again", created, false)
		r.wants("a second submit")

		s := f.open("n")
		l := f.one(s)
		_, err = f.q.Beat(f.ctx, s)
		f.must(err)
		f.must(f.q.Save(f.ctx, queue.Save{Session: s, Job: l.Job, Token: l.Token, Seq: 1, State: []byte("half")}))
		r.wants("lease, beat and save")
		f.ack(s, suspend(l, "e"))
		r.wants("suspend", id)
		signalled, err := f.q.Signal(f.ctx, id, "e")
		f.must(err)
		eq(f, "signalled", signalled, 1)
		r.wants("wake", id)
		_, err = f.q.Signal(f.ctx, id, "e")
		f.must(err)
		r.wants("a wake of nobody")
		l = f.one(s)
		f.ack(s, suspend(l, "e"))
		r.wants("another suspend", id)
		ended, err := f.q.SignalJob(f.ctx, l.Job, "e")
		f.must(err)
		eq(f, "ended", ended, true)
		r.wants("wake of one job", id)
		l = f.one(s)
		f.ack(s, retry(l, 0))
		l = f.one(s)
		f.ack(s, giveBack(l))
		r.wants("retry and return")
		l = f.one(s)
		a := suspend(l, "")
		a.After = 50 * time.Millisecond
		f.ack(s, a)
		r.wants("suspend for a time", id)
		f.eventually("its time", func() bool {
			f.turn(s, 0)
			return f.status(id).Suspended == 0
		})
		r.wants("its time", id)
		l = f.one(s)
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Weight: new(3)}))
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
		r.wants("another weight, and resume of an active run")
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(true)}))
		r.wants("pause", id)
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
		r.wants("resume", id)
		if n > 1 {
			f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Limit: new(7)}))
			r.wants("a wave", id)
			f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Limit: new(7)}))
			r.wants("the same wave")
		}
		f.ack(s, done(l, core.Changed))
		r.wants("done", id)
		f.must(f.q.Cancel(f.ctx, id, "enough"))
		if n > 1 {
			r.wants("cancel", id)
		} else {
			r.wants("cancel of a complete run")
		}
		f.completes(s, id)
		r.reported()
	}
	f.submit(run("c", 3))
	f.must(queue.AdjustOne(f.ctx, f.q, "c", queue.Adjust{Stop: "enough"}))
	r.wants("submit and stop", "c")
	f.submit(run("d", 2))
	s := f.open("n")
	got := f.leaseN(s, 2)
	f.ack(s, suspend(got[0], "e"))
	r.wants("submit and suspend", "d")
	n, err := f.q.Dismiss(f.ctx, "d", "e", "not wanted")
	f.must(err)
	eq(f, "dismissed", n, 1)
	r.wants("dismiss", "d")
}

func newsOfCrash(f *fixture) {
	r := f.reads()
	f.submit(run("a", 1))
	s := f.open("victim")
	f.one(s)
	r.wants("submit and lease", "a")
	s = f.expire(s)
	f.one(s)
	r.wants("a first crash")
	s = f.expire(s)
	f.one(s)
	r.wants("a second crash")
	s = f.expire(s)
	f.completes(s, "a")
	r.wants("the last crash", "a")
}

func newsSignals(f *fixture) {
	f.submit(run("a", 2))
	r := f.reads()
	s := f.open("n")
	l := f.one(s)
	news, err := f.q.News(f.ctx, r.from, 30*time.Millisecond)
	f.must(err)
	eq(f, "news of a lease", len(news.Runs), 0)
	type answer struct {
		news queue.News
		err  error
		at   time.Time
	}
	got := make(chan answer, 1)
	read := func(ctx context.Context) {
		news, err := f.q.News(ctx, news.Next, time.Minute)
		got <- answer{news, err, time.Now()}
	}
	go read(f.ctx)
	select {
	case a := <-got:
		f.Fatalf("a reader came back without news: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	began := time.Now()
	f.ack(s, done(l, core.Changed))
	a := <-got
	f.must(a.err)
	eq(f, "runs", fmt.Sprint(a.news.Runs), "[a]")
	if took := a.at.Sub(began); took > 10*time.Second { // milliseconds, on a machine that has time
		f.Errorf("the reader got its news after %v", took)
	}
	news = a.news
	ctx, cancel := context.WithCancel(f.ctx)
	go read(ctx)
	cancel()
	if a := <-got; !errors.Is(a.err, context.Canceled) {
		f.Errorf("news whose context ended: %+v", a)
	}
}

// idIn is a name of a run that is of a part.
func idIn(part int) string {
	for i := 0; ; i++ {
		if id := "r" + strconv.Itoa(i); queue.Part(id) == part {
			return id
		}
	}
}

func newsOfParts(f *fixture) {
	mine, other := idIn(3), idIn(4)
	first, err := f.q.News(f.ctx, map[int]string{3: ""}, 0)
	f.must(err)
	f.submit(run(other, 1))
	f.submit(run(mine, 1))
	news, err := f.q.News(f.ctx, first.Next, time.Minute)
	f.must(err)
	eq(f, "runs", fmt.Sprint(news.Runs), "["+mine+"]")
	eq(f, "cursors", len(news.Next), 1)
	// A part that is behind gets what the others have had.
	news, err = f.q.News(f.ctx, map[int]string{3: news.Next[3], 4: first.Next[3]}, time.Minute)
	f.must(err)
	eq(f, "runs", fmt.Sprint(news.Runs), "["+other+"]")
	f.submit(run(idIn(5), 1))
	news, err = f.q.News(f.ctx, news.Next, 30*time.Millisecond)
	f.must(err)
	eq(f, "runs of other parts", len(news.Runs), 0)
}

// newsLost: what is no cursor of this queue, or one of another, is reported as lost, beside those
// that are kept.
func newsLost(f *fixture) {
	r := f.reads()
	f.submit(run("a", 1))
	at := queue.Part("a")
	for _, odd := range []string{"", "1-0", "what?", r.from[at] + "7", "99999999999999-1"} {
		from := maps.Clone(r.from)
		from[(at+1)%queue.Parts] = odd
		news, err := f.q.News(f.ctx, from, time.Minute)
		f.must(err)
		eq(f, "lost for "+odd, fmt.Sprint(news.Lost), fmt.Sprint([]int{(at + 1) % queue.Parts}))
		eq(f, "runs", fmt.Sprint(news.Runs), "[a]")
		after, err := f.q.News(f.ctx, news.Next, 0)
		f.must(err)
		eq(f, "lost after that", len(after.Lost)+len(after.Runs), 0)
	}
}

// newsOfMany: each run once, whatever the log needs for them.
func newsOfMany(f *fixture) {
	r := f.reads()
	var runs []queue.Run
	var names []string
	for i := range 3000 {
		runs = append(runs, on(fmt.Sprintf("r%04d", i), fmt.Sprint("h", i)))
		names = append(names, runs[i].ID)
	}
	for part := range slices.Chunk(runs, queue.MaxSubmit) {
		for _, answer := range f.q.Submit(f.ctx, part...) {
			f.must(answer.Err)
		}
	}
	if got := r.reported(); !slices.Equal(got, names) {
		f.Errorf("news of %d runs, expected %d", len(got), len(names))
	}
	s := f.open("n")
	got := f.leaseN(s, 600)
	for part := range slices.Chunk(got, queue.MaxAcksPerTurn) {
		f.ack(s, allDone(part, core.Changed)...)
	}
	eq(f, "runs with an outcome", len(r.reported()), 600)
}

func newsInvalid(f *fixture) {
	for _, from := range []map[int]string{nil, {-1: ""}, {queue.Parts: ""}} {
		if _, err := f.q.News(f.ctx, from, 0); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("news of %v: error %v, expected core.ErrInvalid", from, err)
		}
	}
}

func pollMany(f *fixture) {
	var asks []queue.Ask
	for i := range queue.MaxPoll {
		n := 1 + 9*(i%2)
		id := fmt.Sprint("r", i)
		if i != 100 {
			f.submit(run(id, n))
		}
		asks = append(asks, queue.Ask{Run: id})
	}
	asks[7].Cursor = "what?"
	s := f.open("n")
	f.ack(s, allDone(f.leaseN(s, 200), core.Changed)...)
	recorded, statuses := 0, 0
	for i, sight := range f.q.Poll(f.ctx, 10, asks...) {
		switch i {
		case 100:
			if !errors.Is(sight.Err, core.ErrNotFound) {
				f.Errorf("a run that is not there: %v", sight.Err)
			}
		case 7:
			if !errors.Is(sight.Err, core.ErrInvalid) {
				f.Errorf("a cursor that is none: %v", sight.Err)
			}
			st := f.status(asks[i].Run)
			statuses += st.Ended()
		default:
			f.must(sight.Err)
			eq(f, "run", sight.Status.Run, asks[i].Run)
			eq(f, "ended of "+asks[i].Run, len(sight.Records), sight.Status.Ended())
			recorded += len(sight.Records)
		}
	}
	eq(f, "records", recorded+statuses, 200)
	for _, sight := range f.q.Poll(f.ctx, 1, append(asks, queue.Ask{Run: "r1"})...) {
		if !errors.Is(sight.Err, core.ErrInvalid) {
			f.Fatalf("poll %d runs: %v", len(asks)+1, sight.Err)
		}
	}
	eq(f, "sights of nothing", len(f.q.Poll(f.ctx, 1)), 0)
}

// pollAt checks run a.
func (f *fixture) pollAt(cursor string, most int) queue.Sight {
	f.Helper()
	s := f.q.Poll(f.ctx, most, queue.Ask{Run: "a", Cursor: cursor})[0]
	f.must(s.Err)
	return s
}

// pollSame: a page of records ends anywhere, and the next begins there.
func pollSame(f *fixture) {
	spec := run("a", 60)
	f.submit(spec)
	s := f.open("n")
	got := f.leaseN(s, 60)
	for i, part := range slices.Collect(slices.Chunk(got[:50], 9)) {
		acks := allDone(part, core.Changed)
		for j := range acks {
			acks[j].Detail = fmt.Append(nil, "detail ", i, j)
		}
		f.ack(s, acks...)
	}
	sight := f.pollAt("", 1)
	st := f.status("a")
	st.Served, sight.Status.Served = 0, 0
	eq(f, "status", fmt.Sprintf("%+v", sight.Status), fmt.Sprintf("%+v", st))
	want := f.records("a")
	for _, most := range []int{1, 4, 49, 50, 51, 1000} {
		var all []queue.Record
		for cursor, more := "", true; more; {
			sight = f.pollAt(cursor, most)
			if len(sight.Records) > most {
				f.Fatalf("%d records, %d were asked for", len(sight.Records), most)
			}
			all, cursor, more = append(all, sight.Records...), sight.Next, sight.More
		}
		eq(f, fmt.Sprintf("records, %d at a time", most), fmt.Sprint(all), fmt.Sprint(want))
		end := f.pollAt(sight.Next, most)
		eq(f, "records past the end", len(end.Records), 0)
		eq(f, "more past the end", end.More, false)
		eq(f, "cursor past the end", end.Next, sight.Next)
	}
}

// pollWhole: while nodes work, no look has a status that counts more than its records have, nor
// less.
func pollWhole(f *fixture) {
	const n = 400
	f.submit(run("a", n))
	ended := make(chan error, 1)
	go func() {
		s, err := f.q.Open(f.ctx, "n")
		for err == nil {
			var res queue.TurnResult
			if res, err = f.q.Turn(f.ctx, queue.Turn{Session: s, Want: 7}); err == nil && len(res.Leases) == 0 {
				break
			}
			if err == nil {
				_, err = f.q.Turn(f.ctx, queue.Turn{Session: s, Acks: allDone(res.Leases, core.Changed)})
			}
		}
		ended <- err
	}()
	recorded, cursor := 0, ""
	f.eventually("all to be recorded", func() bool {
		sight := f.pollAt(cursor, 1000)
		cursor = sight.Next
		for _, r := range sight.Records {
			recorded += r.Count
		}
		if !sight.More && recorded != sight.Status.Ended() {
			f.Fatalf("%d recorded, the status counts %d", recorded, sight.Status.Ended())
		}
		return sight.Status.Complete && !sight.More
	})
	f.must(<-ended)
	eq(f, "recorded", recorded, n)
}

func pollAwaited(f *fixture) {
	f.submit(run("a", 310))
	s := f.open("n")
	got := f.leaseN(s, 310)
	var acks []queue.Ack
	for i, l := range got[:5] {
		acks = append(acks, suspend(l, []string{"e", "f"}[i%2]))
	}
	f.ack(s, acks...)
	ask := queue.Ask{Run: "a"}
	sight := f.q.Poll(f.ctx, 1, ask)[0]
	f.must(sight.Err)
	eq(f, "awaited, not asked for", len(sight.Awaited), 0)
	ask.Awaited = true
	sight = f.q.Poll(f.ctx, 1, ask)[0]
	f.must(sight.Err)
	eq(f, "awaited", fmt.Sprint(sight.Awaited, sight.Partial), "map[e:3 f:2] false")
	for part := range slices.Chunk(got[5:], 100) {
		acks = nil
		for _, l := range part {
			acks = append(acks, suspend(l, fmt.Sprint("e", l.Job.Index)))
		}
		f.ack(s, acks...)
	}
	sight = f.q.Poll(f.ctx, 1, ask)[0]
	f.must(sight.Err)
	eq(f, "events", len(sight.Awaited), 307)
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	f.completes(s, "a")
	sight = f.q.Poll(f.ctx, 1, ask)[0]
	f.must(sight.Err)
	eq(f, "awaited of a complete run", len(sight.Awaited), 0)
}

func pollInvalid(f *fixture) {
	f.submit(run("a", 9))
	f.submit(run("b", 1))
	s := f.open("n")
	f.ack(s, allDone(f.leaseN(s, 10), core.Changed)...)
	next := f.pollAt("", 100).Next
	for what, ask := range map[string]queue.Ask{
		"odd":               {Run: "a", Cursor: "what?"},
		"of another run":    {Run: "b", Cursor: next},
		"beyond the end":    {Run: "a", Cursor: "9" + next},
		"beyond the record": {Run: "b", Cursor: f.q.Poll(f.ctx, 9, queue.Ask{Run: "b"})[0].Next + "0"},
	} {
		if got := f.q.Poll(f.ctx, 1, ask)[0]; !errors.Is(got.Err, core.ErrInvalid) {
			f.Errorf("a cursor that is %s: %+v, expected core.ErrInvalid", what, got)
		}
	}
	if got := f.q.Poll(f.ctx, 0, queue.Ask{Run: "a"})[0]; !errors.Is(got.Err, core.ErrInvalid) {
		f.Errorf("no records: %+v, expected core.ErrInvalid", got)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for _, got := range f.q.Poll(ctx, 1, queue.Ask{Run: "a"}, queue.Ask{Run: "b"}) {
		if !errors.Is(got.Err, context.Canceled) {
			f.Errorf("a context that has ended: %+v", got)
		}
	}
}

// adjustMany: each run alone, whatever becomes of the others.
func adjustMany(f *fixture) {
	const n = 600
	var changes []queue.Adjust
	for i := range n {
		spec := run(fmt.Sprint("r", i), 1+5*(i%2))
		spec.Paused = true
		f.submit(spec)
		changes = append(changes, queue.Adjust{Run: spec.ID, Paused: new(false)})
	}
	changes[3].Run = "none"
	changes[4] = queue.Adjust{Run: "r4", Weight: new(-1)}
	changes[5] = queue.Adjust{Run: "r5", Stop: "not wanted"}
	for i, err := range f.q.Adjust(f.ctx, changes...) {
		want := map[int]error{3: core.ErrNotFound, 4: core.ErrInvalid}[i]
		if !errors.Is(err, want) || want == nil && err != nil {
			f.Fatalf("adjust of run %d: %v, expected %v", i, err, want)
		}
	}
	for i := range n {
		want := cmp.Or(map[int]queue.Phase{3: queue.Paused, 4: queue.Paused, 5: queue.Stopped}[i], queue.Active)
		eq(f, fmt.Sprint("phase of r", i), f.status(fmt.Sprint("r", i)).Phase, want)
	}
	s := f.open("n")
	eq(f, "jobs", len(f.lease(s, 4000)), 600/2+600/2*6-6-1-6)
	for _, err := range f.q.Adjust(f.ctx, make([]queue.Adjust, queue.MaxAdjust+1)...) {
		if !errors.Is(err, core.ErrInvalid) {
			f.Fatalf("too many: %v, expected core.ErrInvalid", err)
		}
	}
	eq(f, "answers to nothing", len(f.q.Adjust(f.ctx)), 0)
}

// news: whatever has changed since it was asked last, a run is named, and polled, alike on both
// sides.
func (m *machine) news(t *rapid.T) {
	runs := both(t, m, "News", func(s *side) (runs []string, err error) {
		for part := range queue.Parts {
			if _, asked := s.news[part]; !asked {
				s.news[part] = ""
			}
		}
		news, err := s.q.News(t.Context(), s.news, 0)
		s.news, runs = news.Next, news.Runs
		if len(news.Lost) > 0 {
			runs = nil
			for _, r := range m.runs {
				runs = append(runs, r.ID)
			}
		}
		slices.Sort(runs)
		return runs, err
	})
	if len(runs) == 0 {
		return
	}
	both(t, m, "Look", func(s *side) (seen []string, err error) {
		asks := core.Map(runs, func(id string) queue.Ask { return queue.Ask{Run: id, Cursor: s.logs[id], Awaited: true} })
		for i, sight := range s.q.Poll(t.Context(), 1000, asks...) {
			if sight.Err != nil {
				return nil, sight.Err
			}
			s.logs[runs[i]] = sight.Next
			ended := map[core.Outcome]int{}
			for _, r := range sight.Records {
				ended[r.Outcome] += r.Count
			}
			seen = append(seen, fmt.Sprint(runs[i], sight.Status.Phase, sight.Status.Complete, sight.Status.Limit, sight.Status.Suspended, sight.Awaited, ended))
		}
		return seen, nil
	})
}
