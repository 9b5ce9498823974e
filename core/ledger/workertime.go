package ledger

import (
	"context"
	"time"
)

// WorkerTime is the worker time of the host tasks of a tenant's runs that ended in one span.
type WorkerTime struct {
	Tenant string // of the runs
	Span   int    // from 0
	Took   time.Duration
	Hosts  int
}

// WorkerTimes adds up the worker time of host tasks that ended in each of so many spans of a width,
// from a time on, by tenant and span, in no order. Host tasks that never started do not count.
// It reads at most so many host tasks: whole is false where the oldest runs are left out. It is for
// the service: it shows all tenants.
func (l *Ledger) WorkerTimes(ctx context.Context, from time.Time, width time.Duration, spans, most int) (list []WorkerTime, whole bool, err error) {
	start, size := micros(from), width.Microseconds()
	// Host tasks that ended since then belong to runs that are open or ended since then.
	const runs = `SELECT seq, tenant, recorded FROM runs`
	rows, err := l.db.rows(ctx, `WITH near AS (SELECT seq, tenant, sum(recorded) OVER (ORDER BY seq DESC) AS so_far FROM (
			`+runs+l.db.byOpen+` WHERE ended = 0 UNION ALL `+runs+l.db.byEnded+` WHERE ended > 0 AND ended >= $1) u)
		SELECT n.tenant, (j.recorded - $1) / $2, CAST(sum(j.took) AS BIGINT), count(*) FROM near n JOIN jobs j ON j.run = n.seq
			WHERE n.so_far <= $4 AND j.attempt > 0 AND j.recorded >= $1 AND j.recorded < $3 GROUP BY 1, 2
		UNION ALL SELECT '', -1, 0, count(*) FROM near WHERE so_far > $4`, start, size, start+size*int64(spans), most)
	all, err := collect(rows, err, func(row scanner) (t WorkerTime, err error) {
		var took int64
		err = row.Scan(&t.Tenant, &t.Span, &took, &t.Hosts)
		t.Took = time.Duration(took) * time.Microsecond
		return t, err
	})
	if err != nil {
		return nil, false, translate("read the worker time of tenants", err)
	}
	whole = true
	for _, t := range all {
		if t.Span < 0 {
			whole = t.Hosts == 0
			continue
		}
		list = append(list, t)
	}
	return list, whole, nil
}
