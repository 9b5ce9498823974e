package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// MaxSchedule bounds the data of a schedule.
const MaxSchedule = 64 << 10

// Schedule is a row of the schedules. Data is its definition and state; the ledger does not know
// what it means.
type Schedule struct {
	Tenant, Name string
	By           string    // the person who made it; "" for one of the definitions
	Version      int64     // grows with every change, and never comes again, not after a deletion either
	Edition      int64     // Version when the definition was last put
	Due          time.Time // when somebody has to check it; zero: never
	Waits        bool      // the end of a run makes it due
	Passed       time.Time // not zero: the row was restored from a copy then, and older than it seems
	Data         []byte
	// Unreadable is why Data could not be opened; nil mostly.
	Unreadable error
}

// DueSchedules is the answer to what is due.
type DueSchedules struct {
	Now  time.Time  // of the database where it has a clock, else of this process
	Rows []Schedule // due by then, those due longest first
	Next time.Time  // when the next one is due, where Rows is empty; zero: never
}

const scheduleColumns = `tenant, name, made_by, version, edition, coalesce(due, 0), waits, passed, data`

func (l *Ledger) scanSchedule(row scanner) (Schedule, error) {
	var s Schedule
	var due, passed int64
	var waits int
	err := row.Scan(&s.Tenant, &s.Name, &s.By, &s.Version, &s.Edition, &due, &waits, &passed, &s.Data)
	if err == nil {
		s.Data, s.Unreadable = l.open(s.Data, scheduleOf, s.Tenant, s.Name)
	}
	s.Due, s.Waits, s.Passed = fromMicros(due), waits == 1, fromMicros(passed)
	return s, err
}

// Now is the clock that schedules go by: that of PostgreSQL, which all servers share, or this
// process's.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) {
	if !l.db.clock {
		return fromMicros(micros(l.now())), nil
	}
	us, err := scanOne[int64](l.db.row(ctx, `SELECT `+l.db.now))
	return fromMicros(us), translate("read the database's clock", err)
}

// DueSchedules reads up to limit schedules that are due.
func (l *Ledger) DueSchedules(ctx context.Context, limit int) (d DueSchedules, err error) {
	if d.Now, err = l.Now(ctx); err != nil {
		return d, err
	}
	rows, err := l.db.rows(ctx, `SELECT `+scheduleColumns+` FROM schedules WHERE due <= $1 ORDER BY due LIMIT $2`, micros(d.Now), min(limit, MaxPage))
	if d.Rows, err = collect(rows, err, l.scanSchedule); err != nil || len(d.Rows) > 0 {
		return d, translate("read the schedules that are due", err)
	}
	next, err := scanOne[int64](l.db.row(ctx, `SELECT coalesce(min(due), 0) FROM schedules WHERE due IS NOT NULL`))
	d.Next = fromMicros(next)
	return d, translate("read when a schedule is due", err)
}

// Schedule reads one schedule of a tenant in scope.
func (l *Ledger) Schedule(ctx context.Context, s Scope, tenant, name string) (Schedule, error) {
	if !s.Allows(tenant) {
		return Schedule{}, noSchedule(tenant, name)
	}
	row, err := l.scanSchedule(l.db.row(ctx, `SELECT `+scheduleColumns+` FROM schedules WHERE tenant = $1 AND name = $2`, clean(tenant, maxText), clean(name, maxText)))
	if none(err) {
		return Schedule{}, noSchedule(tenant, name)
	}
	return row, translate("read schedule "+name, err)
}

func noSchedule(tenant, name string) error {
	if tenant != "" {
		name = tenant + ":" + name
	}
	return fmt.Errorf("there is no schedule %s: %w", clean(name, maxID), core.ErrNotFound)
}

// Schedules lists schedules by tenant and name.
func (l *Ledger) Schedules(ctx context.Context, s Scope, p Page) (all []Schedule, next string, err error) {
	q := &query{d: l.db.dialect}
	s.filter(q, "tenant")
	return list(ctx, l, q, p, listing[Schedule]{
		what: "list schedules", columns: scheduleColumns, from: "schedules", order: "tenant, name", scan: l.scanSchedule,
		at:    func(s Schedule) cursor { return cursor{List: "schedules", Name: []string{s.Tenant, s.Name}} },
		after: func(q *query, at cursor) { q.where("(tenant, name) > (?, ?)", at.Name[0], at.Name[1]) },
	})
}

// MakeSchedulesDue makes those of the schedules due now that wait for the end of a run, and reports
// whether there were any.
func (l *Ledger) MakeSchedulesDue(ctx context.Context, names [][2]string) (due bool, err error) {
	some, err := scanOne[bool](l.db.row(ctx, `SELECT EXISTS (SELECT 1 FROM schedules WHERE waits = 1)`))
	if err != nil || !some {
		return false, translate("look for schedules that wait for a run", err)
	}
	now, err := l.Now(ctx)
	if err != nil {
		return false, err
	}
	err = l.db.transact(ctx, "look at schedules whose run has ended", func(t *tx) error {
		for _, n := range names {
			changed, err := t.exec(ctx, `UPDATE schedules SET due = $3 WHERE tenant = $1 AND name = $2 AND waits = 1 AND due > $3`,
				clean(n[0], maxText), clean(n[1], maxText), micros(now))
			if err != nil {
				return err
			}
			due = due || changed > 0
		}
		return nil
	})
	return due && err == nil, err
}

// PostponeSchedule makes a schedule due later and leaves it as it is otherwise. One that was
// changed meanwhile stays.
func (l *Ledger) PostponeSchedule(ctx context.Context, s Schedule, until time.Time) error {
	return l.db.transact(ctx, "postpone schedule "+s.Name, func(t *tx) error {
		_, err := t.exec(ctx, `UPDATE schedules SET due = $4, version = version + 1 WHERE tenant = $1 AND name = $2 AND version = $3`, s.Tenant, s.Name, s.Version, micros(until))
		return err
	})
}

// Kept returns how many of the runs the ledger has.
func (l *Ledger) Kept(ctx context.Context, runs []string) (n int, err error) {
	q := &query{d: l.db.dialect}
	q.whereAny("id", runs)
	err = l.db.row(ctx, `SELECT count(*) FROM runs WHERE `+q.conds[0], q.args...).Scan(&n)
	return n, translate("count runs", err)
}

// Open returns those of the runs that are there and not complete, by id.
func (l *Ledger) Open(ctx context.Context, runs []string) (map[string]bool, error) {
	open := make(map[string]bool, len(runs))
	if len(runs) == 0 {
		return open, nil
	}
	q := &query{d: l.db.dialect}
	q.where("ended = 0")
	q.whereAny("id", runs)
	rows, err := l.db.rows(ctx, `SELECT id FROM runs WHERE `+q.conds[0]+` AND `+q.conds[1], q.args...)
	ids, err := collect(rows, err, scanOne[string])
	for _, id := range ids {
		open[id] = true
	}
	return open, translate("list complete runs", err)
}
