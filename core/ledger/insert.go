package ledger

import "context"

// bulk adds rows to jobs, and their details to attempts, and tells which were not there.
type bulk func(ctx context.Context, t *tx, r *recording, all []*ready) (added []bool, err error)

// Columns of the two tables. Those from outcome to recorded are recording.fields, in its order.
const (
	outcomeColumns = `outcome, reason, step, attempt, worker, started, took, recorded`
	jobColumns     = `run, idx, life, host, tenant, ` + outcomeColumns
	attemptColumns = `run, idx, life, ` + outcomeColumns
)

const insertAttempt = `INSERT INTO attempts (` + attemptColumns + `, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`

// attemptValues are the parameters of insertAttempt.
func attemptValues(seq int64, index, life int, fields []any, detail []byte) []any {
	return append(append([]any{seq, index, life}, fields...), detail)
}

func putAttempt(ctx context.Context, t *tx, seq int64, index, life int, fields []any, detail []byte) error {
	_, err := t.exec(ctx, insertAttempt, attemptValues(seq, index, life, fields, detail)...)
	return err
}

// archive keeps a job's outcome among its attempts, before another takes its place.
func archive(ctx context.Context, t *tx, seq int64, index int) error {
	_, err := t.exec(ctx, `INSERT INTO attempts (`+attemptColumns+`)
		SELECT `+attemptColumns+` FROM jobs WHERE run = $1 AND idx = $2 ON CONFLICT DO NOTHING`, seq, index)
	return err
}

// insertOneByOne is for SQLite, where a statement costs no round trip.
func insertOneByOne(ctx context.Context, t *tx, r *recording, all []*ready) ([]bool, error) {
	job, err := t.stmt(ctx, `INSERT INTO jobs (`+jobColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return nil, err
	}
	attempt, err := t.stmt(ctx, insertAttempt)
	if err != nil {
		return nil, err
	}
	// A batch is short and must not be cut: without a deadline the driver needs no goroutine a row.
	ctx = context.WithoutCancel(ctx)
	added := make([]bool, len(all))
	for i, o := range all {
		h, life := r.hosts[o.Index], o.life()
		f := r.fields(o, life)
		res, err := job.ExecContext(ctx, append([]any{r.run.seq, o.Index, life, h.Host, h.Tenant}, f...)...)
		if err != nil {
			return nil, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return nil, err
		}
		added[i] = n == 1
		if !added[i] || len(o.Detail) == 0 {
			continue
		}
		if _, err := attempt.ExecContext(ctx, attemptValues(r.run.seq, o.Index, life, f, r.detail(o, life))...); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// insertUnnest is for PostgreSQL: one statement for all rows, and one for all details.
func insertUnnest(ctx context.Context, t *tx, r *recording, all []*ready) ([]bool, error) {
	var c columns
	place := make(map[int]int, len(all))
	for i, o := range all {
		place[o.Index] = i
		c.add(r, o, nil)
	}
	rows, err := t.rows(ctx, `INSERT INTO jobs (`+jobColumns+`)
		SELECT $1::bigint, u.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[]) AS u ON CONFLICT DO NOTHING RETURNING idx`,
		r.run.seq, c.idx, c.life, c.host, c.tenant, c.outcome, c.reason, c.step, c.attempt, c.worker, c.started, c.took, c.recorded)
	indexes, err := collect(rows, err, scanOne[int])
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(all))
	c = columns{}
	for _, index := range indexes {
		i := place[index]
		added[i] = true
		if o := all[i]; len(o.Detail) > 0 {
			c.add(r, o, r.detail(o, o.life()))
		}
	}
	if len(c.idx) == 0 {
		return added, nil
	}
	_, err = t.exec(ctx, `INSERT INTO attempts (`+attemptColumns+`, detail)
		SELECT $1::bigint, u.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
		$9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[]) AS u ON CONFLICT DO NOTHING`,
		r.run.seq, c.idx, c.life, c.outcome, c.reason, c.step, c.attempt, c.worker, c.started, c.took, c.recorded, c.detail)
	return added, err
}

// columns are rows turned on their side, as unnest takes them.
type columns struct {
	idx, life, attempt, started, took, recorded []int64
	host, tenant, outcome, reason, step, worker []string
	detail                                      [][]byte
}

func (c *columns) add(r *recording, o *ready, detail []byte) {
	h := r.hosts[o.Index]
	c.idx = append(c.idx, int64(o.Index))
	c.life = append(c.life, int64(o.life()))
	c.attempt = append(c.attempt, int64(o.Attempt))
	c.started = append(c.started, micros(o.Started))
	c.took = append(c.took, o.Took.Microseconds())
	c.recorded = append(c.recorded, r.now)
	c.host = append(c.host, h.Host)
	c.tenant = append(c.tenant, h.Tenant)
	c.outcome = append(c.outcome, string(o.Outcome.Outcome))
	c.reason = append(c.reason, r.reason(o, o.life()))
	c.step = append(c.step, clean(o.Step, maxID))
	c.worker = append(c.worker, clean(o.Worker, maxID))
	c.detail = append(c.detail, detail)
}
