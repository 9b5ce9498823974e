package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// format is the version of the layout; another one is refused.
const format = 1

// Manifest lists what a backup is made of.
type Manifest struct {
	Format   int           `json:"turnus_backup"`
	ID       string        `json:"id"`
	Created  time.Time     `json:"created"` // the moment that it shows
	Program  string        `json:"program"` // version of the turnus that made it
	Schema   int           `json:"schema"`  // of the ledger's tables
	Database string        `json:"database"`
	Tables   []Table       `json:"tables"`
	Keys     []string      `json:"keys,omitempty"`    // of the key ring that it is encrypted with: without them it cannot be read after a restore
	Audit    ledger.Anchor `json:"audit"`             // the end of the audit log
	Outputs  *Outputs      `json:"outputs,omitempty"` // nil: left out
}

// Table is the file of one table.
type Table struct {
	ledger.Table
	Rows int64 `json:"rows"`
	Sum
}

// Sum is the size and hash that a file must have.
type Sum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Outputs are the objects of large outputs.
type Outputs struct {
	Objects int64 `json:"objects"`
	Size    int64 `json:"size"` // bytes of all
	New     int64 `json:"new"`  // that were not in the place before
	// Damaged are objects that the place had from an earlier backup and has again: their bytes were
	// others than then, or could not be read.
	Damaged int64 `json:"damaged,omitempty"`
	// Missing are objects that the ledger named and the bucket had not: removed with their run while
	// the backup was made, or lost before. If the bucket has none at all, there is no backup.
	Missing int64 `json:"missing"`
	Sum           // of the list
}

// Size is the bytes of a backup's own files, without objects.
func (m *Manifest) Size() int64 {
	n := int64(0)
	for _, t := range m.Tables {
		n += t.Bytes
	}
	if m.Outputs != nil {
		n += m.Outputs.Bytes
	}
	return n
}

// Rows is how many there are of a table.
func (m *Manifest) Rows(table string) int64 {
	for _, t := range m.Tables {
		if t.Name == table {
			return t.Rows
		}
	}
	return 0
}

// Names of files.
const (
	manifestName = "manifest.json"
	objectsName  = "objects" + rowsSuffix
	rowsSuffix   = ".ndjson.zst"
	maxManifest  = 4 << 20
)

var (
	idForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$`) })
	tableForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_]{0,60}$`) })
	keyForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+$`) }) // of an object
)

// readManifest reads that of a backup of a place. None is core.ErrNotFound.
func readManifest(ctx context.Context, p place, id string) (*Manifest, error) {
	f, err := p.open(ctx, id+"/"+manifestName)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read backup %s: %w", id, err)
	}
	m := &Manifest{}
	if len(data) > maxManifest {
		err = errors.New("it is too large")
	} else {
		err = json.Unmarshal(data, m)
	}
	if err == nil {
		err = m.check(id)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %s: %w: %w", id, manifestName, core.ErrInvalid, err)
	}
	return m, nil
}

func (m *Manifest) check(id string) error {
	if m.Format != format {
		return fmt.Errorf("it is of format %d, this turnus reads %d: use a newer one", m.Format, format)
	}
	if m.ID != id || len(m.Tables) == 0 {
		return errors.New("it is none of this backup")
	}
	for _, t := range m.Tables {
		if !tableForm().MatchString(t.Name) || t.Name == "objects" || len(t.Columns) == 0 || t.Rows < 0 || t.Bytes < 0 {
			return fmt.Errorf("it names a table %q that cannot be one", t.Name)
		}
	}
	return nil
}
