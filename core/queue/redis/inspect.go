package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Status returns the run's progress.
func (q *Queue) Status(ctx context.Context, run string) (queue.Status, error) {
	list, err := q.poll(ctx, 0, 0, []ask{{run: run}})
	if err != nil {
		return queue.Status{}, err
	}
	return list[0].load.Status, list[0].err
}

// awaited counts suspended jobs by the event that they wait for, in several steps: between them
// jobs may move.
func (q *Queue) awaited(ctx context.Context, run string) (jobs map[string]int, err error) {
	jobs = map[string]int{}
	for from := ""; ; {
		v, err := q.eval(ctx, q.scripts.awaited, run, from)
		if err != nil {
			return nil, err
		}
		if n, ok := v.(int64); ok && n < 0 {
			return nil, fmt.Errorf("events of run %q: no such run: %w", run, core.ErrNotFound)
		}
		r := newReply(v)
		more := r.int() == 1
		for !r.empty() {
			from = r.text()
			jobs[from] = r.int()
		}
		if err := r.end("awaited"); err != nil || !more {
			return jobs, err
		}
	}
}

// Payload returns Run.Payload.
func (q *Queue) Payload(ctx context.Context, run string) ([]byte, error) {
	v, err := q.eval(ctx, q.scripts.payload, run)
	if err != nil {
		return nil, fmt.Errorf("payload of run %q: %w", run, err)
	}
	if n, ok := v.(int64); ok && n < 0 {
		return nil, fmt.Errorf("payload of run %q: %w", run, errNoRun)
	}
	r := newReply(v)
	no := r.int64()
	if !r.empty() {
		return r.bytes(), r.end("payload")
	}
	b, err := q.client.Get(ctx, q.keys.run(no, "xPayload")).Bytes()
	if errors.Is(err, goredis.Nil) {
		return nil, nil
	}
	return b, translate(ctx, err, "payload")
}

// Explain returns why a job is where it is.
func (q *Queue) Explain(ctx context.Context, job core.JobID) (queue.Explanation, error) {
	ex := queue.Explanation{Job: job}
	v, err := q.eval(ctx, q.scripts.explain, job.Run, job.Index)
	if err != nil {
		return ex, err
	}
	r := newReply(v)
	switch state := r.text(); state {
	case "NONE":
		return ex, fmt.Errorf("explain job %s: no such run: %w", job, core.ErrNotFound)
	case "RANGE":
		return ex, fmt.Errorf("job %s: run has %d jobs: %w", job, r.int(), core.ErrNotFound)
	default:
		ex.State = core.State(state)
	}
	a, b, c := r.text(), r.text(), r.text()
	ex.Until = r.time()
	if err := r.end("explain"); err != nil {
		return ex, err
	}
	if oc, _ := strconv.Atoi(a); ex.State == core.Done && oc > 0 && oc <= len(core.Outcomes()) {
		ex.Reason = queue.WhyFinished(core.Outcomes()[oc-1])
		return ex, nil
	}
	if ex.State == core.Done {
		ex.Reason, err = q.explainEnd(ctx, job, b, c)
		return ex, err
	}
	switch ex.State {
	case core.Suspended:
		ex.Event = a
		return ex, nil
	case core.Blocked:
		ex.Holder = b
	case core.Leased:
		since, _ := strconv.ParseInt(c, 10, 64)
		ex.Node, ex.Since = a, micro(since)
	}
	ex.Reason = explain(ex, a, b, c)
	return ex, nil
}

// Leased returns the jobs of a run that are leased. A job that moves between two steps counts once.
func (q *Queue) Leased(ctx context.Context, run string) ([]queue.Leased, error) {
	found := map[int]queue.Leased{}
	for session, cursor := "", "0"; ; {
		v, err := q.eval(ctx, q.scripts.leased, run, session, cursor)
		if err != nil {
			return nil, fmt.Errorf("leases of run %q: %w", run, err)
		}
		if n, ok := v.(int64); ok && n < 0 {
			return nil, fmt.Errorf("leases of run %q: no such run: %w", run, core.ErrNotFound)
		}
		r := newReply(v)
		session, cursor = r.text(), r.text()
		for !r.empty() {
			l := queue.Leased{Index: r.int(), Node: r.text(), Since: r.time()}
			if before, twice := found[l.Index]; !twice || before.Since.Before(l.Since) {
				found[l.Index] = l
			}
		}
		if err := r.end("leased"); err != nil {
			return nil, err
		}
		if session == "" {
			all := slices.Collect(maps.Values(found))
			queue.SortLeased(all)
			return all, nil
		}
	}
}

// Holders returns which jobs hold the locks of a host and of an HA group.
func (q *Queue) Holders(ctx context.Context, host, haGroup string) (all []queue.Holder, err error) {
	v, err := q.eval(ctx, q.scripts.holders, host, haGroup)
	if err != nil {
		return nil, fmt.Errorf("holders of host %s: %w", host, err)
	}
	for r := newReply(v); ; {
		if r.empty() {
			return all, r.end("holders")
		}
		h := queue.Holder{HAGroup: r.text() == "g", Job: core.JobID{Run: r.text(), Index: r.int()}, Kept: r.int() == 1, Since: r.time()}
		all = append(all, h)
	}
}

// explain puts what explain.lua answered into words.
func explain(ex queue.Explanation, a, b, c string) core.Reason {
	switch ex.State {
	case core.Leased:
		us, _ := strconv.ParseInt(b, 10, 64)
		return queue.WhyLeased(a, time.Duration(us)*time.Microsecond)
	case core.Blocked:
		reason := "waits for " + lockKind(a) + " " + a[1:]
		switch {
		case b != "" && c == "1":
			reason += queue.KeptFor
		case b != "":
			reason += queue.HeldBy
		}
		return core.Because(core.LockHeld, reason)
	case core.Retrying:
		attempts, _ := strconv.Atoi(a)
		return queue.WhyRetrying(attempts)
	}
	if a == "closing" {
		return queue.WhyCleanup()
	}
	inFlight, _ := strconv.Atoi(b)
	bound, _ := strconv.Atoi(c)
	return queue.WhyPending(pendingCodes[a], inFlight, bound)
}

// pendingCodes are the codes for why a due job is not leased, by explain.lua's words. A job without
// one waits for its turn.
var pendingCodes = map[string]core.ReasonCode{
	"due": core.NotDue, "over": core.RunOver, "paused": core.RunPaused, "limit": core.WaveClosed, "full": core.RunFull,
}

func lockKind(name string) string {
	switch name[0] {
	case 'h':
		return "host"
	case 'g':
		return "HA group"
	}
	return "group"
}

// explainEnd finds the outcome in the records of run number no, from their end: in small where the
// run keeps them itself, else in its stream.
func (q *Queue) explainEnd(ctx context.Context, job core.JobID, no, small string) (core.Reason, error) {
	if small != "" {
		list, err := unpackRecords(entry{text: small})
		reason, _ := whyEnded(list, job.Index)
		return reason, err
	}
	number, err := strconv.ParseInt(no, 10, 64)
	if err != nil {
		return "", fmt.Errorf("explain job %s: run number %q: %w", job, no, err)
	}
	stream := q.keys.run(number, "xLog")
	for before := "+"; ; {
		page, err := q.client.XRevRangeN(ctx, stream, before, "-", 64).Result()
		if err != nil {
			return "", translate(ctx, err, "explain")
		}
		for _, m := range page {
			list, err := unpackRecords(entryOf(m))
			if err != nil {
				return "", err
			}
			if reason, ok := whyEnded(list, job.Index); ok {
				return reason, nil
			}
			before = "(" + m.ID
		}
		if len(page) == 0 {
			return "ended", nil
		}
	}
}

// whyEnded returns how a job ended, by the last of the records that is of it.
func whyEnded(list []queue.Record, index int) (core.Reason, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		rec := &list[i]
		if index < rec.Index || index >= rec.Index+rec.Count {
			continue
		}
		return queue.WhyEnded(rec.Outcome, rec.Reason), true
	}
	return "ended", false
}
