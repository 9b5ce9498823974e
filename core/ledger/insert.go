package ledger

import "context"

// Columns of the tables of outcomes. Those from outcome to recorded are recording.fields, in its
// order.
const (
	outcomeColumns = `outcome, reason, step, attempt, worker, started, took, recorded`
	jobColumns     = `run, idx, life, host, tenant, ` + outcomeColumns // life is 0
	attemptColumns = `run, idx, life, ` + outcomeColumns
)

var (
	outcomeRow = columns{"outcome text", "reason text", "step text", "attempt bigint", "worker text", "started bigint", "took bigint", "recorded bigint"}
	jobRow     = append(columns{"run bigint", "idx bigint", "life bigint", "host text", "tenant text"}, outcomeRow...)
	attemptRow = append(append(columns{"run bigint", "idx bigint", "life bigint"}, outcomeRow...), "detail bytea")
	repeatRow  = columns{"run bigint", "idx bigint", "outcome text", "attempt bigint", "worker text", "started bigint"}
)

// insertJobs adds the outcomes of jobs, of any runs, and what their attempts left, and reports
// which jobs had no row.
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

// countRepeated compares the outcomes of jobs that had one with the recorded ones. A queue that
// came back older is read from its beginning: the records that it still has are the recorded ones,
// the others are of jobs that began again.
func countRepeated(ctx context.Context, t *tx, known []*ready) error {
	var rows [][]any
	of := map[int64]*recording{}
	for _, o := range known {
		if o.Attempt == 0 { // it never began
			continue
		}
		of[o.of.run.seq] = o.of
		rows = append(rows, []any{o.of.run.seq, o.Index, string(o.Outcome.Outcome), o.Attempt, clean(o.Worker, maxID), micros(o.Started)})
	}
	return t.set(ctx, repeatRow, `SELECT u.run FROM u WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.run = u.run AND j.idx = u.idx
		AND j.outcome = u.outcome AND j.attempt = u.attempt AND j.worker = u.worker AND j.started = u.started)`, rows, func(row scanner) error {
		var run int64
		err := row.Scan(&run)
		if err == nil {
			of[run].out.Repeated++
		}
		return err
	})
}
