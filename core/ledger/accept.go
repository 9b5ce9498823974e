package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
)

// Bounds of what is stored. Accept refuses more; of outcomes, which already happened, text is cut.
const (
	MaxJobs        = 10_000_000
	MaxSnapshot    = 16 << 20
	MaxQueue       = 512 << 20 // of a run with MaxJobs targets
	MaxCriticality = 1000

	maxID   = 128
	maxText = 4 << 10
)

// NewRun is what is accepted.
type NewRun struct {
	ID          string // unique for ever
	Tenant      string
	Playbook    string
	Revision    string // of the definitions
	LaunchedBy  string
	Created     time.Time // now when zero
	Criticality int       // 0 to MaxCriticality; a lost queue is rebuilt with the highest first
	Approvals   int       // people other than LaunchedBy who have to approve it before it is queued
	Paused      bool      // it is accepted paused; not together with Approvals, which hold it too
	// Key makes accepting idempotent within the tenant, besides ID; "" for none.
	Key string
	// Request is what was asked for, in any form that the same request always has: with the
	// same id or key it decides between "again" and a conflict. Empty: everything below decides.
	Request []byte

	Jobs     []JobHost // by index
	Snapshot []byte    // opaque
	Queue    []byte    // the queue's run, opaque: what a lost queue is rebuilt from
}

// JobHost is the host of one job, and the tenant whose host it is. Who sees the run sees
// all its jobs; who only sees that tenant sees this job in the host's history.
type JobHost struct {
	Host   string
	Tenant string
}

// Accept makes a run durable, in PhaseQueued, PhasePaused where it is to be, or PhaseAwaiting where it needs approvals. Of
// the same request, by id or by key in its tenant, it returns the run that was accepted first and created
// false, also when several servers are asked at once; another request is core.ErrConflict.
func (l *Ledger) Accept(ctx context.Context, n NewRun) (run Run, created bool, err error) {
	if err := n.validate(); err != nil {
		return Run{}, false, err
	}
	if n.Created.IsZero() {
		n.Created = l.now()
	}
	hash := n.hash()
	snapshot, queue, hosts := l.seal(n.Snapshot, snapshotOf, n.ID), l.seal(n.Queue, queueOf, n.ID), packHosts(n.Jobs) // before the one writer is taken
	phase, key := PhaseQueued, any(nil)
	if n.Approvals > 0 {
		phase = PhaseAwaiting
	}
	if n.Paused {
		phase = PhasePaused
	}
	if n.Key != "" {
		key = n.Key
	}
	err = l.db.transact(ctx, "accept run "+n.ID, func(t *tx) error {
		seq := int64(0)
		err := t.row(ctx, `INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, criticality, phase, idempotency, request, total, approvals)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING RETURNING seq`,
			n.ID, n.Tenant, n.Playbook, n.Revision, n.LaunchedBy, micros(n.Created), n.Criticality, string(phase), key, hash, len(n.Jobs), n.Approvals).Scan(&seq)
		if none(err) {
			run, err = accepted(ctx, t, n, hash)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, `INSERT INTO materials (run, snapshot, queue, hosts) VALUES ($1, $2, $3, $4)`, seq, snapshot, queue, hosts); err != nil {
			return err
		}
		if err := within(ctx, t, core.QuotaRuns, n.Tenant, `SELECT 1 FROM runs WHERE tenant = $1 AND ended = 0`); err != nil {
			return err
		}
		created = true
		if run, err = scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE seq = $1`, seq)); err != nil {
			return err
		}
		if phase == PhaseAwaiting {
			if err := l.happened(ctx, t, &run, HappenedAwaiting, ""); err != nil {
				return err
			}
		}
		return l.auditRun(ctx, t, n.LaunchedBy, "run.accept", nil, &run)
	})
	if err != nil {
		return Run{}, false, err
	}
	return run, created, nil
}

// within refuses what a tenant has just added, as rows tell that a query finds, over its quota. The provider has none.
func within(ctx context.Context, t *tx, q core.Quota, tenant, query string) error {
	if tenant == "" {
		return nil
	}
	var n int
	if err := t.row(ctx, `SELECT count(*) FROM (`+query+` LIMIT $2) AS counted`, tenant, q.Max+1).Scan(&n); err != nil {
		return err
	}
	if n > q.Max {
		return q.Over("tenant " + tenant)
	}
	return nil
}

// Accepted finds the run in scope that was accepted with a key, as NewRun.Key. A run of another request is core.ErrConflict.
func (l *Ledger) Accepted(ctx context.Context, s Scope, key string, request []byte) (Run, error) {
	q := &query{d: l.db.dialect}
	q.where("idempotency = ?", key)
	s.filter(q, "tenant")
	rows, err := l.db.rows(ctx, q.text(`SELECT `+runColumns+` FROM runs`, "tenant", Page{Limit: 1}), q.args...)
	runs, err := collect(rows, err, scanRun)
	if err != nil {
		return Run{}, translate("look for the key of a request", err)
	}
	if len(runs) == 0 {
		return Run{}, fmt.Errorf("no run was accepted with the key: %w", core.ErrNotFound)
	}
	run := runs[0]
	var had []byte
	if err := l.db.row(ctx, `SELECT request FROM runs WHERE seq = $1`, run.seq).Scan(&had); err != nil {
		return Run{}, translate("look for the key of a request", err)
	}
	n := NewRun{Tenant: run.Tenant, Playbook: run.Playbook, Request: request}
	if !bytes.Equal(had, n.hash()) {
		return Run{}, fmt.Errorf("the key was used for another request: %w", core.ErrConflict)
	}
	return run, nil
}

// accepted finds the run that stood in the way of an insert, and tells whether it is the same.
func accepted(ctx context.Context, t *tx, n NewRun, hash []byte) (Run, error) {
	for _, by := range []struct {
		what, cond string
		args       []any
	}{
		{"id " + n.ID, `id = $1`, []any{n.ID}},
		{"idempotency key " + n.Key, `tenant = $1 AND idempotency = $2`, []any{n.Tenant, n.Key}},
	} {
		run, err := scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE `+by.cond, by.args...))
		if none(err) {
			continue
		}
		if err != nil {
			return Run{}, err
		}
		var had []byte
		if err := t.row(ctx, `SELECT request FROM runs WHERE seq = $1`, run.seq).Scan(&had); err != nil {
			return Run{}, err
		}
		if run.Tenant != n.Tenant || !bytes.Equal(had, hash) {
			return Run{}, fmt.Errorf("%s was used for another request: %w", by.what, core.ErrConflict)
		}
		return run, nil
	}
	return Run{}, fmt.Errorf("it was in the way of another one, which is gone: try again: %w", core.ErrUnavailable)
}

func (n *NewRun) validate() error {
	for _, f := range []struct {
		what, text string
		needed     bool
		max        int
	}{
		{"id", n.ID, true, maxID},
		{"tenant", n.Tenant, false, maxID},
		{"playbook", n.Playbook, true, maxText},
		{"revision", n.Revision, false, maxText},
		{"launched by", n.LaunchedBy, true, maxText},
		{"idempotency key", n.Key, false, maxText},
	} {
		if err := checkText("run: "+f.what, f.text, f.needed, f.max); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		what           string
		value, lo, max int
	}{
		{"jobs", len(n.Jobs), 1, MaxJobs},
		{"criticality", n.Criticality, 0, MaxCriticality},
		{"approvals", n.Approvals, 0, 10},
		{"snapshot bytes", len(n.Snapshot), 0, MaxSnapshot},
		{"queue bytes", len(n.Queue), 0, MaxQueue},
	} {
		if f.value < f.lo || f.value > f.max {
			return fmt.Errorf("run %s: %s is %d, expected %d to %d: %w", n.ID, f.what, f.value, f.lo, f.max, core.ErrInvalid)
		}
	}
	if n.Paused && n.Approvals > 0 {
		return fmt.Errorf("run %s: it can wait for an approval, or be paused, not both: %w", n.ID, core.ErrInvalid)
	}
	for i, j := range n.Jobs {
		if err := checkText("host", j.Host, true, maxID); err != nil {
			return fmt.Errorf("run %s, job %d: %w", n.ID, i, err)
		}
		if err := checkText("tenant", j.Tenant, false, maxID); err != nil {
			return fmt.Errorf("run %s, job %d: %w", n.ID, i, err)
		}
	}
	return nil
}

// checkText refuses what one of the databases could not store, or not find again.
func checkText(what, s string, needed bool, max int) error {
	switch {
	case s == "" && needed:
		return fmt.Errorf("%s is empty: %w", what, core.ErrInvalid)
	case len(s) > max:
		return fmt.Errorf("%s has %d bytes, expected at most %d: %w", what, len(s), max, core.ErrInvalid)
	case !utf8.ValidString(s) || bytes.IndexByte([]byte(s), 0) >= 0:
		return fmt.Errorf("%s %q is not UTF-8, or has a NUL in it: %w", what, s, core.ErrInvalid)
	}
	return nil
}

// hash is of what makes two requests the same one.
func (n *NewRun) hash() []byte {
	h := sha256.New()
	add := func(part []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(part)
	}
	add([]byte(n.Tenant))
	add([]byte(n.Playbook))
	if len(n.Request) > 0 {
		add(n.Request)
		return h.Sum(nil)
	}
	for _, part := range []string{"content", n.Revision, fmt.Sprint(n.Criticality, n.Approvals, n.Paused)} {
		add([]byte(part))
	}
	for _, j := range n.Jobs {
		add([]byte(j.Host))
		add([]byte(j.Tenant))
	}
	add(n.Snapshot)
	add(n.Queue)
	return h.Sum(nil)
}
