package ledger

import "context"

// Columns of the tables of outcomes. Those from outcome to recorded are recording.fields, in its order.
const (
	outcomeColumns = `outcome, reason, step, attempt, worker, started, took, recorded`
	jobColumns     = `run, idx, life, host, tenant, ` + outcomeColumns // life is 0
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
		r := o.of
		place[job{r.run.seq, o.Index}] = i
		h := r.hosts[o.Index]
		rows[i] = append([]any{r.run.seq, o.Index, 0, h.Host, h.Tenant}, r.fields(o)...)
	}
	added = make([]bool, len(all))
	var attempts [][]any
	err = t.set(ctx, jobRow, `INSERT INTO jobs (`+jobColumns+`) SELECT * FROM u WHERE true ON CONFLICT DO NOTHING RETURNING run, idx`, rows, func(row scanner) error {
		var j job
		err := row.Scan(&j.run, &j.index)
		i := place[j]
		added[i] = true
		if o := all[i]; len(o.Detail) > 0 {
			attempts = append(attempts, append(append([]any{j.run, j.index, 0}, rows[i][5:]...), o.detail))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return added, t.set(ctx, attemptRow, `INSERT INTO attempts (`+attemptColumns+`, detail) SELECT * FROM u WHERE true ON CONFLICT DO NOTHING`, attempts, nil)
}
