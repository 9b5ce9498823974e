package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Options are the source and the target of a backup.
type Options struct {
	Ledger  string       // URL
	Objects *blob.Bucket // of large outputs; nil where there are none
	Without bool         // leaves large outputs out
	Where   string       // a folder, s3://BUCKET, or FILE.zip
	Program string       // version of this program
	// ReadData also reads the objects of earlier backups, and copies damaged ones again. Without it
	// only their sizes are compared.
	ReadData bool
	// Reported, which may be nil, is called with what is begun.
	Reported func(what string)
}

func (o *Options) report(format string, args ...any) {
	if o.Reported != nil {
		o.Reported(fmt.Sprintf(format, args...))
	}
}

// Create makes a backup of one moment, while other processes use the ledger. Objects that an
// earlier backup of the same place has are not copied again, unless they are damaged there. After
// an error, or a kill, there is no backup; the next one uses the copied objects. Memory is bounded
// by the largest row.
func Create(ctx context.Context, o Options) (_ *Manifest, err error) {
	p, err := openPlace(ctx, o.Where, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(err == nil)) }()
	m := &Manifest{Format: format, Program: o.Program}
	named, err := newSpool(namedColumns)
	if err != nil {
		return nil, err
	}
	defer named.close()
	err = ledger.ReadCopy(ctx, o.Ledger, func(ctx context.Context, c *ledger.Copy) error {
		m.Created = time.Now().UTC().Truncate(time.Microsecond)
		m.ID = newID(m.Created)
		m.Schema, m.Database, m.Audit = c.Version, c.Database, c.Audit
		for _, t := range c.Tables {
			o.report("table %s", t.Name)
			one, err := copyTable(ctx, p, m.ID, c, t, named)
			if err != nil {
				return fmt.Errorf("copy table %s: %w", t.Name, err)
			}
			m.Tables = append(m.Tables, one)
		}
		for _, id := range c.Keys() {
			m.Keys = append(m.Keys, id.String())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch {
	case o.Without:
	case o.Objects != nil:
		if m.Outputs, err = copyObjects(ctx, p, m.ID, &o, named); err != nil {
			return nil, fmt.Errorf("copy outputs: %w", err)
		}
	case named.n > 0:
		return nil, fmt.Errorf("large outputs that the ledger names: %d; their folder or bucket is not named or does not exist: %w\nhint: --outputs names their folder or bucket; --no-outputs copies the ledger alone", named.n, core.ErrInvalid)
	}
	return m, writeManifest(ctx, p, m)
}

// newID names a backup for its moment, to the microsecond, so that names sort as backups were made,
// and no two are alike.
func newID(at time.Time) string {
	return at.Format("20060102-150405-") + fmt.Sprintf("%05x", at.Nanosecond()/1000) + random(1)[:1]
}

// copyTable writes the file of a table, and notes the objects that its rows name.
func copyTable(ctx context.Context, p place, id string, c *ledger.Copy, t ledger.Table, named *spool) (Table, error) {
	w, err := writeRows(ctx, p, id+"/"+t.Name+rowsSuffix, t.Columns)
	if err != nil {
		return Table{}, err
	}
	note := named.noting(t)
	n, err := c.Rows(ctx, t, func(row []any) error {
		if err := note(row); err != nil {
			return err
		}
		return w.row(row)
	})
	sum, err := w.end(err)
	return Table{t, n, sum}, err
}

func writeManifest(ctx context.Context, p place, m *Manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := p.create(ctx, m.ID+"/"+manifestName)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		f.drop()
		return err
	}
	return f.keep()
}

// List reads the manifests of the whole backups of a place, oldest first.
func List(ctx context.Context, where string) (list []*Manifest, err error) {
	p, err := openPlace(ctx, where, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(true)) }()
	ids, err := whole(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		m, err := readManifest(ctx, p, id)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// choose reads the manifest of a backup, of the newest for "".
func choose(ctx context.Context, p place, where, id string) (*Manifest, error) {
	ids, err := whole(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s has no whole backup: %w", where, core.ErrInvalid)
	}
	if id == "" {
		id = ids[len(ids)-1]
	}
	if !idForm().MatchString(id) {
		return nil, fmt.Errorf("backup %q: expected an id as %s: %w", id, ids[len(ids)-1], core.ErrInvalid)
	}
	m, err := readManifest(ctx, p, id)
	if errors.Is(err, core.ErrNotFound) {
		return nil, fmt.Errorf("backup %s is not in %s, whose newest is %s: %w", id, where, ids[len(ids)-1], core.ErrInvalid)
	}
	return m, err
}
