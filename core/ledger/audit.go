package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// ErrTampered means that the audit log is not what was written.
var ErrTampered = errors.New("the audit log was tampered with")

// MaxAuditJSON bounds Before and After, each.
const MaxAuditJSON = 64 << 10

// Entry is one line of the audit log: a person, an action and a thing. Before and After hold no
// secret.
type Entry struct {
	Seq     int64           `json:"seq"` // from 1, without gaps
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`
	Tenant  string          `json:"tenant,omitempty"` // whose thing it is
	Action  string          `json:"action"`           // "run.cancel"
	Kind    string          `json:"kind"`             // "run"
	Subject string          `json:"subject"`          // its id or name
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
	Hash    []byte          `json:"hash"` // over this entry and the hash before
}

// Anchor is an entry's place and hash. Kept elsewhere, it shows that what was written up to it is
// still there.
type Anchor struct {
	Seq  int64  `json:"seq"`
	Hash []byte `json:"hash"`
}

// AppendAudit writes one entry: of what the ledger itself does not see, as draining a worker. Its
// own methods write theirs. Seq, At and Hash are set here.
func (l *Ledger) AppendAudit(ctx context.Context, e Entry) (Entry, error) {
	err := l.db.transact(ctx, "write the audit log", func(t *tx) (err error) {
		e, err = l.audit(ctx, t, e)
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// audit comes last in a transaction: the head of the chain is locked from then on.
func (l *Ledger) audit(ctx context.Context, t *tx, e Entry) (Entry, error) {
	all := []Entry{e}
	err := l.auditAll(ctx, t, all)
	return all[0], err
}

// auditAll is audit of several entries. It fills in Seq, At and Hash of each.
func (l *Ledger) auditAll(ctx context.Context, t *tx, entries []Entry) error {
	if len(entries) == 0 || l.private {
		return nil
	}
	for i := range entries {
		if err := entries[i].validate(); err != nil {
			return err
		}
	}
	var seq int64
	var hash []byte
	if err := t.row(ctx, `SELECT seq, hash FROM audit_head WHERE one = 1`+t.forUpdate).Scan(&seq, &hash); err != nil {
		return err
	}
	at := fromMicros(micros(l.now()))
	rows := make([][]any, len(entries))
	for i := range entries {
		e := &entries[i]
		seq++
		e.Seq, e.At = seq, at
		e.Hash = e.chain(hash)
		hash = e.Hash
		rows[i] = []any{e.Seq, micros(at), e.Who, e.Tenant, e.Action, e.Kind, e.Subject, string(e.Before), string(e.After), e.Hash}
	}
	if err := t.set(ctx, auditRow, `INSERT INTO audit (`+auditColumns+`) SELECT * FROM u`, rows, nil); err != nil {
		return err
	}
	_, err := t.exec(ctx, `UPDATE audit_head SET seq = $1, hash = $2 WHERE one = 1`, seq, hash)
	return err
}

func (e *Entry) validate() error {
	for _, f := range []struct {
		what, text string
		needed     bool
	}{{"who", e.Who, true}, {"tenant", e.Tenant, false}, {"action", e.Action, true}, {"kind", e.Kind, true}, {"subject", e.Subject, false}} {
		if err := checkText("audit: "+f.what, f.text, f.needed, maxText); err != nil {
			return err
		}
	}
	for _, j := range []json.RawMessage{e.Before, e.After} {
		if len(j) > MaxAuditJSON || len(j) > 0 && (!json.Valid(j) || checkText("", string(j), false, MaxAuditJSON) != nil) {
			return fmt.Errorf("audit of %s: before or after is not JSON of at most %d bytes: %w", e.Action, MaxAuditJSON, core.ErrInvalid)
		}
	}
	return nil
}

// chain is the hash of an entry behind another: SHA-256 over that hash, the two numbers, and
// each text behind its length, so that no two entries are the same bytes.
func (e *Entry) chain(before []byte) []byte {
	h := sha256.New()
	h.Write(before)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(e.Seq)))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(micros(e.At))))
	for _, s := range []string{e.Who, e.Tenant, e.Action, e.Kind, e.Subject, string(e.Before), string(e.After)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	return h.Sum(nil)
}

const auditColumns = `seq, at, who, tenant, action, kind, subject, before, after, hash`

var auditRow = columns{
	"seq bigint", "at bigint", "who text", "tenant text", "action text", "kind text", "subject text", "before text", "after text", "hash bytea",
}

func scanEntry(row scanner) (Entry, error) {
	var e Entry
	var at int64
	var before, after string
	if err := row.Scan(&e.Seq, &at, &e.Who, &e.Tenant, &e.Action, &e.Kind, &e.Subject, &before, &after, &e.Hash); err != nil {
		return Entry{}, err
	}
	e.At = fromMicros(at)
	if before != "" {
		e.Before = json.RawMessage(before)
	}
	if after != "" {
		e.After = json.RawMessage(after)
	}
	return e, nil
}

// AuditFilter narrows the audit log. Empty fields let everything through.
type AuditFilter struct {
	Who, Action, Kind, Subject string
	Since, Until               time.Time
}

// AuditLog lists entries, newest first.
func (l *Ledger) AuditLog(ctx context.Context, s Scope, f AuditFilter, p Page) (entries []Entry, next string, err error) {
	q := &query{d: l.db.dialect}
	subject, tenant := q.sift, s.sift
	if f.Kind != "" && f.Subject != "" {
		subject = q.where
	} else if len(s.tenants) == 1 {
		tenant = s.filter
	}
	q.equals(subject, "kind", f.Kind)
	q.equals(subject, "subject", f.Subject)
	q.equals(q.sift, "who", f.Who)
	q.equals(q.sift, "action", f.Action)
	tenant(q, "tenant")
	if !f.Since.IsZero() {
		q.sift("at >= ?", bound(f.Since))
	}
	if !f.Until.IsZero() {
		q.sift("at < ?", bound(f.Until))
	}
	return list(ctx, l, q, p, listing[Entry]{
		what: "read the audit log", columns: auditColumns, from: "audit", order: "seq DESC", scan: scanEntry,
		at:    func(e Entry) cursor { return cursor{List: "audit", Key: []int64{e.Seq}} },
		after: func(q *query, at cursor) { q.where("seq < ?", at.Key[0]) },
	})
}

// VerifyAudit reads the whole log and returns the anchor of the last entry. It returns ErrTampered,
// with the first place, if an entry was changed, removed or inserted, or differs from a kept
// anchor. Only a kept anchor detects an attacker who writes to the database and computes all hashes
// again.
func (l *Ledger) VerifyAudit(ctx context.Context, kept ...Anchor) (Anchor, error) {
	last := Anchor{Hash: make([]byte, sha256.Size)}
	// First the head, so that entries written meanwhile only add to it.
	var head Anchor
	if err := l.db.row(ctx, `SELECT seq, hash FROM audit_head WHERE one = 1`).Scan(&head.Seq, &head.Hash); err != nil && !none(err) {
		return Anchor{}, translate("verify the audit log", err)
	}
	want := map[int64][]byte{head.Seq: head.Hash}
	for _, a := range kept {
		if had, ok := want[a.Seq]; ok && !bytes.Equal(had, a.Hash) {
			return Anchor{}, tampered(a.Seq, "has another hash than was kept")
		}
		want[a.Seq] = a.Hash
	}
	for {
		rows, err := l.db.rows(ctx, `SELECT `+auditColumns+` FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2`, last.Seq, MaxPage)
		entries, err := collect(rows, err, scanEntry)
		if err != nil {
			return Anchor{}, translate("verify the audit log", err)
		}
		for _, e := range entries {
			switch hash := e.chain(last.Hash); {
			case e.Seq != last.Seq+1:
				return Anchor{}, tampered(last.Seq+1, "is missing")
			case !bytes.Equal(e.Hash, hash):
				return Anchor{}, tampered(e.Seq, "is not what was written, or one before it")
			case want[e.Seq] != nil && !bytes.Equal(want[e.Seq], hash):
				return Anchor{}, tampered(e.Seq, "has another hash than was kept")
			}
			last = Anchor{Seq: e.Seq, Hash: e.Hash}
			delete(want, e.Seq)
		}
		if len(entries) < MaxPage {
			break
		}
	}
	delete(want, 0)
	for seq := range want {
		return Anchor{}, tampered(seq, fmt.Sprintf("is missing: the log ends at %d", last.Seq))
	}
	return last, nil
}

func tampered(seq int64, how string) error {
	return fmt.Errorf("entry %d %s: %w", seq, how, ErrTampered)
}

// asJSON is for Before and After of the ledger's own entries, whose values always marshal.
func asJSON(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}
