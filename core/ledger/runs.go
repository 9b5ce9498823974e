package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Phase is the state of a run in the ledger.
type Phase string

// The phases of a run. Those from PhaseActive on are the queue's.
const (
	PhaseAwaiting  Phase = "awaiting_approval" // accepted; must not be queued before it is approved
	PhaseQueued    Phase = "queued"            // accepted; no queue has confirmed that it has it
	PhaseActive    Phase = "active"
	PhasePaused    Phase = "paused"
	PhaseStopped   Phase = "stopped"   // its threshold is reached, or a job was lost
	PhaseCancelled Phase = "cancelled" // by a person, or refused
	PhaseFinished  Phase = "finished"  // every job has its outcome and neither of the two above happened
)

// Run is one run as lists show it. Times have microseconds.
type Run struct {
	ID          string      `json:"id"`
	Tenant      string      `json:"tenant"`
	Playbook    string      `json:"playbook"`
	Revision    string      `json:"revision,omitempty"`
	LaunchedBy  string      `json:"launched_by"`
	Created     time.Time   `json:"created"`
	Ended       time.Time   `json:"ended,omitzero"` // when the last job had its outcome
	Criticality int         `json:"criticality"`
	Phase       Phase       `json:"phase"`
	Reason      core.Reason `json:"reason,omitempty"`
	Check       bool        `json:"check,omitempty"` // a dry run
	Version     int64       `json:"version"`         // grows with each change that is not an outcome
	Approvals   int         `json:"approvals,omitempty"`

	Total    int                  `json:"total"`
	Recorded int                  `json:"recorded"` // jobs with an outcome
	Outcomes map[core.Outcome]int `json:"outcomes"` // without those that are 0

	Sources []core.SourceUse `json:"sources,omitempty"` // that its hosts come from

	Position    string `json:"-"` // the queue's cursor behind what is recorded
	Incarnation string `json:"-"` // of the queue that has the run; "" for none
	Key         string `json:"-"` // Idempotency-Key
	Uncertain   int    `json:"-"` // the first so many jobs may have begun in a queue that was lost, see Doubt
	Progress    string `json:"-"` // what SetProgress keeps of it
	Shares      Shares `json:"-"` // given after its launch

	seq, content int64
	ranges       int
}

// Complete reports whether every job has its outcome.
func (r *Run) Complete() bool { return !r.Ended.IsZero() }

// runColumns lists the columns that scanRun reads, in its order.
const runColumns = `seq, id, tenant, playbook, revision, launched_by, created, ended, criticality, phase, reason, version, approvals, content,
 total, recorded, unchanged, changed, skipped, rolled_back, failed, unreachable, lost, cancelled, ranges, position, incarnation, coalesce(idempotency, ''), uncertain, progress, weight, max_in_flight, sources, check_mode`

func scanRun(row scanner) (Run, error) {
	var r Run
	var created, ended, check int64
	var sources string
	counts := make([]int, len(core.Outcomes()))
	dest := []any{
		&r.seq, &r.ID, &r.Tenant, &r.Playbook, &r.Revision, &r.LaunchedBy, &created, &ended, &r.Criticality,
		&r.Phase, &r.Reason, &r.Version, &r.Approvals, &r.content, &r.Total, &r.Recorded,
	}
	for i := range counts {
		dest = append(dest, &counts[i])
	}
	if err := row.Scan(append(dest, &r.ranges, &r.Position, &r.Incarnation, &r.Key, &r.Uncertain, &r.Progress, &r.Shares.Weight, &r.Shares.MaxInFlight, &sources, &check)...); err != nil {
		return Run{}, err
	}
	r.Created, r.Ended, r.Check = fromMicros(created), fromMicros(ended), check != 0
	if sources != "" {
		if err := json.Unmarshal([]byte(sources), &r.Sources); err != nil {
			return Run{}, fmt.Errorf("read the sources of run %s: %w", r.ID, err)
		}
	}
	r.Outcomes = make(map[core.Outcome]int, 4)
	for i, o := range core.Outcomes() {
		if counts[i] != 0 {
			r.Outcomes[o] = counts[i]
		}
	}
	return r, nil
}

// Run reads one run.
func (l *Ledger) Run(ctx context.Context, s Scope, id string) (Run, error) {
	r, err := scanRun(l.db.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`, clean(id, maxText)))
	if none(err) || err == nil && !s.Allows(r.Tenant) {
		return Run{}, noRun(id)
	}
	return r, translate("read run "+id, err)
}

// FullRun is a run with what only its own view shows.
type FullRun struct {
	Run
	Expected string // what KeepExpected keeps; "" without an estimate
	Handlers int    // of its hosts, pending
}

// FullRun reads one run by one statement: of PostgreSQL a second one costs as much again.
func (l *Ledger) FullRun(ctx context.Context, s Scope, id string) (r FullRun, err error) {
	row := l.db.row(ctx, `SELECT expected, (SELECT count(*) FROM handlers WHERE handlers.run = runs.id), `+runColumns+` FROM runs WHERE id = $1`, clean(id, maxText))
	r.Run, err = scanRun(ahead{row, []any{&r.Expected, &r.Handlers}})
	if none(err) || err == nil && !s.Allows(r.Tenant) {
		return FullRun{}, noRun(id)
	}
	return r, translate("read run "+id, err)
}

func noRun(id string) error {
	return fmt.Errorf("run %q is not in the ledger: %w", clean(id, maxID), core.ErrNotFound)
}

// RunFilter narrows a list of runs. Empty fields let everything through.
type RunFilter struct {
	Playbook string
	Phase    Phase
	Since    time.Time    // created then or later
	Until    time.Time    // created before
	Host     string       // with an outcome of a job on this host
	Outcome  core.Outcome // with at least one job that ended so
	By       string       // launched by
	// Touched also lets runs through that are not in scope, if they have an outcome of a job on a host
	// in scope. It checks the jobs of each run.
	Touched bool
}

// Runs lists runs, newest first. next is the cursor of the page that follows, "" at the end. A page
// may have fewer than were asked for, or none, and more behind it.
func (l *Ledger) Runs(ctx context.Context, s Scope, f RunFilter, p Page) (runs []Run, next string, err error) {
	q, from, err := l.runsQuery(s, f)
	if err != nil {
		return nil, "", err
	}
	return list(ctx, l, q, p, listing[Run]{
		what: "list runs", columns: runColumns, from: from, order: runsOrder, scan: scanRun,
		at:    func(r Run) cursor { return cursor{List: "runs", Key: []int64{r.Created.UnixMicro(), r.seq}} },
		after: func(q *query, at cursor) { q.where("(created, seq) < (?, ?)", at.Key[0], at.Key[1]) },
	})
}

const runsOrder = "created DESC, seq DESC"

// runsQuery finds runs by one condition that an index has, and by when they were created. It sifts
// them by the others.
func (l *Ledger) runsQuery(s Scope, f RunFilter) (q *query, from string, err error) {
	q, from = &query{d: l.db.dialect}, "runs"
	add := q.where // the next condition that an index has
	if f.Host != "" {
		add("seq IN (SELECT run FROM jobs WHERE host = ?)", clean(f.Host, maxText))
		add = q.sift
	}
	if f.Phase != "" && f.Phase != PhaseFinished {
		add("phase = ? AND phase <> 'finished'", clean(string(f.Phase), maxText)) // the index has no other runs
		add = q.sift
	}
	if f.Playbook != "" {
		q.equals(add, "playbook", f.Playbook)
		add = q.sift
	}
	if f.Outcome != "" {
		if !f.Outcome.Valid() {
			return nil, "", fmt.Errorf("outcome %q, expected one of %v: %w", f.Outcome, core.Outcomes(), core.ErrInvalid)
		}
		if len(q.conds) == 0 && q.d.byHad != "" {
			from += q.d.byHad + string(f.Outcome) // SQLite would read all runs
		}
		add(fmt.Sprintf(q.d.had, f.Outcome)) // a column of that name; Valid lets nothing else through
		add = q.sift
	}
	switch {
	case f.Touched && !s.all:
		run, job := q.anyOf("tenant", s.tenants), q.anyOf("j.tenant", s.tenants)
		q.sift("("+run.text+" OR EXISTS (SELECT 1 FROM jobs j WHERE j.run = runs.seq AND "+job.text+"))", slices.Concat(run.args, job.args)...)
	case len(s.tenants) == 1:
		add("tenant = ?", s.tenants[0])
	default:
		s.sift(q, "tenant")
	}
	if !s.all && !f.Touched {
		q.own = s.cond(q, "tenant")
	}
	if f.Phase == PhaseFinished {
		q.sift("phase = 'finished'")
	}
	q.equals(q.sift, "launched_by", f.By)
	if !f.Since.IsZero() {
		q.where("created >= ?", bound(f.Since))
	}
	if !f.Until.IsZero() {
		q.where("created < ?", bound(f.Until))
	}
	return q, from, nil
}

// Unfinished lists runs that are not complete, by tenant, oldest first. A server has to follow
// them.
func (l *Ledger) Unfinished(ctx context.Context, p Page) (runs []Run, next string, err error) {
	q := &query{d: l.db.dialect}
	q.where("ended = 0")
	return list(ctx, l, q, p, listing[Run]{
		what: "list runs that are not complete", columns: runColumns, from: "runs", order: "tenant, seq", scan: scanRun,
		at:    func(r Run) cursor { return cursor{List: "unfinished", Key: []int64{r.seq}, Name: []string{r.Tenant}} },
		after: func(q *query, at cursor) { q.where("(tenant, seq) > (?, ?)", at.Name[0], at.Key[0]) },
	})
}

// Standing identifies a run that is not complete, for a server that remembers it.
type Standing struct {
	ID, Incarnation string
	Version         int64

	tenant string
	seq    int64
}

// Standings lists all runs that are not complete, by tenant, oldest first, MaxPage at a time: after
// is the last of those before, the zero value at the beginning.
func (l *Ledger) Standings(ctx context.Context, after Standing) ([]Standing, error) {
	rows, err := l.db.rows(ctx, `SELECT id, incarnation, version, tenant, seq FROM runs WHERE ended = 0 AND (tenant, seq) > ($1, $2) ORDER BY tenant, seq LIMIT $3`, after.tenant, after.seq, MaxPage)
	all, err := collect(rows, err, func(row scanner) (s Standing, err error) {
		err = row.Scan(&s.ID, &s.Incarnation, &s.Version, &s.tenant, &s.seq)
		return s, err
	})
	return all, translate("list runs that are not complete", err)
}

// Material is the data to run a run again.
type Material struct {
	Snapshot []byte
	Queue    []byte
	Jobs     []JobHost
}

// Material reads it. It is for the service; a person reads Snapshot.
func (l *Ledger) Material(ctx context.Context, id string) (Material, error) {
	var snapshot, queue, hosts []byte
	var total int
	id = clean(id, maxText)
	err := l.db.row(ctx, `SELECT r.total, m.snapshot, m.queue, m.hosts FROM runs r JOIN materials m ON m.run = r.seq WHERE r.id = $1`, id).
		Scan(&total, &snapshot, &queue, &hosts)
	if none(err) {
		return Material{}, noRun(id)
	}
	var m Material
	if err == nil {
		m.Snapshot, err = l.open(snapshot, snapshotOf, id)
	}
	if err == nil {
		m.Queue, err = l.open(queue, queueOf, id)
	}
	if err == nil {
		m.Jobs, err = unpackHosts(hosts, total)
	}
	if err != nil {
		return Material{}, translate("read what run "+id+" is made of", err)
	}
	return m, nil
}

// Materials reads Snapshot and Queue of many runs in one call, by id, for the service. Those that
// are not in the ledger, or cannot be opened, are left out: Material returns why.
func (l *Ledger) Materials(ctx context.Context, ids ...string) (map[string]Material, error) {
	all := make(map[string]Material, len(ids))
	rows, err := l.db.rows(ctx, `SELECT r.id, m.snapshot, m.queue FROM runs r JOIN materials m ON m.run = r.seq WHERE r.id `+fmt.Sprintf(l.db.anyOf, "$1"), l.db.list(ids))
	err = each(rows, err, func(row scanner) error {
		var id string
		var snapshot, queue []byte
		if err := row.Scan(&id, &snapshot, &queue); err != nil {
			return err
		}
		m := Material{}
		var err, closed error
		if m.Snapshot, err = l.open(snapshot, snapshotOf, id); err == nil {
			m.Queue, closed = l.open(queue, queueOf, id)
		}
		if err == nil && closed == nil {
			all[id] = m
		}
		return nil
	})
	return all, translate("read what runs are made of", err)
}

// Content counts how often what the run is was replaced, see Amend.
func (r *Run) Content() int64 { return r.content }

// asNumber returns a truth as the ledger's tables have it.
func asNumber(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// encodeSources writes the column sources: "" for none.
func encodeSources(all []core.SourceUse) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // names and times
	return string(text)
}
