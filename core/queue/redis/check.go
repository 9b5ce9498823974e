package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Check looks for broken invariants: first the pool's, then each run's against its log. It is for
// maintenance: its scripts grow with the jobs in flight, blocked or waiting. With repair it mends
// what the data allows; a finding that is not Repaired says what it could not.
func (q *Queue) Check(ctx context.Context, repair bool) ([]queue.Finding, error) {
	nos, err := q.recordNumbers(ctx)
	if err != nil {
		return nil, err
	}
	args := []any{flag(repair)}
	for _, no := range nos {
		args = append(args, no)
	}
	findings, err := q.findings(ctx, q.scripts.pool, "", args)
	if err != nil {
		return nil, err
	}
	err = q.eachRun(ctx, func(run string, no int64) error {
		more, err := q.checkRun(ctx, run, no, repair)
		findings = append(findings, more...)
		return err
	})
	return findings, err
}

func (q *Queue) findings(ctx context.Context, s *script, run string, args []any) ([]queue.Finding, error) {
	v, err := q.eval(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	var list []queue.Finding
	r := newReply(v)
	for !r.empty() {
		text := r.text()
		if text == "!" {
			continue // forgotten meanwhile
		}
		what, repaired := strings.CutPrefix(text, "+")
		list = append(list, queue.Finding{What: what, Run: run, Repaired: repaired})
	}
	return list, r.end(s.name)
}

func (q *Queue) checkRun(ctx context.Context, run string, no int64, repair bool) ([]queue.Finding, error) {
	v, err := q.eval(ctx, q.scripts.tidy, flag(repair), run)
	if err != nil {
		return nil, err
	}
	r := newReply(v)
	if r.text() != "LOG" {
		return nil, nil // forgotten meanwhile
	}
	last, total := r.text(), r.int()
	ended, err := q.endedJobs(ctx, no, last, total)
	if err != nil {
		return nil, err
	}
	args := []any{flag(repair), run}
	for i := 0; i < total; {
		if !ended[i] {
			i++
			continue
		}
		from := i
		for i < total && ended[i] {
			i++
		}
		args = append(args, from, i)
	}
	if len(args) == 2 {
		args = append(args, 0, 0)
	}
	return q.findings(ctx, q.scripts.tidy, run, args)
}

// endedJobs replays the log up to the entry last.
func (q *Queue) endedJobs(ctx context.Context, no int64, last string, total int) ([]bool, error) {
	ended := make([]bool, total)
	for from := "-"; ; {
		page, err := q.client.XRangeN(ctx, q.keys.run(no, "xLog"), from, last, recordsPage).Result()
		if err != nil {
			return nil, translate(ctx, err, "check")
		}
		for _, m := range page {
			list, err := unpackLog(m)
			if err != nil {
				return nil, err
			}
			for _, rec := range list {
				for i := rec.Index; i < min(rec.Index+rec.Count, total); i++ {
					ended[i] = rec.Outcome != "" // none: it was redriven
				}
			}
			from = "(" + m.ID
		}
		if len(page) == 0 {
			return ended, nil
		}
	}
}

// recordNumbers finds the records of runs by their keys, ascending, whether they are listed or not.
func (q *Queue) recordNumbers(ctx context.Context) ([]int64, error) {
	c, err := q.node(ctx)
	if err != nil {
		return nil, err
	}
	prefix := q.keys.key("pRun")
	record := regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + `(\d+)$`)
	var nos []int64
	it := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for it.Next(ctx) {
		if m := record.FindStringSubmatch(it.Val()); m != nil {
			no, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("queue: key %q: %w", it.Val(), errors.Join(err, core.ErrInvalid))
			}
			nos = append(nos, no)
		}
	}
	slices.Sort(nos)
	return slices.Compact(nos), translate(ctx, it.Err(), "check")
}
