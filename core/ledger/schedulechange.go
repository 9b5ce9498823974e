package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
)

// ScheduleChange is one compare-and-set of a schedule, with what happens in the same transaction.
// Where the version does not match, nothing of it happens.
type ScheduleChange struct {
	Schedule      // the new row; Version is the present one, 0: it must not exist. Passed is not written
	Delete   bool // only Tenant, Name and Version count then
	Put      bool // its definition changes: Edition becomes the new version
	Runs     []NewRun
	Cancel   []string // runs to cancel, those complete excepted; none if one of Runs is refused
	Reason   string   // of the cancellations
	// Finish makes Due, Waits and Data of the answers to Runs; nil: they are as given.
	Finish func(runs []Accepted) Schedule
	Note   *Entry // written to the audit log, before the entries of Runs
	// Over, where Put makes a schedule of a person, refuses it if the tenant has so many of them.
	Over core.Quota
}

// ScheduleChanged is the answer to one change.
type ScheduleChanged struct {
	Version int64 // the new one; 0: the version did not match, and nothing was changed
	Runs    []Accepted
}

// Refused reports whether the ledger refused one of the runs. Then no run was cancelled.
func (c *ScheduleChanged) Refused() bool {
	return slices.ContainsFunc(c.Runs, func(a Accepted) bool { return a.Err != nil })
}

// Basis is a document on which changes stand: they are made only while it has this version.
type Basis struct {
	Kind, Tenant, Name string
	Version            int64
}

// ChangeSchedules makes changes in one transaction, each if its version matches. A basis of another
// version is core.ErrConflict, and nothing is changed.
func (l *Ledger) ChangeSchedules(ctx context.Context, changes []ScheduleChange, on ...Basis) ([]ScheduleChanged, error) {
	c := scheduleChanges{Ledger: l, all: changes, out: make([]ScheduleChanged, len(changes)), runs: make([][]*acceptRow, len(changes))}
	for i := range changes {
		if err := c.check(&changes[i]); err != nil {
			return nil, err
		}
		for _, n := range changes[i].Runs {
			c.runs[i] = append(c.runs[i], l.acceptRow(n))
		}
	}
	err := l.db.transact(ctx, "change schedules", func(t *tx) error {
		for _, b := range on {
			if err := b.holds(ctx, t); err != nil {
				return err
			}
		}
		return c.make(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	return c.out, nil
}

func (b Basis) holds(ctx context.Context, t *tx) error {
	version, err := scanOne[int64](t.row(ctx, `SELECT version FROM documents WHERE kind = $1 AND tenant = $2 AND name = $3 AND deleted = 0`+t.forUpdate, b.Kind, b.Tenant, b.Name))
	if err != nil && !none(err) {
		return err
	}
	if version != b.Version {
		return fmt.Errorf("%s %s now has version %d, not %d: %w", b.Kind, b.Name, version, b.Version, core.ErrConflict)
	}
	return nil
}

// scheduleChanges are changes on their way.
type scheduleChanges struct {
	*Ledger
	all  []ScheduleChange
	runs [][]*acceptRow
	out  []ScheduleChanged
}

func (c *scheduleChanges) check(s *ScheduleChange) error {
	for _, f := range []struct {
		what, text string
		needed     bool
	}{{"tenant", s.Tenant, false}, {"name", s.Name, true}, {"made by", s.By, false}} {
		if err := checkText("schedule: "+f.what, f.text, f.needed, maxText); err != nil {
			return err
		}
	}
	if len(s.Data) > MaxSchedule {
		return fmt.Errorf("schedule %s has %d bytes, expected at most %d: %w", s.Name, len(s.Data), MaxSchedule, core.ErrInvalid)
	}
	return nil
}

func (c *scheduleChanges) make(ctx context.Context, t *tx) error {
	mine, err := c.lock(ctx, t)
	if err != nil {
		return err
	}
	var entries []Entry
	var rows []*acceptRow
	var cancels []string
	for _, i := range mine {
		if n := c.all[i].Note; n != nil {
			entries = append(entries, *n)
		}
		rows = append(rows, c.runs[i]...)
		cancels = append(cancels, c.all[i].Cancel...)
	}
	if len(cancels) > 0 { // in the order of all who lock several runs, so that two never wait for each other
		if _, err := lockRuns(ctx, t, cancels); err != nil {
			return err
		}
	}
	answers, accepted, err := c.accept(ctx, t, rows)
	if err != nil {
		return err
	}
	for _, i := range mine {
		n := len(c.runs[i])
		c.out[i].Runs, answers = answers[:n:n], answers[n:]
		if c.out[i].Refused() {
			continue
		}
		if err := c.cancel(ctx, t, &c.all[i]); err != nil {
			return err
		}
	}
	if err := c.write(ctx, t, mine); err != nil {
		return err
	}
	return c.auditAll(ctx, t, append(entries, accepted...))
}

// lock returns the changes whose version matches, and keeps others from changing their rows. Rows
// are locked in one order, so that two servers never wait for each other.
func (c *scheduleChanges) lock(ctx context.Context, t *tx) (mine []int, err error) {
	type key struct{ tenant, name string }
	versions := map[key]int64{}
	order := make([]int, len(c.all))
	keys := make([][]any, len(c.all))
	for i := range c.all {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.all[a].Tenant, c.all[b].Tenant), cmp.Compare(c.all[a].Name, c.all[b].Name))
	})
	for k, i := range order {
		keys[k] = []any{c.all[i].Tenant, c.all[i].Name}
	}
	err = t.set(ctx, columns{"tenant text", "name text"}, `SELECT s.tenant, s.name, s.version FROM u CROSS JOIN schedules s
		WHERE s.tenant = u.tenant AND s.name = u.name ORDER BY s.tenant, s.name`+t.forUpdate, keys, func(row scanner) error {
		var k key
		var version int64
		err := row.Scan(&k.tenant, &k.name, &version)
		versions[k] = version
		return err
	})
	for i := range c.all {
		s := &c.all[i]
		k := key{s.Tenant, s.Name}
		if versions[k] == s.Version {
			mine = append(mine, i)
			versions[k] = -1 // a second change of this row in the same call does not match
		}
	}
	return mine, err
}

func (c *scheduleChanges) cancel(ctx context.Context, t *tx, s *ScheduleChange) error {
	for _, id := range s.Cancel {
		run, err := lockRun(ctx, t, id)
		if none(err) || err == nil && run.Complete() {
			continue
		}
		if err == nil {
			err = c.cancelRun(ctx, t, &run, core.Because(core.Overlap, s.Reason))
		}
		if err != nil && !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
	return nil
}

var scheduleRow = columns{"tenant text", "name text", "made_by text", "version bigint", "edition bigint", "due bigint", "waits bigint", "data bytea"}

func (c *scheduleChanges) write(ctx context.Context, t *tx, mine []int) error {
	var rows [][]any
	for _, i := range mine {
		s := &c.all[i]
		if s.Delete {
			c.out[i].Version = s.Version
			if _, err := t.exec(ctx, `DELETE FROM schedules WHERE tenant = $1 AND name = $2`, s.Tenant, s.Name); err != nil {
				return err
			}
			continue
		}
		if s.Version == 0 && s.Over.Max > 0 {
			if err := c.quota(ctx, t, s); err != nil {
				return err
			}
		}
		now := s.Schedule
		if s.Finish != nil {
			now = s.Finish(c.out[i].Runs)
		}
		c.out[i].Version = s.Version + 1
		if s.Version == 0 { // above every version that a deleted one of this name had
			c.out[i].Version = micros(c.now())
		}
		edition := s.Edition
		if s.Put {
			edition = c.out[i].Version
		}
		var due any
		if !now.Due.IsZero() {
			due = bound(now.Due)
		}
		waits := 0
		if now.Waits {
			waits = 1
		}
		rows = append(rows, []any{s.Tenant, s.Name, s.By, c.out[i].Version, edition, due, waits, c.encrypt(now.Data, scheduleOf, s.Tenant, s.Name)})
	}
	written := 0
	err := t.set(ctx, scheduleRow, `INSERT INTO schedules (tenant, name, made_by, version, edition, due, waits, data) SELECT * FROM u WHERE true
		ON CONFLICT (tenant, name) DO UPDATE SET made_by = excluded.made_by, version = excluded.version, edition = excluded.edition, due = excluded.due,
			waits = excluded.waits, passed = 0, data = excluded.data WHERE schedules.version = excluded.version - 1 RETURNING version`, rows,
		func(row scanner) error { written++; return row.Scan(new(int64)) })
	if err == nil && written < len(rows) {
		err = fmt.Errorf("a schedule was made by somebody else meanwhile: %w", core.ErrConflict)
	}
	return err
}

// quota refuses a schedule of a person that is one too many. The provider, tenant "", has no quota.
func (c *scheduleChanges) quota(ctx context.Context, t *tx, s *ScheduleChange) error {
	if s.Tenant == "" {
		return nil
	}
	n, err := scanOne[int](t.row(ctx, `SELECT count(*) FROM schedules WHERE tenant = $1 AND made_by <> ''`, s.Tenant))
	if err == nil && n >= s.Over.Max {
		return s.Over.Over("tenant " + s.Tenant)
	}
	return err
}
