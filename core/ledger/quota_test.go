package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// A tenant with as many unfinished runs as it may have gets no further one, and stops nobody
// else's. Control: each that has finished makes room.
func TestFaultS8UnfinishedRunsOfATenantAreBounded(t *testing.T) {
	for _, b := range []*backend{onSQLite(), onPostgres(t)} {
		l := b.open(t)
		accept(t, l, newRun("r0", "a", 1))
		const copied = "tenant, playbook, revision, launched_by, created, criticality, phase, request, total, approvals"
		err := l.Raw(t.Context(), `INSERT INTO runs (id, `+copied+`)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST($1 AS INTEGER)) SELECT 'r' || i, `+copied+` FROM n, runs WHERE id = 'r0'`, core.QuotaRuns.Max-1)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = l.Accept(t.Context(), newRun("more", "a", 1))
		if !errors.Is(err, core.ErrQuota) || !strings.Contains(err.Error(), "tenant a has 10000 unfinished runs") {
			t.Errorf("%v", err)
		}
		accept(t, l, newRun("theirs", "b", 1))
		accept(t, l, newRun("provider's", "", 1))
		if err := l.Raw(t.Context(), `UPDATE runs SET ended = created WHERE id = 'r0'`); err != nil {
			t.Fatal(err)
		}
		accept(t, l, newRun("more", "a", 1))
	}
}
