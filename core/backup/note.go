package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// The document by which a ledger knows of its last backup.
const (
	kindBackup = "backup"
	nameLast   = "last"
)

// Last is the ledger's record of its last backup.
type Last struct {
	ID      string       `json:"id"`
	Created time.Time    `json:"created"` // the moment that it shows
	Took    core.Seconds `json:"took_seconds"`
	Bytes   int64        `json:"bytes"` // of its own files, and of outputs
	Runs    int64        `json:"runs"`
	Outputs int64        `json:"outputs"`
}

// Note records in a ledger that a backup was made, and by whom, also in its audit log.
func Note(ctx context.Context, l *ledger.Ledger, who string, m *Manifest, took time.Duration) error {
	last := Last{ID: m.ID, Created: m.Created, Took: core.InSeconds(took), Bytes: m.Size(), Runs: m.Rows("runs")}
	if m.Outputs != nil {
		last.Outputs = m.Outputs.Objects
		last.Bytes += m.Outputs.Size
	}
	data, err := json.Marshal(last)
	if err != nil {
		return err
	}
	const tries = 5
	for range tries { // two backups may end at the same time
		doc, err := l.Document(ctx, ledger.AllTenants(), kindBackup, "", nameLast)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		_, err = l.PutDocumentNoted(ctx, ledger.AllTenants(), ledger.Document{Kind: kindBackup, Name: nameLast, Revision: m.ID, Data: data}, doc.Version,
			ledger.Entry{Who: who, Action: "backup.create", Kind: kindBackup, Subject: m.ID, After: data})
		if !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("note backup %s: others are noted all the time: %w", m.ID, core.ErrConflict)
}

// ReadLast returns the ledger's record of its last backup, for metrics and reports. If there is
// none, the error is core.ErrNotFound.
func ReadLast(ctx context.Context, l *ledger.Ledger) (Last, error) {
	var last Last
	doc, err := l.Document(ctx, ledger.AllTenants(), kindBackup, "", nameLast)
	if err == nil {
		err = json.Unmarshal(doc.Data, &last)
	}
	return last, err
}
