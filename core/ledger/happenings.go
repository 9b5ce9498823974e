package ledger

import (
	"context"
	"encoding/hex"
	"time"
)

// Kinds of events of a run. The ledger records each in the transaction in which it happens.
const (
	HappenedEnded    = "run_ended"    // every job has its outcome
	HappenedStopped  = "run_stopped"  // the queue stopped it; Data is the reason
	HappenedPaused   = "run_held"     // the service paused it; Data is the reason
	HappenedAwaiting = "run_awaiting" // it waits for people to approve it; Data is who changed it, empty as it was accepted
)

// Happening is an event that people may have to be notified of. Callers may add further kinds, and
// define what Data means.
type Happening struct {
	ID     string
	What   string
	Tenant string
	// Subject is the thing that it is about, as run:ID. A channel gets the events of one subject in
	// order.
	Subject string
	// Fold joins several events: while one of the same What and Fold waits, or was routed not long
	// ago, more are counted in the next.
	Fold   string
	At     time.Time // of the first
	Latest time.Time // of the last that was folded in
	Count  int
	Data   []byte // of the last; opaque
	// Unreadable is why Data could not be opened; nil mostly. It wraps core.ErrUnavailable where
	// only the key is missing here.
	Unreadable error

	seq int64
}

// Once as the span of Report reports a Fold one time only, for as long as the ledger remembers it:
// KeepFolds.
const Once = time.Duration(-1)

// KeepFolds is how long the ledger remembers reported events that have a Fold.
const KeepFolds = 30 * 24 * time.Hour

// Report records an event. If it has a Fold, the next event of the same What and Fold is due no
// earlier than span after the previous one; until then they are counted. Reports of several servers
// fold in the same way.
func (l *Ledger) Report(ctx context.Context, h Happening, span time.Duration) error {
	return l.db.transact(ctx, "write down the happening "+h.What, func(t *tx) error { return l.report(ctx, t, h, span) })
}

func (l *Ledger) report(ctx context.Context, t *tx, h Happening, span time.Duration) error {
	for _, f := range []struct {
		what, text string
		needed     bool
	}{{"what", h.What, true}, {"tenant", h.Tenant, false}, {"subject", h.Subject, true}, {"fold", h.Fold, false}} {
		if err := checkText("happening: "+f.what, f.text, f.needed, maxText); err != nil {
			return err
		}
	}
	now := micros(l.now())
	due := t.now
	h.ID = hex.EncodeToString(random(12))
	args := []any{h.ID, h.What, h.Tenant, h.Subject, h.Fold, now, max(h.Count, 1), l.encrypt(h.Data, happeningPlace(h.ID, h.What, h.Fold)...)}
	switch {
	case h.Fold == "":
	case span == Once:
		var had int
		if err := t.row(ctx, `SELECT count(*) FROM happenings WHERE what = $1 AND fold = $2 AND routed = 1`, h.What, h.Fold).Scan(&had); err != nil || had > 0 {
			return err
		}
	default:
		due = `coalesce((SELECT max(due) + $9 FROM happenings WHERE what = $2 AND fold = $5 AND routed = 1 AND due > ` + t.now + ` - $9), ` + t.now + `)`
		args = append(args, span.Microseconds())
	}
	again := ` ON CONFLICT (what, fold) WHERE routed = 0 AND fold <> '' DO UPDATE SET latest = excluded.latest, count = happenings.count + excluded.count, data = excluded.data`
	if span == Once {
		again = ` ON CONFLICT (what, fold) WHERE routed = 0 AND fold <> '' DO NOTHING`
	}
	if h.Fold == "" {
		again = ""
	}
	_, err := t.exec(ctx, `INSERT INTO happenings (id, what, tenant, subject, fold, at, latest, due, count, data) VALUES ($1, $2, $3, $4, $5, $6, $6, `+due+`, $7, $8)`+again, args...)
	return err
}

// happened is report for events of a run, within a transaction of the ledger's own.
func (l *Ledger) happened(ctx context.Context, t *tx, run *Run, what, why string) error {
	return l.reportAll(ctx, t, []Happening{ofRun(run, what, why)})
}

func ofRun(run *Run, what, why string) Happening {
	return Happening{What: what, Tenant: run.Tenant, Subject: "run:" + run.ID, Data: []byte(why)}
}

// reportAll is report of several events that do not fold.
func (l *Ledger) reportAll(ctx context.Context, t *tx, all []Happening) error {
	if l.private {
		return nil
	}
	rows, now := make([][]any, len(all)), micros(l.now())
	for i := range all {
		h := &all[i]
		id := hex.EncodeToString(random(12))
		rows[i] = []any{id, h.What, h.Tenant, h.Subject, now, l.encrypt(h.Data, happeningPlace(id, h.What, "")...)}
	}
	return t.set(ctx, columns{"id text", "what text", "tenant text", "subject text", "at bigint", "data bytea"},
		`INSERT INTO happenings (id, what, tenant, subject, fold, at, latest, due, count, data)
		SELECT u.id, u.what, u.tenant, u.subject, '', u.at, u.at, `+t.now+`, 1, u.data FROM u`, rows, nil)
}

// Happenings returns the events that are due, oldest first, at most max.
func (l *Ledger) Happenings(ctx context.Context, max int) ([]Happening, error) {
	rows, err := l.db.rows(ctx, `SELECT seq, id, what, tenant, subject, fold, at, latest, count, data FROM happenings
		WHERE routed = 0 AND due <= `+l.db.now+` ORDER BY due, seq LIMIT $1`, min(max, MaxPage))
	all, err := collect(rows, err, func(row scanner) (h Happening, err error) {
		var at, latest int64
		if err = row.Scan(&h.seq, &h.ID, &h.What, &h.Tenant, &h.Subject, &h.Fold, &at, &latest, &h.Count, &h.Data); err == nil {
			h.Data, h.Unreadable = l.open(h.Data, happeningPlace(h.ID, h.What, h.Fold)...)
		}
		h.At, h.Latest = fromMicros(at), fromMicros(latest)
		return h, err
	})
	return all, translate("read the next notifications", err)
}

// Route hands a happening on to channels, at least one, once: of servers that route the same at the
// same time one does it, and done reports which. A happening into which more were folded meanwhile
// stays for the next poll.
func (l *Ledger) Route(ctx context.Context, h Happening, to []Notification) (done bool, err error) {
	err = l.db.transact(ctx, "hand on "+h.What, func(t *tx) error {
		query := `DELETE FROM happenings WHERE seq = $1 AND routed = 0 AND count = $2`
		if h.Fold != "" {
			query = `UPDATE happenings SET routed = 1, data = NULL WHERE seq = $1 AND routed = 0 AND count = $2`
		}
		n, err := t.exec(ctx, query, h.seq, h.Count)
		if err != nil || n == 0 {
			return err
		}
		for i := range to {
			if err := l.notify(ctx, t, &to[i]); err != nil {
				return err
			}
		}
		done = true
		return nil
	})
	return done && err == nil, err
}

// Dismiss forgets happenings that go to no channel: they fold nothing. A happening into which more
// were folded meanwhile stays for the next poll.
func (l *Ledger) Dismiss(ctx context.Context, all ...Happening) error {
	if len(all) == 0 {
		return nil
	}
	rows := make([][]any, len(all))
	for i := range all {
		rows[i] = []any{all[i].seq, all[i].Count}
	}
	return l.db.transact(ctx, "put away what goes to no channel", func(t *tx) error {
		return t.set(ctx, columns{"seq bigint", "count bigint"}, `DELETE FROM happenings WHERE routed = 0 AND (seq, count) IN (SELECT seq, count FROM u)`, rows, nil)
	})
}
