package backup

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Restoring is the source and the target of a restore.
type Restoring struct {
	Where    string
	ID       string       // of a backup; "" is the newest
	Ledger   string       // URL of an empty one
	Objects  *blob.Bucket // for large outputs; nil leaves them out
	Reported func(what string)
}

func (o *Restoring) report(format string, args ...any) {
	if o.Reported != nil {
		o.Reported(fmt.Sprintf(format, args...))
	}
}

// Restore fills an empty ledger from a backup, of either database, and puts the objects of large
// outputs into the bucket. All is compared with the manifest first: after an error, or a kill, the
// ledger is as empty as before. Runs that are not complete are then as if their queue had been lost
// (ledger.Load).
func Restore(ctx context.Context, o Restoring) (_ *Manifest, err error) {
	p, err := openPlace(ctx, o.Where, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(true)) }()
	m, err := choose(ctx, p, o.Where, o.ID)
	if err != nil {
		return nil, err
	}
	return m, restore(ctx, p, m, &o)
}

func restore(ctx context.Context, p place, m *Manifest, o *Restoring) error {
	return ledger.Load(ctx, o.Ledger, m.Schema, m.ID, func(ctx context.Context, l *ledger.Loader) error {
		for _, t := range m.Tables {
			o.report("table %s", t.Name)
			if err := loadTable(ctx, p, m, &t, l); err != nil {
				return err
			}
		}
		if o.Objects == nil || m.Outputs == nil {
			return nil
		}
		o.report("%d outputs", m.Outputs.Objects)
		return eachObject(ctx, p, m, func(ctx context.Context, b *object, r io.Reader) error { return putObject(ctx, o.Objects, b, r) })
	})
}

func loadTable(ctx context.Context, p place, m *Manifest, t *Table, l *ledger.Loader) error {
	r, err := readRows(ctx, p, m.ID+"/"+t.Name+rowsSuffix, t.Columns, t.Sum)
	if err != nil {
		return err
	}
	defer r.close()
	n, err := l.Table(ctx, t.Table, r.next)
	if err == nil && n != t.Rows {
		err = r.broken(fmt.Errorf("it has %d rows, expected %d", n, t.Rows))
	}
	return err
}

// eachObject hands the bytes of each object of a backup to do, several at the same time, and
// compares them with the list.
func eachObject(ctx context.Context, p place, m *Manifest, do func(context.Context, *object, io.Reader) error) error {
	list, err := readRows(ctx, p, m.ID+"/"+objectsName, objectColumns, m.Outputs.Sum)
	if err != nil {
		return err
	}
	defer list.close()
	n := int64(0)
	err = batches(list.next, func(batch []object) error {
		n += int64(len(batch))
		g, ctx := errgroup.WithContext(ctx)
		for i := range batch {
			g.Go(func() error {
				src, err := p.open(ctx, objectsFolder+batch[i].key)
				if err != nil {
					return fmt.Errorf("output %s: the backup is damaged: %w: %w", batch[i].key, core.ErrInvalid, err)
				}
				defer func() { _ = src.Close() }()
				return do(ctx, &batch[i], src)
			})
		}
		return g.Wait()
	})
	if err == nil && n != m.Outputs.Objects {
		err = list.broken(fmt.Errorf("it lists %d outputs, expected %d", n, m.Outputs.Objects))
	}
	return err
}

// putObject writes an object, unless its bytes are not those of the list.
func putObject(ctx context.Context, to *blob.Bucket, b *object, src io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Close it drops what was written
	w, err := to.NewWriter(ctx, b.key, ledger.BucketWriterOptions("text/plain; charset=utf-8"))
	if err != nil {
		return fmt.Errorf("write %s: %w", b.key, ledger.BucketError(err))
	}
	if err := check(b, src, w); err != nil {
		cancel()
		_ = w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", b.key, ledger.BucketError(err))
	}
	return nil
}

// check copies the bytes of an object, and compares them with the list.
func check(b *object, src io.Reader, to io.Writer) error {
	m := newMeter()
	if _, err := io.Copy(io.MultiWriter(to, m), src); err != nil {
		return fmt.Errorf("copy %s: %w", b.key, ledger.BucketError(err))
	}
	want, err := hex.DecodeString(b.sha256)
	if err != nil || m.n != b.bytes || subtle.ConstantTimeCompare(want, m.h.Sum(nil)) == 0 {
		return fmt.Errorf("output %s: the backup is damaged: it has %d bytes that are not the %d that were copied: %w", b.key, m.n, b.bytes, core.ErrInvalid)
	}
	return nil
}

// Verified is the result of checking a backup.
type Verified struct {
	Manifest *Manifest
	Findings []ledger.Finding // of the ledger that was restored from it; empty when it is sound
}

// Verify restores a backup into a ledger of its own in the folder for temporary files, which it
// removes, and checks the ledger there; the audit log must end where it ended when the backup was
// made. Every output is read. A backup that is damaged is an error; one of a ledger that was not
// sound has findings.
func Verify(ctx context.Context, where, id string, reported func(string)) (_ *Verified, err error) {
	p, err := openPlace(ctx, where, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(true)) }()
	m, err := choose(ctx, p, where, id)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "turnus-verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := Restoring{Ledger: "sqlite:" + filepath.Join(dir, "ledger.db"), Reported: reported}
	if err := restore(ctx, p, m, &o); err != nil {
		return nil, err
	}
	v := &Verified{Manifest: m}
	if v.Findings, err = findings(ctx, &o, m); err != nil {
		return nil, err
	}
	if m.Outputs == nil {
		return v, nil
	}
	o.report("%d outputs", m.Outputs.Objects)
	return v, eachObject(ctx, p, m, func(_ context.Context, b *object, r io.Reader) error { return check(b, r, io.Discard) })
}

func findings(ctx context.Context, o *Restoring, m *Manifest) (found []ledger.Finding, err error) {
	l, err := ledger.Open(ctx, o.Ledger, ledger.Options{Blind: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	o.report("counts and audit log")
	if found, err = l.Check(ctx, false); err != nil {
		return nil, err
	}
	if _, err := l.VerifyAudit(ctx, m.Audit); errors.Is(err, ledger.ErrTampered) {
		found = append(found, ledger.Finding{What: err.Error()})
	} else if err != nil {
		return nil, err
	}
	return found, nil
}
