package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
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

func parseCursor(s string) (position, bool) {
	if s == "" {
		return position{entry: "0-0"}, true
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
	no, err := q.runNumber(ctx, run)
	if err != nil {
		return nil, cursor, fmt.Errorf("records of run %q: %w", run, err)
	}
	key := q.keys.run(no, "xLog")
	end := time.Now().Add(wait)
	for {
		list, next, err := q.page(ctx, key, at, limit)
		if err != nil || len(list) > 0 {
			return list, next.String(), err
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, cursor, nil
		}
		last := at.entry
		if _, err := q.blocked(ctx, min(left, backstop), "xread", "count", 1, "block", redisconn.BlockTime{}, "streams", key, last); err != nil {
			return nil, cursor, err
		}
		if ctx.Err() != nil {
			return nil, cursor, ctx.Err()
		}
	}
}

func (q *Queue) page(ctx context.Context, key string, at position, limit int) ([]queue.Record, position, error) {
	var list []queue.Record
	for {
		msgs, err := q.client.XRangeN(ctx, key, "("+at.entry, "+", int64(min(recordsPage, limit+1))).Result()
		if err != nil {
			return nil, at, translate(ctx, err, "records")
		}
		for _, m := range msgs {
			records, err := unpackRecords(m)
			if err != nil {
				return nil, at, err
			}
			if at.skip > len(records) {
				return nil, at, fmt.Errorf("records: cursor %q was not given out: %w", at, core.ErrInvalid)
			}
			records = records[at.skip:]
			if room := limit - len(list); len(records) > room {
				at.skip += room
				return append(list, records[:room]...), at, nil
			}
			list = append(list, records...)
			at = position{entry: m.ID}
		}
		if len(msgs) == 0 || len(list) == limit {
			return list, at, nil
		}
	}
}

// unpackRecords gives the outcomes of an entry.
func unpackRecords(m goredis.XMessage) ([]queue.Record, error) {
	list, err := unpackLog(m)
	return slices.DeleteFunc(list, func(r queue.Record) bool { return r.Outcome == "" }), err
}

// unpackLog reads the layout of record in base.lua. A record without an outcome says that a dead job was redriven.
func unpackLog(m goredis.XMessage) ([]queue.Record, error) {
	s, _ := m.Values["r"].(string)
	b := []byte(s)
	outcomes := core.Outcomes()
	var list []queue.Record
	for len(b) > 0 {
		if len(b) < 17 {
			return nil, fmt.Errorf("records: entry %s is cut short: %w", m.ID, core.ErrUnknown)
		}
		code, reason, detail := int(b[8]), int(binary.BigEndian.Uint16(b[11:])), int(binary.BigEndian.Uint32(b[13:]))
		if code > len(outcomes) || len(b) < 17+reason+detail {
			return nil, fmt.Errorf("records: entry %s is not readable: %w", m.ID, core.ErrUnknown)
		}
		rec := queue.Record{
			Index: int(binary.BigEndian.Uint32(b)), Count: int(binary.BigEndian.Uint32(b[4:])),
			Attempt: int(binary.BigEndian.Uint16(b[9:])), Reason: string(b[17 : 17+reason]),
		}
		if code > 0 {
			rec.Outcome = outcomes[code-1]
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
