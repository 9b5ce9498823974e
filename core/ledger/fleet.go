package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// LastJobs returns the newest job with an outcome of each of these hosts, at most MaxPage of them,
// by host. As in HostHistory, jobs count that are on hosts of tenants in scope; a host without one
// is not in the result. Dry runs do not count, because they changed nothing. Reasons and steps are
// left out.
func (l *Ledger) LastJobs(ctx context.Context, s Scope, hosts []string) (map[string]Job, error) {
	if len(hosts) > MaxPage {
		return nil, fmt.Errorf("last jobs of %d hosts, expected at most %d: %w", len(hosts), MaxPage, core.ErrInvalid)
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	q := &query{d: l.db.dialect, args: []any{l.db.list(hosts)}}
	q.where("n.host = u.host")
	q.where("n.outcome <> ''") // a redriven job waits for another outcome
	q.where("NOT EXISTS (SELECT 1 FROM runs d WHERE d.seq = n.run AND d.check_mode = 1)")
	s.filter(q, "n.tenant")
	newest := func(column string) string { // one step of the index jobs_host for each host
		return `(SELECT n.` + column + ` FROM jobs n WHERE ` + strings.Join(q.conds, " AND ") + ` ORDER BY n.recorded DESC, n.run DESC, n.idx DESC LIMIT 1)`
	}
	rows, err := l.db.rows(ctx, `SELECT r.id, r.playbook, j.idx, j.host, j.tenant, j.outcome, j.started, j.took, j.recorded
		FROM (SELECT `+newest("run")+` AS run, `+newest("idx")+` AS idx FROM `+fmt.Sprintf(l.db.each, "$1")+`) last
		JOIN jobs j ON j.run = last.run AND j.idx = last.idx JOIN runs r ON r.seq = j.run`, q.args...)
	all, err := collect(rows, err, func(row scanner) (j Job, err error) {
		var started, took, recorded int64
		err = row.Scan(&j.Run, &j.Playbook, &j.Index, &j.Host, &j.Tenant, &j.Outcome, &started, &took, &recorded)
		j.Started, j.Took, j.Recorded = fromMicros(started), time.Duration(took)*time.Microsecond, fromMicros(recorded)
		return j, err
	})
	if err != nil {
		return nil, translate("read the last outcomes of hosts", err)
	}
	last := make(map[string]Job, len(all))
	for _, j := range all {
		last[j.Host] = j
	}
	return last, nil
}
