package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// Claim is one server's word that it puts a run into the queue, until a time of the database's
// clock. Others pass the run over until then; afterwards the claim is worth nothing.
type Claim struct {
	Run   Run
	By    string
	until int64
}

// Until is when the claim ends, by the database's clock.
func (c Claim) Until() time.Time { return fromMicros(c.until) }

// The condition of runs that may be claimed, as the index runs_unqueued has it.
const (
	claimable    = `ended = 0 AND phase <> '` + string(PhaseAwaiting) + `'`
	incarnations = 8 // of lost queues that one claim looks through; the others' turn comes
)

// ClaimNext claims runs that the queue of this incarnation does not have: not complete, not waiting
// for approval, claimed by nobody else. The most critical come first, max at most, and no more
// after those that have jobs in all. It serves a run that was just accepted, one whose server died
// between ledger and queue, and a queue that was lost alike.
func (l *Ledger) ClaimNext(ctx context.Context, by, incarnation string, ttl time.Duration, max, jobs int) ([]Claim, error) {
	others, err := l.incarnations(ctx, incarnation)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	args := []any{max, jobs}
	parts := make([]string, len(others))
	for i, other := range others {
		args = append(args, other)
		parts[i] = fmt.Sprintf(`SELECT * FROM (SELECT seq, criticality, total FROM runs WHERE `+claimable+` AND incarnation = $%d AND claimed_until < `+l.db.now+`
			ORDER BY criticality DESC, seq LIMIT $3`+l.db.skip+`) q%d`, len(args)+2, i)
	}
	return l.claim(ctx, by, ttl, `seq IN (SELECT seq FROM (SELECT seq, criticality, CAST(sum(total) OVER (ORDER BY criticality DESC, seq) - total AS BIGINT) AS before
		FROM (`+strings.Join(parts, " UNION ALL ")+`) a) b WHERE before < $4 ORDER BY criticality DESC, seq LIMIT $3)`, args...)
}

// incarnations lists queues that runs are in which may be claimed for another, "" among them. It
// reads an entry of the index for each.
func (l *Ledger) incarnations(ctx context.Context, but string) ([]string, error) {
	rows, err := l.db.rows(ctx, `WITH RECURSIVE i (name) AS (
		SELECT (SELECT incarnation FROM runs WHERE `+claimable+` ORDER BY incarnation LIMIT 1)
		UNION ALL SELECT (SELECT incarnation FROM runs WHERE `+claimable+` AND incarnation > i.name ORDER BY incarnation LIMIT 1) FROM i WHERE i.name IS NOT NULL)
		SELECT name FROM i WHERE name IS NOT NULL AND name <> $1 LIMIT $2`, but, incarnations)
	names, err := collect(rows, err, scanOne[string])
	return names, translate("look for runs that the queue lacks", err)
}

// ClaimOf claims the runs of ids under the same conditions. Runs that do not meet them are left
// out.
func (l *Ledger) ClaimOf(ctx context.Context, by, incarnation string, ttl time.Duration, ids []string) ([]Claim, error) {
	return l.claim(ctx, by, ttl, `seq IN (SELECT seq FROM runs WHERE id `+fmt.Sprintf(l.db.anyOf, "$4")+` AND `+claimable+` AND incarnation <> $3 AND claimed_until < `+l.db.now+l.db.skip+`)`,
		incarnation, l.db.list(ids))
}

// Claim claims one run under the same conditions; core.ErrConflict when they do not hold.
func (l *Ledger) Claim(ctx context.Context, by, id, incarnation string, ttl time.Duration) (Claim, error) {
	claims, err := l.ClaimOf(ctx, by, incarnation, ttl, []string{id})
	if err != nil {
		return Claim{}, err
	}
	if len(claims) == 0 {
		if _, err := l.Run(ctx, AllTenants(), id); err != nil {
			return Claim{}, err
		}
		return Claim{}, fmt.Errorf("run %s is claimed by another server, in the queue, complete, or waits for approval: %w", id, core.ErrConflict)
	}
	return claims[0], nil
}

func (l *Ledger) claim(ctx context.Context, by string, ttl time.Duration, which string, args ...any) ([]Claim, error) {
	if err := checkText("claim: by", by, true, maxID); err != nil {
		return nil, err
	}
	var claims []Claim
	err := l.db.transact(ctx, "claim runs", func(t *tx) error {
		rows, err := t.rows(ctx, `UPDATE runs SET claimed_by = $1, claimed_until = `+t.now+` + $2 WHERE `+which+` RETURNING claimed_until, `+runColumns,
			append([]any{by, ttl.Microseconds()}, args...)...)
		claims, err = collect(rows, err, func(row scanner) (c Claim, err error) {
			c.By = by
			c.Run, err = scanRun(ahead{row, []any{&c.until}})
			return c, err
		})
		return err
	})
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(b.Run.Criticality-a.Run.Criticality, cmp.Compare(a.Run.seq, b.Run.seq))
	})
	return claims, err
}

// ahead is a row with columns in front of those that a scan function knows.
type ahead struct {
	row   scanner
	front []any
}

func (a ahead) Scan(dest ...any) error { return a.row.Scan(append(a.front, dest...)...) }

// Enqueued is the answer to one of several claims.
type Enqueued struct {
	Run Run   // it may have been cancelled or paused meanwhile: the caller then updates the queue
	Err error // core.ErrConflict: the claim has ended, and was taken over
}

// Enqueued records that the queue of this incarnation has the claimed runs, and ends the claims,
// which are of one server. Records of that queue are read from the beginning, where it is another
// than before.
func (l *Ledger) Enqueued(ctx context.Context, incarnation string, claims ...Claim) ([]Enqueued, error) {
	if err := checkText("incarnation", incarnation, true, maxID); err != nil {
		return nil, err
	}
	if len(claims) == 0 {
		return nil, nil
	}
	ids := make([]string, len(claims))
	for i, c := range claims {
		ids[i] = c.Run.ID
	}
	runs := map[string]Run{}
	err := l.db.transact(ctx, "mark runs as queued", func(t *tx) error {
		rows, err := t.rows(ctx, `UPDATE runs SET position = CASE WHEN incarnation = $3 THEN position ELSE '' END, incarnation = $3,
			phase = CASE WHEN phase = 'queued' THEN 'active' ELSE phase END, claimed_by = '', claimed_until = 0, version = version + 1
			WHERE seq IN (SELECT seq FROM runs WHERE id `+fmt.Sprintf(t.anyOf, "$1")+` AND claimed_by = $2 ORDER BY id`+t.forUpdate+`) RETURNING `+runColumns, t.list(ids), claims[0].By, incarnation)
		clear(runs)
		return each(rows, err, func(row scanner) error {
			run, err := scanRun(row)
			runs[run.ID] = run
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	out := make([]Enqueued, len(claims))
	for i, c := range claims {
		var ok bool
		if out[i].Run, ok = runs[c.Run.ID]; !ok {
			out[i].Err = fmt.Errorf("the claim of %s has ended and was taken over: %w", c.By, core.ErrConflict)
		}
	}
	return out, nil
}

// Held returns core.ErrConflict if the claim was taken over.
func (l *Ledger) Held(ctx context.Context, c Claim) error {
	return held(c, l.db.row(ctx, heldBy, c.Run.seq))
}

const heldBy = `SELECT claimed_by, claimed_until FROM runs WHERE seq = $1`

func held(c Claim, row scanner) error {
	var by string
	var until int64
	if err := row.Scan(&by, &until); err != nil {
		return translate("read who has claimed run "+c.Run.ID, err)
	}
	if by != c.By || until != c.until {
		return fmt.Errorf("run %s: the claim of %s has ended and was taken over: %w", c.Run.ID, c.By, core.ErrConflict)
	}
	return nil
}

// Release ends a claim without a result: the run can be claimed again after that time, by anybody.
// Nothing happens if the claim was taken over.
func (l *Ledger) Release(ctx context.Context, c Claim, after time.Duration) error {
	return l.db.transact(ctx, "release run "+c.Run.ID, func(t *tx) error {
		// SQLite's clock counts milliseconds: a claim of the same one must not come too early.
		_, err := t.exec(ctx, `UPDATE runs SET claimed_by = '', claimed_until = `+t.now+` + $4 - 1 WHERE seq = $1 AND claimed_by = $2 AND claimed_until = $3`, c.Run.seq, c.By, c.until, after.Microseconds())
		return err
	})
}

// Doubt records that the first so many jobs of a run may have begun in a queue that was lost or
// came back older. One of them that ends without having run since is lost, not cancelled.
func (l *Ledger) Doubt(ctx context.Context, id string, jobs int) error {
	return l.db.transact(ctx, "doubt jobs of run "+id, func(t *tx) error {
		_, err := t.exec(ctx, `UPDATE runs SET uncertain = $2 WHERE id = $1 AND uncertain < $2 AND ended = 0`, clean(id, maxText), jobs)
		return err
	})
}

// Unqueue records that the queue of this incarnation has not the run that it should have: it came
// back older than the ledger. The run can be claimed again, and belongs to a queue that was lost:
// its jobs may have begun there. Without effect where another queue has it.
func (l *Ledger) Unqueue(ctx context.Context, id, incarnation string) error {
	return l.db.transact(ctx, "take run "+id+" out of the queue", func(t *tx) error {
		_, err := t.exec(ctx, `UPDATE runs SET incarnation = $3, position = '', version = version + 1 WHERE id = $1 AND incarnation = $2 AND ended = 0`,
			clean(id, maxText), clean(incarnation, maxID), lostIncarnation)
		return err
	})
}
