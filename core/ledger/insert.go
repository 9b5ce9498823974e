package ledger

import "context"

// Columns of the tables of outcomes. Those from outcome to recorded are recording.fields, in its order.
const (
	outcomeColumns = `outcome, reason, step, attempt, worker, started, took, recorded`
	jobColumns     = `run, idx, life, host, tenant, ` + outcomeColumns
	attemptColumns = `run, idx, life, ` + outcomeColumns
)

var (
	outcomeRow = columns{"outcome text", "reason text", "step text", "attempt bigint", "worker text", "started bigint", "took bigint", "recorded bigint"}
	jobRow     = append(columns{"run bigint", "idx bigint", "life bigint", "host text", "tenant text"}, outcomeRow...)
	attemptRow = append(append(columns{"run bigint", "idx bigint", "life bigint"}, outcomeRow...), "detail bytea")
)

// insertJobs adds the outcomes of jobs, of any runs, and what their attempts left, and tells which jobs had no row.
func insertJobs(ctx context.Context, t *tx, all []*ready) (added []bool, err error) {
	type job struct {
		run   int64
		index int
	}
	rows, place := make([][]any, len(all)), make(map[job]int, len(all))
	for i, o := range all {
		r, life := o.of, o.life()
		place[job{r.run.seq, o.Index}] = i
		h := r.hosts[o.Index]
		rows[i] = append([]any{r.run.seq, o.Index, life, h.Host, h.Tenant}, r.fields(o, life)...)
	}
	added = make([]bool, len(all))
	var attempts [][]any
	err = t.set(ctx, jobRow, `INSERT INTO jobs (`+jobColumns+`) SELECT * FROM u WHERE true ON CONFLICT DO NOTHING RETURNING run, idx`, rows, func(row scanner) error {
		var j job
		err := row.Scan(&j.run, &j.index)
		i := place[j]
		added[i] = true
		if o := all[i]; len(o.Detail) > 0 {
			attempts = append(attempts, attemptValues(j.run, j.index, o.life(), rows[i][5:], o.of.detail(o, o.life())))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return added, putAttempts(ctx, t, attempts)
}

// attemptValues are a row of putAttempts.
func attemptValues(seq int64, index, life int, fields []any, detail []byte) []any {
	return append(append([]any{seq, index, life}, fields...), detail)
}

func putAttempts(ctx context.Context, t *tx, rows [][]any) error {
	return t.set(ctx, attemptRow, `INSERT INTO attempts (`+attemptColumns+`, detail) SELECT * FROM u WHERE true ON CONFLICT DO NOTHING`, rows, nil)
}

// archive keeps a job's outcome among its attempts, before another takes its place.
func archive(ctx context.Context, t *tx, seq int64, index int) error {
	_, err := t.exec(ctx, `INSERT INTO attempts (`+attemptColumns+`)
		SELECT `+attemptColumns+` FROM jobs WHERE run = $1 AND idx = $2 ON CONFLICT DO NOTHING`, seq, index)
	return err
}
