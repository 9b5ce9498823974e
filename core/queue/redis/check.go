package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Check returns broken invariants: first the pool's, then each run's against its log. It is for
// maintenance: its scripts grow with the jobs in flight, blocked or waiting. With repair it repairs
// what the data allows; a finding that is not Repaired could not be.
func (q *Queue) Check(ctx context.Context, repair bool) ([]queue.Finding, error) {
	nos, err := q.recordNumbers(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := q.sessionSets(ctx)
	if err != nil {
		return nil, err
	}
	args := append([]any{flag(repair)}, sessions...)
	for _, no := range nos {
		args = append(args, no)
	}
	v, err := q.eval(ctx, q.scripts.pool, args...)
	if err != nil {
		return nil, err
	}
	findings, err := readFindings(newReply(v), q.scripts.pool.Name, "")
	if err != nil {
		return nil, err
	}
	err = q.eachRun(ctx, func(run string, no int64) error {
		more, err := q.checkRun(ctx, run, no, repair, sessions)
		findings = append(findings, more...)
		return err
	})
	return findings, err
}

func readFindings(r *reply, script, run string) (list []queue.Finding, _ error) {
	for !r.empty() {
		text := r.text()
		if text == "!" {
			continue // forgotten meanwhile
		}
		what, repaired := strings.CutPrefix(text, "+")
		list = append(list, queue.Finding{What: what, Run: run, Repaired: repaired})
	}
	return list, r.end(script)
}

// checkReads is how often checkRun reads what workers added to the log of a run meanwhile.
const checkReads = 16

// checkRun compares a run with its log. A run that is too busy for that, or was replaced meanwhile,
// has no findings: the next check judges it.
func (q *Queue) checkRun(ctx context.Context, run string, no int64, repair bool, sessions []any) ([]queue.Finding, error) {
	first := append([]any{flag(repair), run}, sessions...)
	args, from := first, "-"
	var ended []bool
	for range checkReads {
		v, err := q.eval(ctx, q.scripts.tidy, args...)
		if err != nil {
			return nil, err
		}
		r := newReply(v)
		if !r.is("LOG") {
			return readFindings(r, q.scripts.tidy.Name, run)
		}
		r.next()
		last, total, small, upto := r.text(), r.int(), r.text(), r.text()
		if err := r.end(q.scripts.tidy.Name); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(upto, strconv.FormatInt(no, 10)+" ") {
			return nil, nil // the id was submitted again meanwhile: the next check judges that run
		}
		if ended == nil {
			ended = make([]bool, total)
		}
		if last == "" {
			err = markEnded(ended, entry{text: small})
		} else {
			err = q.endedJobs(ctx, no, from, last, ended)
			from = "(" + last
		}
		if err != nil {
			return nil, err
		}
		args = slices.Concat(first, []any{rangesOf(ended), upto})
	}
	return nil, nil
}

// rangesOf returns the indexes of the jobs that ended, as tidy.lua reads them.
func rangesOf(ended []bool) (ranges []byte) {
	for i := 0; i < len(ended); {
		if !ended[i] {
			i++
			continue
		}
		from := i
		for i < len(ended) && ended[i] {
			i++
		}
		ranges = binary.BigEndian.AppendUint32(ranges, uint32(from))
		ranges = binary.BigEndian.AppendUint32(ranges, uint32(i))
	}
	return ranges
}

// markEnded records an entry of a log.
func markEnded(ended []bool, e entry) error {
	list, err := unpackRecords(e)
	for _, rec := range list {
		for i := rec.Index; i < min(rec.Index+rec.Count, len(ended)); i++ {
			ended[i] = true
		}
	}
	return err
}

// finishedBefore marks the jobs that had ended when the run was submitted.
func (q *Queue) finishedBefore(ctx context.Context, no int64, ended []bool) error {
	finished, err := q.client.Get(ctx, q.keys.run(no, "xFinished")).Bytes()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return translate(ctx, err, "check")
	}
	for ; len(finished) >= finishedBytes; finished = finished[finishedBytes:] {
		first, count := int(binary.BigEndian.Uint32(finished)), int(binary.BigEndian.Uint32(finished[4:]))
		for i := first; i < min(first+count, len(ended)); i++ {
			ended[i] = true
		}
	}
	return nil
}

// endedJobs marks the jobs that the log has between two entries. From "-" on, it also marks those
// that were finished before.
func (q *Queue) endedJobs(ctx context.Context, no int64, from, last string, ended []bool) error {
	if from == "-" {
		if err := q.finishedBefore(ctx, no, ended); err != nil {
			return err
		}
	}
	for {
		page, err := q.client.XRangeN(ctx, q.keys.run(no, "xLog"), from, last, recordsPage).Result()
		if err != nil {
			return translate(ctx, err, "check")
		}
		for _, m := range page {
			if err := markEnded(ended, entryOf(m)); err != nil {
				return err
			}
			from = "(" + m.ID
		}
		if len(page) == 0 {
			return nil
		}
	}
}

// recordNumbers finds the records of runs, ascending, whether they are listed or not.
func (q *Queue) recordNumbers(ctx context.Context) ([]int64, error) {
	var nos []int64
	small := q.client.HScan(ctx, q.keys.key("kSmall"), 0, "", runsPage).Iterator()
	for field := true; small.Next(ctx); field = !field {
		if no, err := strconv.ParseInt(small.Val(), 10, 64); field && err == nil {
			nos = append(nos, no)
		}
	}
	if err := small.Err(); err != nil {
		return nil, translate(ctx, err, "check")
	}
	err := q.scan(ctx, "pRun", `(\d+)`, func(s string) error {
		no, err := strconv.ParseInt(s, 10, 64)
		nos = append(nos, no)
		return err
	})
	slices.Sort(nos)
	return slices.Compact(nos), err
}

// sessionSets finds the sessions that have a set of leases, listed or not: their number, then their
// ids, as the scripts want them. A session that opens after this is listed, and the scripts read
// that list themselves.
func (q *Queue) sessionSets(ctx context.Context) ([]any, error) {
	ids := map[string]bool{}
	err := q.scan(ctx, "pSession", "([^:]+)"+q.keys.key("xLeases"), func(s string) error {
		ids[s] = true
		return nil
	})
	out := []any{len(ids)}
	for id := range ids {
		out = append(out, id)
	}
	return out, err
}

// scan visits the part in parentheses of every key that is prefix and pattern.
func (q *Queue) scan(ctx context.Context, prefix, pattern string, visit func(string) error) error {
	c, err := q.node(ctx)
	if err != nil {
		return err
	}
	p := q.keys.key(prefix)
	re := regexp.MustCompile("^" + regexp.QuoteMeta(p) + pattern + "$")
	it := c.Scan(ctx, 0, p+"*", 1000).Iterator()
	for it.Next(ctx) {
		if m := re.FindStringSubmatch(it.Val()); m != nil {
			if err := visit(m[1]); err != nil {
				return fmt.Errorf("queue: key %q: %w", it.Val(), errors.Join(err, core.ErrInvalid))
			}
		}
	}
	return translate(ctx, it.Err(), "check")
}
