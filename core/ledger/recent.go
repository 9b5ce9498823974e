package ledger

import (
	"context"
	"strconv"

	"github.com/turnus/turnus/core"
)

// Bounds of RecentDetails.
const (
	recentRuns   = 20
	recentHosts  = 25 // of each run, the first ones
	recentDetail = 64 << 10
)

// RecentDetail is the recorded detail of one host of a run that succeeded.
type RecentDetail struct {
	core.JobID
	Detail []byte
}

// RecentDetails returns the details of hosts that succeeded in the newest runs of a playbook that
// were no dry runs, for forecasts: at most 25 hosts of each of 20 runs, and no detail of more than
// 64 KiB. A detail that cannot be opened is nil. It checks the newest runs of the playbook as a
// page does, see sifted.
func (l *Ledger) RecentDetails(ctx context.Context, s Scope, playbook string) ([]RecentDetail, error) {
	q := &query{d: l.db.dialect}
	q.where("playbook = ?", clean(playbook, maxText))
	q.sift("changed + unchanged > 0")
	q.sift("check_mode = 0")
	s.sift(q, "tenant")
	newest, args := q.page("seq, id", "runs", runsOrder, Page{Limit: recentRuns - 1}) // a page reads one more
	rows, err := l.db.rows(ctx, `SELECT r.id, a.idx, a.attempt, a.detail FROM (`+newest+`) r JOIN attempts a ON a.run = r.seq AND a.idx < `+strconv.Itoa(recentHosts)+`
		WHERE a.outcome IN ('changed', 'unchanged') AND length(a.detail) <= `+strconv.Itoa(recentDetail), args...)
	all, err := collect(rows, err, func(row scanner) (RecentDetail, error) {
		var d RecentDetail
		var attempt int
		err := row.Scan(&d.Run, &d.Index, &attempt, &d.Detail)
		d.Detail, _ = l.open(d.Detail, tryPlace(detailOf, d.Run, d.Index, attempt)...)
		return d, err
	})
	return all, translate("read recent results of playbook "+playbook, err)
}
