package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// MaxDocument bounds the data of a document.
const MaxDocument = 16 << 20

// Document is a named thing that is changed by compare-and-set: a schedule's definition or state,
// the definitions of a revision. Kind defines what Data means; the ledger does not know.
type Document struct {
	Kind     string    `json:"kind"`
	Tenant   string    `json:"tenant"`
	Name     string    `json:"name"`
	Version  int64     `json:"version"` // from 1; never comes again, not after a deletion either
	Revision string    `json:"revision,omitempty"`
	By       string    `json:"by,omitempty"` // who put it; "" is the service
	Updated  time.Time `json:"updated"`
	Data     []byte    `json:"-"`
}

const documentColumns = `kind, tenant, name, version, revision, who, updated, data`

func (l *Ledger) scanDocument(row scanner) (Document, error) {
	var d Document
	var updated int64
	err := row.Scan(&d.Kind, &d.Tenant, &d.Name, &d.Version, &d.Revision, &d.By, &updated, &d.Data)
	if err == nil {
		d.Data, err = l.open(d.Data, documentOf, d.Kind, d.Tenant, d.Name)
	}
	d.Updated = fromMicros(updated)
	return d, err
}

// Document reads one document of a tenant in scope.
func (l *Ledger) Document(ctx context.Context, s Scope, kind, tenant, name string) (Document, error) {
	if !s.Allows(tenant) {
		return Document{}, noDocument(kind, name)
	}
	d, err := l.scanDocument(l.db.row(ctx, `SELECT `+documentColumns+` FROM documents WHERE kind = $1 AND tenant = $2 AND name = $3 AND deleted = 0`,
		clean(kind, maxText), clean(tenant, maxText), clean(name, maxText)))
	if none(err) {
		return Document{}, noDocument(kind, name)
	}
	return d, translate("read "+kind+" "+name, err)
}

func noDocument(kind, name string) error {
	return fmt.Errorf("%s %q is not in the ledger: %w", clean(kind, maxID), clean(name, maxID), core.ErrNotFound)
}

// Documents lists the documents of a kind by name and tenant, with their data.
func (l *Ledger) Documents(ctx context.Context, s Scope, kind string, p Page) (documents []Document, next string, err error) {
	q := &query{d: l.db.dialect}
	q.where("kind = ?", clean(kind, maxText))
	q.where("deleted = 0")
	s.filter(q, "tenant")
	return list(ctx, l, q, p, listing[Document]{
		what: "list documents", columns: documentColumns, from: "documents", order: "tenant, name", scan: l.scanDocument,
		at:    func(d Document) cursor { return cursor{List: "documents", Name: []string{d.Tenant, d.Name}} },
		after: func(q *query, at cursor) { q.where("(tenant, name) > (?, ?)", at.Name[0], at.Name[1]) },
	})
}

// PutDocument replaces version ifVersion of a document; 0 means that none exists. Another version
// is core.ErrConflict. The audit log has an entry under the name who; "" is the service, whose
// changes are not audited.
func (l *Ledger) PutDocument(ctx context.Context, s Scope, who string, d Document, ifVersion int64) (Document, error) {
	return l.replace(ctx, s, who, d, ifVersion, 0, nil)
}

// PutDocumentNoted is PutDocument with an entry of the caller's own in the audit log, in the same
// transaction: of what changed within a document.
func (l *Ledger) PutDocumentNoted(ctx context.Context, s Scope, d Document, ifVersion int64, note Entry) (Document, error) {
	return l.replace(ctx, s, note.Who, d, ifVersion, 0, &note)
}

// DeleteDocument removes version ifVersion of a document.
func (l *Ledger) DeleteDocument(ctx context.Context, s Scope, who, kind, tenant, name string, ifVersion int64) error {
	if ifVersion < 1 {
		return fmt.Errorf("delete %s %q: version %d, expected that of the document: %w", kind, name, ifVersion, core.ErrInvalid)
	}
	_, err := l.replace(ctx, s, who, Document{Kind: kind, Tenant: tenant, Name: name}, ifVersion, 1, nil)
	return err
}

func (l *Ledger) replace(ctx context.Context, s Scope, who string, d Document, ifVersion int64, deleted int, note *Entry) (Document, error) {
	if len(d.Data) > MaxDocument {
		return Document{}, fmt.Errorf("%s %q has %d bytes, expected at most %d: %w", d.Kind, d.Name, len(d.Data), MaxDocument, core.ErrInvalid)
	}
	for _, f := range []struct {
		what, text string
		needed     bool
	}{{"kind", d.Kind, true}, {"tenant", d.Tenant, false}, {"name", d.Name, true}, {"revision", d.Revision, false}, {"who", who, false}} {
		if err := checkText("document: "+f.what, f.text, f.needed, maxText); err != nil {
			return Document{}, err
		}
	}
	if !s.Allows(d.Tenant) {
		return Document{}, noDocument(d.Kind, d.Name)
	}
	d.By, d.Updated = who, fromMicros(micros(l.now()))
	err := l.db.transact(ctx, "change "+d.Kind+" "+d.Name, func(t *tx) error {
		before, gone, err := l.lockDocument(ctx, t, d)
		if err != nil {
			return err
		}
		had := before.Version
		if gone {
			had = 0
		}
		if had != ifVersion {
			if had == 0 && deleted == 1 {
				return noDocument(d.Kind, d.Name)
			}
			return fmt.Errorf("it has version %d, not %d: read it again: %w", had, ifVersion, core.ErrConflict)
		}
		d.Version = before.Version + 1
		if _, err := t.exec(ctx, `UPDATE documents SET version = $4, deleted = $5, revision = $6, who = $7, updated = $8, data = $9
			WHERE kind = $1 AND tenant = $2 AND name = $3`, d.Kind, d.Tenant, d.Name, d.Version, deleted, d.Revision, who, micros(d.Updated), l.encrypt(d.Data, documentOf, d.Kind, d.Tenant, d.Name)); err != nil {
			return err
		}
		if note != nil {
			_, err := l.audit(ctx, t, *note)
			return err
		}
		return l.auditDocument(ctx, t, who, before, d, had != 0, deleted == 1)
	})
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// lockDocument reads the row of a document, and makes it where it is the first time, so that there
// is one to lock.
func (l *Ledger) lockDocument(ctx context.Context, t *tx, d Document) (_ Document, gone bool, _ error) {
	if _, err := t.exec(ctx, `INSERT INTO documents (kind, tenant, name, version, deleted, revision, who, updated) VALUES ($1, $2, $3, 0, 1, '', '', 0) ON CONFLICT DO NOTHING`,
		d.Kind, d.Tenant, d.Name); err != nil {
		return Document{}, false, err
	}
	var deleted int
	before, err := l.scanDocument(ahead{t.row(ctx, `SELECT deleted, `+documentColumns+` FROM documents WHERE kind = $1 AND tenant = $2 AND name = $3`+t.forUpdate,
		d.Kind, d.Tenant, d.Name), []any{&deleted}})
	return before, deleted == 1, err
}

// auditDocument names what changed by its hash: the data may be large, and is not ours to
// understand.
func (l *Ledger) auditDocument(ctx context.Context, t *tx, who string, before, after Document, had, deleted bool) error {
	if who == "" {
		return nil
	}
	type shown struct {
		Version  int64  `json:"version"`
		Revision string `json:"revision,omitempty"`
		SHA256   string `json:"sha256"`
		Bytes    int    `json:"bytes"`
	}
	show := func(d Document) []byte {
		sum := sha256.Sum256(d.Data)
		return asJSON(shown{d.Version, d.Revision, hex.EncodeToString(sum[:]), len(d.Data)})
	}
	e := Entry{Who: who, Tenant: after.Tenant, Action: "document.put", Kind: after.Kind, Subject: after.Name}
	if had {
		e.Before = show(before)
	}
	if deleted {
		e.Action = "document.delete"
	} else {
		e.After = show(after)
	}
	_, err := l.audit(ctx, t, e)
	return err
}
