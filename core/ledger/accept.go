package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	maxUses = 1000                  // sources of a run
	maxExec = MaxAuditJSON - 16<<10 // of an Exec with the reason as JSON: the rest of the entry is short
)

// NewRun is a run to accept.
type NewRun struct {
	ID          string // unique for ever
	Tenant      string
	Playbook    string
	Revision    string // of the definitions
	LaunchedBy  string
	Created     time.Time // now when zero
	Criticality int       // 0 to MaxCriticality; a lost queue is rebuilt with the highest first
	Approvals   int       // people other than LaunchedBy who have to approve it before it is queued
	Check       bool      // a dry run, which changes nothing
	Paused      bool      // it is accepted paused; Accept refuses it together with Approvals, which also block the run
	// Key makes accepting idempotent within the tenant, as ID does; "" for none.
	Key string
	// Request is the original request, in any form that the same request always has: with the same id
	// or key it decides between "again" and a conflict. Empty: everything below decides.
	Request []byte
	// Exec and Reason are for the audit log alone. Exec is nil for a playbook. Reason is why the run
	// was launched.
	Exec   *Exec
	Reason string

	Sources  []core.SourceUse // that its hosts come from
	Jobs     []JobHost        // by index
	Snapshot []byte           // opaque
	Queue    []byte           // the queue's run, opaque: what a lost queue is rebuilt from
}

// Exec is the command of a run, for the audit log.
type Exec struct {
	Command        string `json:"command"`
	OutsideWindows bool   `json:"outside_windows,omitempty"`
	Become         bool   `json:"become,omitempty"`      // as another user than the login
	BecomeUser     string `json:"become_user,omitempty"` // "": the inventory's, or root
	Retry          string `json:"retry,omitempty"`       // the run that it was made of
}

// JobHost is the host of one job, and the tenant that owns the host. A scope with the run includes
// all its jobs. A scope with only the host's tenant includes this job in the host's history.
type JobHost struct {
	Host   string
	Tenant string
}

// Accepted is the answer to one run of several that were accepted together.
type Accepted struct {
	Run     Run
	Created bool  // false: the same request was accepted before
	Err     error // why this run was refused
}

// Accept makes a run durable, in PhaseQueued, in PhasePaused if it asks for that, or in
// PhaseAwaiting if it needs approvals. Of the same request, by id or by key in its tenant, it
// returns the run that was accepted first and created false, also when several servers are asked at
// the same time; another request is core.ErrConflict.
func (l *Ledger) Accept(ctx context.Context, n NewRun) (run Run, created bool, err error) {
	out, err := l.AcceptAll(ctx, n)
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		return Run{}, false, err
	}
	return out[0].Run, out[0].Created, nil
}

// AcceptAll is Accept of several runs in one transaction. Each has its own answer: one that is
// refused does not refuse the others. After an error none of them is accepted.
func (l *Ledger) AcceptAll(ctx context.Context, runs ...NewRun) (out []Accepted, err error) {
	rows, refused := make([]*acceptRow, len(runs)), 0
	for i, n := range runs {
		if rows[i] = l.acceptRow(n); rows[i].refused != nil {
			refused++
		}
	}
	what := "write run " + runs[0].ID
	if len(runs) > 1 {
		what = fmt.Sprintf("write %d runs", len(runs))
	}
	if refused == len(rows) {
		out = make([]Accepted, len(rows))
		for i, r := range rows {
			out[i].Err = r.refused
		}
		return out, nil
	}
	err = l.db.transact(ctx, what, func(t *tx) error {
		var entries []Entry
		var err error
		if out, entries, err = l.accept(ctx, t, rows); err != nil {
			return err
		}
		return l.auditAll(ctx, t, entries)
	})
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if r.refused == nil {
			out[i].Err = translate("write run "+r.ID, out[i].Err)
		}
	}
	return out, nil
}

// acceptRow is a run with its columns, made outside the transaction.
type acceptRow struct {
	*NewRun
	refused                       error
	hash, snapshot, queue, packed []byte
	phase                         Phase
}

func (l *Ledger) acceptRow(n NewRun) *acceptRow {
	r := &acceptRow{NewRun: &n, phase: PhaseQueued}
	if r.refused = n.validate(); r.refused != nil {
		return r
	}
	if n.Created.IsZero() {
		n.Created = l.now()
	}
	r.hash = n.hash()
	r.snapshot, r.queue, r.packed = l.encrypt(n.Snapshot, snapshotOf, n.ID), l.encrypt(n.Queue, queueOf, n.ID), packHosts(n.Jobs)
	if n.Approvals > 0 {
		r.phase = PhaseAwaiting
	}
	if n.Paused {
		r.phase = PhasePaused
	}
	return r
}

// request identifies a row among those with its id: one of several that have it was inserted.
func (r *acceptRow) request() acceptedRequest {
	return acceptedRequest{r.ID, r.Tenant, r.Key, string(r.hash)}
}

type acceptedRequest struct{ id, tenant, key, hash string }

// run is the row once it is inserted, with that number.
func (r *acceptRow) run(seq int64) Run {
	return Run{
		ID: r.ID, Tenant: r.Tenant, Playbook: r.Playbook, Revision: r.Revision, LaunchedBy: r.LaunchedBy, Created: fromMicros(micros(r.Created)),
		Criticality: r.Criticality, Phase: r.phase, Check: r.Check, Version: 1, Approvals: r.Approvals, Total: len(r.Jobs), Outcomes: map[core.Outcome]int{},
		Sources: slices.Clone(r.Sources), Key: r.Key, seq: seq, content: 1,
	}
}

var newRunRow = columns{
	"id text", "tenant text", "playbook text", "revision text", "launched_by text", "created bigint", "criticality bigint", "phase text",
	"idempotency text", "request bytea", "total bigint", "approvals bigint", "sources text", "check_mode bigint",
}

// values are newRunRow.
func (r *acceptRow) values() []any {
	var key any
	if r.Key != "" {
		key = r.Key
	}
	return []any{r.ID, r.Tenant, r.Playbook, r.Revision, r.LaunchedBy, micros(r.Created), r.Criticality, string(r.phase), key, r.hash, len(r.Jobs), r.Approvals, encodeSources(r.Sources), asNumber(r.Check)}
}

// accept inserts runs. Each has its own answer: one that is refused does not refuse the others. The
// error is the transaction's. The entries belong into the audit log, at the end of the transaction.
func (l *Ledger) accept(ctx context.Context, t *tx, all []*acceptRow) (out []Accepted, entries []Entry, err error) {
	out = make([]Accepted, len(all))
	rows, full, err := admit(ctx, t, all)
	if err != nil {
		return nil, nil, err
	}
	inserted, err := insertRuns(ctx, t, rows)
	if err != nil {
		return nil, nil, err
	}
	var materials [][]any
	for i, r := range all {
		seq, ok := inserted[r.request()]
		switch {
		case r.refused != nil:
			out[i].Err = r.refused
		case ok && !full[i]:
			delete(inserted, r.request()) // a second request like this one is the same again
			run := r.run(seq)
			out[i] = Accepted{Run: run, Created: true}
			materials = append(materials, []any{seq, r.snapshot, r.queue, r.packed})
			entries = append(entries, acceptEntry(r, &run))
			if r.phase == PhaseAwaiting {
				if err := l.happened(ctx, t, &run, HappenedAwaiting, ""); err != nil {
					return nil, nil, err
				}
			}
		default:
			if out[i], err = accepted(ctx, t, r); err != nil {
				return nil, nil, err
			}
			if full[i] && errors.Is(out[i].Err, core.ErrUnavailable) { // nothing is in its way but the quota
				out[i].Err = core.QuotaRuns.Over("tenant " + r.Tenant)
			}
		}
	}
	return out, entries, t.set(ctx, columns{"run bigint", "snapshot bytea", "queue bytea", "hosts bytea"},
		`INSERT INTO materials (run, snapshot, queue, hosts) SELECT * FROM u`, materials, nil)
}

// admit leaves out runs that were refused and those over their tenant's quota. The provider, tenant
// "", has none.
func admit(ctx context.Context, t *tx, all []*acceptRow) (rows [][]any, full []bool, err error) {
	full = make([]bool, len(all))
	var tenants []string
	for _, r := range all {
		if r.refused == nil && r.Tenant != "" && !slices.Contains(tenants, r.Tenant) {
			tenants = append(tenants, r.Tenant)
		}
	}
	unfinished, err := unfinishedOf(ctx, t, tenants)
	if err != nil {
		return nil, nil, err
	}
	for i, r := range all {
		switch {
		case r.refused != nil:
		case r.Tenant != "" && unfinished[r.Tenant] >= core.QuotaRuns.Max:
			full[i] = true
		default:
			unfinished[r.Tenant]++
			rows = append(rows, r.values())
		}
	}
	return rows, full, nil
}

// unfinishedOf counts the unfinished runs of tenants.
func unfinishedOf(ctx context.Context, t *tx, tenants []string) (map[string]int, error) {
	counts := make(map[string]int, len(tenants))
	if len(tenants) == 0 {
		return counts, nil
	}
	q := &query{d: t.dialect}
	q.whereAny("tenant", tenants)
	rows, err := t.rows(ctx, `SELECT tenant, count(*) FROM runs WHERE ended = 0 AND `+q.conds[0]+` GROUP BY tenant`, q.args...)
	_, err = collect(rows, err, func(row scanner) (tenant string, err error) {
		var n int
		err = row.Scan(&tenant, &n)
		counts[tenant] = n
		return tenant, err
	})
	return counts, err
}

// insertRuns returns the numbers of the runs that were not there, by what was asked for.
func insertRuns(ctx context.Context, t *tx, rows [][]any) (map[acceptedRequest]int64, error) {
	inserted := make(map[acceptedRequest]int64, len(rows))
	err := t.set(ctx, newRunRow, `INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, criticality, phase, idempotency, request, total, approvals, sources, check_mode)
		SELECT * FROM u WHERE true ON CONFLICT DO NOTHING RETURNING id, tenant, COALESCE(idempotency, ''), request, seq`, rows, func(row scanner) error {
		var a acceptedRequest
		var seq int64
		err := row.Scan(&a.id, &a.tenant, &a.key, &a.hash, &seq)
		inserted[a] = seq
		return err
	})
	return inserted, err
}

// within refuses what a tenant has just added, as the rows of a query show, over its quota. The
// provider has none.
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

// Asked names a request that may have been accepted before: its NewRun.Key and NewRun.Request.
type Asked struct {
	Key     string
	Request []byte
}

// AcceptedBefore finds the runs in scope that were accepted with the keys of requests, in their
// order. No such run is core.ErrNotFound, a run of another request core.ErrConflict.
func (l *Ledger) AcceptedBefore(ctx context.Context, s Scope, all ...Asked) ([]Accepted, error) {
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].Key
	}
	q := &query{d: l.db.dialect}
	q.whereAny("idempotency", keys)
	s.filter(q, "tenant")
	type found struct {
		run     Run
		request []byte
	}
	runs := map[string]found{}
	rows, err := l.db.rows(ctx, `SELECT idempotency, request, `+runColumns+` FROM runs WHERE `+strings.Join(q.conds, " AND ")+` ORDER BY tenant DESC`, q.args...)
	_, err = collect(rows, err, func(row scanner) (key string, err error) {
		var f found
		f.run, err = scanRun(ahead{row, []any{&key, &f.request}})
		runs[key] = f
		return key, err
	})
	if err != nil {
		return nil, translate("look for the keys of requests", err)
	}
	out := make([]Accepted, len(all))
	for i, asked := range all {
		had, ok := runs[asked.Key]
		n := NewRun{Tenant: had.run.Tenant, Playbook: had.run.Playbook, Request: asked.Request}
		switch {
		case !ok:
			out[i].Err = fmt.Errorf("no run was accepted with the key: %w", core.ErrNotFound)
		case !bytes.Equal(had.request, n.hash()):
			out[i].Err = fmt.Errorf("the key was used for another request: %w", core.ErrConflict)
		default:
			out[i].Run = had.run
		}
	}
	return out, nil
}

// accepted finds the run that conflicted with an insert, and whether it is the same.
func accepted(ctx context.Context, t *tx, r *acceptRow) (Accepted, error) {
	for _, by := range []struct {
		what, cond string
		args       []any
	}{
		{"id " + r.ID, `id = $1`, []any{r.ID}},
		{"idempotency key " + r.Key, `tenant = $1 AND idempotency = $2`, []any{r.Tenant, r.Key}},
	} {
		run, err := scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE `+by.cond, by.args...))
		if none(err) {
			continue
		}
		if err != nil {
			return Accepted{}, err
		}
		had, err := scanOne[[]byte](t.row(ctx, `SELECT request FROM runs WHERE seq = $1`, run.seq))
		if err != nil {
			return Accepted{}, err
		}
		if run.Tenant != r.Tenant || !bytes.Equal(had, r.hash) {
			return Accepted{Err: fmt.Errorf("%s was used for another request: %w", by.what, core.ErrConflict)}, nil
		}
		return Accepted{Run: run}, nil
	}
	return Accepted{Err: fmt.Errorf("the run in the way of run %s is gone: try again: %w", r.ID, core.ErrUnavailable)}, nil
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
		{"sources", len(n.Sources), 0, maxUses},
	} {
		if f.value < f.lo || f.value > f.max {
			return fmt.Errorf("run %s: %s is %d, expected %d to %d: %w", n.ID, f.what, f.value, f.lo, f.max, core.ErrInvalid)
		}
	}
	if len(asJSON(n.Exec))+len(asJSON(n.Reason)) > maxExec {
		return fmt.Errorf("run %s: its command and reason have more than %d bytes as JSON, which is what the audit log takes: %w", n.ID, maxExec, core.ErrInvalid)
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
