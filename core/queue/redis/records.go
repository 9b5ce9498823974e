package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
)

const recordsPage = 128 // stream entries read at once; an entry is what one turn recorded in a run

// position is a cursor: the stream entry that was read last, and how many records of the one
// after it were given out, where a page ended inside it.
type position struct {
	entry string
	skip  int
}

const firstEntry = "0-0" // what comes before every entry of a stream

func parseCursor(s string) (position, bool) {
	if s == "" {
		return position{entry: firstEntry}, true
	}
	m := regexp.MustCompile(`^(\d{1,19}-\d{1,19})\+(\d{1,9})$`).FindStringSubmatch(s)
	if m == nil {
		return position{}, false
	}
	n, err := strconv.Atoi(m[2])
	return position{m[1], n}, err == nil
}

func (p position) String() string { return p.entry + "+" + strconv.Itoa(p.skip) }

// Records returns what was recorded after cursor, in order.
func (q *Queue) Records(ctx context.Context, run, cursor string, limit int, wait time.Duration) ([]queue.Record, string, error) {
	at, ok := parseCursor(cursor)
	if !ok {
		return nil, cursor, fmt.Errorf("records of run %q: cursor %q was not given out: %w", run, cursor, core.ErrInvalid)
	}
	if limit < 1 {
		return nil, cursor, fmt.Errorf("records of run %q: max is %d, expected 1 or more: %w", run, limit, core.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return nil, cursor, err
	}
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		log, err := q.log(ctx, run, at.skip, left > 0)
		if err != nil {
			return nil, cursor, fmt.Errorf("records of run %q: %w", run, err)
		}
		var list []queue.Record
		var next position
		sleep := []any{"blpop", q.keys.run(log.run, "xNews"), redisconn.BlockTime{}}
		if log.small {
			list, next, err = log.page(at, limit)
		} else {
			key := q.keys.run(log.run, "xLog")
			list, next, err = q.page(ctx, key, at, limit)
			sleep = []any{"xread", "count", 1, "block", redisconn.BlockTime{}, "streams", key, at.entry}
		}
		if err != nil || len(list) > 0 {
			return list, next.String(), err
		}
		if left <= 0 {
			return nil, cursor, nil
		}
		if _, err := q.blocked(ctx, min(left, backstop), sleep...); err != nil {
			return nil, cursor, err
		}
		if ctx.Err() != nil {
			return nil, cursor, ctx.Err()
		}
	}
}

// runLog is where the records of a run are: in the text, if the run is small, else in a stream.
type runLog struct {
	run   int64
	small bool
	text  string
}

// log finds the records of a run. With wait, who changes a small run that has not more than skip records wakes this reader.
func (q *Queue) log(ctx context.Context, run string, skip int, wait bool) (runLog, error) {
	v, err := q.eval(ctx, q.scripts.records, run, skip, flag(wait))
	if err != nil {
		return runLog{}, err
	}
	if n, ok := v.(int64); ok && n < 0 {
		return runLog{}, errNoRun
	}
	r := newReply(v)
	log := runLog{run: r.int64(), small: !r.empty()}
	if log.small {
		log.text = r.text()
	}
	return log, r.end("records")
}

var errNoRun = fmt.Errorf("no such run: %w", core.ErrNotFound)

// entry is a part of a run's log: that of a small run has one, which has no id as long as the run has no stream, and grows.
type entry struct{ id, text string }

func entryOf(m goredis.XMessage) entry {
	s, _ := m.Values["r"].(string)
	return entry{m.ID, s}
}

// take gives at most limit records of entries that come behind at, and where they end; whole is false where some are left.
func take(entries []entry, at position, limit int) (list []queue.Record, next position, whole bool, err error) {
	invalid := fmt.Errorf("records: cursor %q was not given out: %w", at, core.ErrInvalid)
	if at.skip > 0 && len(entries) == 0 {
		return nil, at, false, invalid
	}
	for _, e := range entries {
		records, err := unpackRecords(e)
		if err == nil && at.skip > len(records) {
			err = invalid
		}
		if err != nil {
			return nil, at, false, err
		}
		records = records[at.skip:]
		n := min(len(records), limit-len(list))
		list, whole = append(list, records[:n]...), n == len(records)
		if at.skip += n; !whole {
			return list, at, false, nil
		}
		if e.id != "" {
			at = position{entry: e.id}
		}
	}
	return list, at, true, nil
}

// page reads the text of a small run. If the run gets a stream, the text is its first entry: a cursor goes on to count in it.
func (l *runLog) page(at position, limit int) ([]queue.Record, position, error) {
	list, at, _, err := take([]entry{{text: l.text}}, at, limit)
	return list, at, err
}

func (q *Queue) page(ctx context.Context, key string, at position, limit int) ([]queue.Record, position, error) {
	var list []queue.Record
	for {
		msgs, err := q.client.XRangeN(ctx, key, "("+at.entry, "+", int64(min(recordsPage, limit+1))).Result()
		if err != nil {
			return nil, at, translate(ctx, err, "records")
		}
		entries := make([]entry, len(msgs))
		for i, m := range msgs {
			entries[i] = entryOf(m)
		}
		more, next, whole, err := take(entries, at, limit-len(list))
		if err != nil {
			return nil, at, err
		}
		list, at = append(list, more...), next
		if len(msgs) == 0 || len(list) == limit || !whole {
			return list, at, nil
		}
	}
}

// unpackRecords reads the layout of record in base.lua.
func unpackRecords(e entry) ([]queue.Record, error) {
	b := []byte(e.text)
	outcomes := core.Outcomes()
	var list []queue.Record
	for len(b) > 0 {
		if len(b) < 17 {
			return nil, fmt.Errorf("records: entry %s is cut short: %w", e.id, core.ErrUnknown)
		}
		code, reason, detail := int(b[8]), int(binary.BigEndian.Uint16(b[11:])), int(binary.BigEndian.Uint32(b[13:]))
		if code < 1 || code > len(outcomes) || len(b) < 17+reason+detail {
			return nil, fmt.Errorf("records: entry %s is not readable: %w", e.id, core.ErrUnknown)
		}
		rec := queue.Record{
			Index: int(binary.BigEndian.Uint32(b)), Count: int(binary.BigEndian.Uint32(b[4:])),
			Outcome: outcomes[code-1], Attempt: int(binary.BigEndian.Uint16(b[9:])), Reason: string(b[17 : 17+reason]),
		}
		switch rest := b[17+reason : 17+reason+detail : 17+reason+detail]; {
		case detail == 0:
		case reason > 0:
			rec.State = rest
		default:
			rec.Detail = rest
		}
		list = append(list, rec)
		b = b[17+reason+detail:]
	}
	return list, nil
}
