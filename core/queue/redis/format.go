package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// format is how the scripts keep a pool. One that is changed so that the former scripts misread it
// gets the next number, and with it another name of kMeta: kFormer then is the name of now, and
// format.lua takes over what it holds. Version 1 had no number.
const format = 2

// unformatted is the answer of a script that found a pool without a format, and did nothing.
const unformatted = "UNFORMATTED"

// mend checks the answer of a script; again reports that the pool has its format now, and that the
// script must be sent once more.
func (q *Queue) mend(ctx context.Context, answer any, err error) (again bool, _ error) {
	switch {
	case answer == unformatted:
		err = q.formatted(ctx)
		return err == nil, err
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE"): // as after a newer program took the pool over
		return false, cmp.Or(q.formatted(ctx), err)
	}
	return false, err
}

// formatted is takeOver by a process that is at work: processes of the other version may end while
// it waits.
func (q *Queue) formatted(ctx context.Context) error {
	err := q.takeOver(ctx)
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("%w: %s", core.ErrUnavailable, err.Error())
	}
	return err
}

// takeOver sees to it that the pool is in the format of this program. It is core.ErrConflict, and
// nothing was changed, where a newer program has the pool, or processes of an older one still work
// with it.
func (q *Queue) takeOver(ctx context.Context) error {
	const where = "queue: pool %q is of format %s, and this turnus speaks %d"
	var ended string // the sessions that were there, and have not called since
	for {
		v, err := q.conn.Eval(ctx, q.scripts.format, q.keys.fixed, format, ended)
		if err != nil {
			return err
		}
		if v == int64(1) {
			return nil
		}
		r := newReply(v)
		switch r.int() {
		case 0:
			return fmt.Errorf(where+": %w: a newer turnus took it over; nothing was changed\nhint: stop this process, and start it of that version; turnus admin workers ls lists the versions", q.opt.Pool, r.text(), format, core.ErrConflict)
		case 1:
			sessions, nodes := r.text(), r.list()
			held := strings.Fields(sessions)
			var alive []string
			for i := 0; i < len(held); i += 2 {
				if node := nodes.text(); ended != "" && !strings.Contains(" "+ended+" ", " "+held[i]+" "+held[i+1]+" ") {
					alive = append(alive, node)
				}
			}
			if err := errors.Join(nodes.end("format"), r.end("format")); err != nil {
				return err
			}
			if len(alive) > 0 {
				slices.Sort(alive)
				return fmt.Errorf(where+": %w: workers of the former version are at work: %s; nothing was changed\nhint: turnus admin workers drain NAME, or SIGTERM, ends them; then stop the servers of that version, and start this again",
					q.opt.Pool, strconv.Itoa(format-1), format, core.ErrConflict, strings.Join(alive, ", "))
			}
			if ended == "" { // a worker that lives calls meanwhile
				if core.Sleep(ctx, q.opt.SessionTTL+time.Second) != nil {
					return ctx.Err()
				}
			}
			ended = sessions
		default:
			return fmt.Errorf(where+", but processes of both have worked with it: %w\nhint: stop all of them, empty this Redis (redis-cli FLUSHDB), and start the new ones: they fill it again from the ledger", q.opt.Pool, strconv.Itoa(format-1), format, core.ErrConflict)
		}
	}
}
