package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/turnus/turnus/core/queue"
)

// Stats returns the state of the whole queue.
func (q *Queue) Stats(ctx context.Context) (queue.Stats, error) {
	l, err := q.Load(ctx, 0)
	return l.Stats, err
}

// Load is Stats with each tenant's part. It asks for the runs page by page, not in one atomic step.
func (q *Queue) Load(ctx context.Context, ahead time.Duration) (queue.Load, error) {
	var l queue.Load
	meta, err := q.client.HMGet(ctx, q.keys.key("kMeta"), "stale", "reaped", "turns", "empty").Result()
	if err != nil {
		return l, translate(ctx, err, "stats")
	}
	for i, to := range []*int64{&l.StaleAcks, &l.Reaped, &l.Turns, &l.EmptyTurns} {
		if s, ok := meta[i].(string); ok {
			*to, _ = strconv.ParseInt(s, 10, 64)
		}
	}
	n, err := q.client.ZCard(ctx, q.keys.key("kSessions")).Result()
	if err != nil {
		return l, translate(ctx, err, "stats")
	}
	l.Sessions = int(n)
	return l, q.eachLoad(ctx, ahead, func(r *queue.RunLoad) { l.Add(r) })
}

// Runs lists the runs that are not complete.
func (q *Queue) Runs(ctx context.Context) ([]string, error) {
	all := []string{}
	err := q.eachOpen(ctx, idsPage, func(ids []string) error { all = append(all, ids...); return nil })
	return all, err
}

// eachLoad visits the runs that are not complete, in no order. Of those that are, which stay for a
// day, it reads the names only.
func (q *Queue) eachLoad(ctx context.Context, ahead time.Duration, visit func(*queue.RunLoad)) error {
	return q.eachOpen(ctx, runsPage, func(ids []string) error {
		open := make([]ask, len(ids))
		for i, id := range ids {
			open[i] = ask{run: id}
		}
		list, err := q.poll(ctx, ahead, 0, open)
		for i := range list {
			if r := &list[i]; r.err == nil && !r.load.Complete { // else it was forgotten meanwhile
				visit(&r.load)
			}
		}
		return err
	})
}

// eachOpen visits the ids of the runs that are not complete, in no order.
func (q *Queue) eachOpen(ctx context.Context, size int64, visit func(ids []string) error) error {
	return q.eachPage(ctx, size, func(ids []string, numbers []any) error {
		done, err := q.client.Do(ctx, append([]any{"zmscore", q.keys.key("kDone")}, numbers...)...).Slice()
		if err != nil {
			return translate(ctx, err, "list runs")
		}
		open := ids[:0]
		for i, id := range ids {
			if i < len(done) && done[i] == nil {
				open = append(open, id)
			}
		}
		return visit(open)
	})
}

// How many runs are listed together, and asked for where more than their ids is wanted.
const (
	idsPage  = 1024
	runsPage = 256
)

// eachPage visits the ids of all runs with their numbers, each once, in no order. No page is empty.
func (q *Queue) eachPage(ctx context.Context, size int64, visit func(ids []string, numbers []any) error) error {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		page, next, err := q.client.HScan(ctx, q.keys.key("kIDs"), cursor, "", size).Result()
		if err != nil {
			return translate(ctx, err, "list runs")
		}
		var ids []string
		var numbers []any
		for i := 0; i+1 < len(page); i += 2 {
			if !seen[page[i]] {
				seen[page[i]] = true
				ids, numbers = append(ids, page[i]), append(numbers, page[i+1])
			}
		}
		if len(ids) > 0 {
			if err := visit(ids, numbers); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// eachRun visits all runs, in no order.
func (q *Queue) eachRun(ctx context.Context, visit func(run string, no int64) error) error {
	return q.eachPage(ctx, runsPage, func(ids []string, numbers []any) error {
		for i, id := range ids {
			text, _ := numbers[i].(string)
			no, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				continue
			}
			if err := visit(id, no); err != nil {
				return err
			}
		}
		return nil
	})
}
