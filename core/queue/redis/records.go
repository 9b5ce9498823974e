package redis

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

const recordsPage = 128 // stream entries of one read; an entry is what one turn recorded in a run

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

var errNoRun = fmt.Errorf("no such run: %w", core.ErrNotFound)

// entry is a part of a run's log: that of a small run has one, which has no id as long as the run
// has no stream, and grows.
type entry struct{ id, text string }

func entryOf(m goredis.XMessage) entry {
	s, _ := m.Values["r"].(string)
	return entry{m.ID, s}
}

// take gives at most limit records of entries that come behind at, and where they end; whole is
// false where some are left.
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
			Outcome: outcomes[code-1], Attempt: int(binary.BigEndian.Uint16(b[9:])), Reason: core.Reason(b[17 : 17+reason]),
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
