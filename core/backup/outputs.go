package backup

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// So many objects are copied at the same time: over a network each takes its time.
const atOnce = 16

// The columns of a list of objects, in the order of its rows, and where a place keeps the objects.
var (
	objectColumns = []ledger.Column{{Name: "run", Kind: ledger.Integer}, {Name: "idx", Kind: ledger.Integer}, {Name: "name", Kind: ledger.Text}, {Name: "object", Kind: ledger.Text}, {Name: "bytes", Kind: ledger.Integer}, {Name: "sha256", Kind: ledger.Text}}
	namedColumns  = objectColumns[:4]
)

const objectsFolder = "objects/"

// object is one large output.
type object struct {
	run, idx  int64
	name, key string
	bytes     int64
	sha256    string
}

func (o *object) compare(than *object) int {
	return cmp.Or(cmp.Compare(o.run, than.run), cmp.Compare(o.idx, than.idx), cmp.Compare(o.name, than.name))
}

func objectOf(row []any) (object, error) {
	o := object{}
	var ok [6]bool
	o.run, ok[0] = row[0].(int64)
	o.idx, ok[1] = row[1].(int64)
	o.name, ok[2] = row[2].(string)
	o.key, ok[3] = row[3].(string)
	if len(row) >= 6 {
		o.bytes, ok[4] = row[4].(int64)
		o.sha256, ok[5] = row[5].(string)
	} else {
		ok[4], ok[5] = true, true
	}
	if slices.Contains(ok[:], false) || len(o.key) > 500 || !keyForm().MatchString(o.key) {
		return o, fmt.Errorf("a list of objects names %q, which cannot be one: %w", o.key, core.ErrInvalid)
	}
	return o, nil
}

// spool keeps rows on disk, in a file without a name, for later.
type spool struct {
	f       *os.File
	w       *bufio.Writer
	columns []ledger.Column
	line    []byte
	n       int64
}

func newSpool(columns []ledger.Column) (*spool, error) {
	f, err := os.CreateTemp("", "turnus-backup-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, 1<<16), columns: columns}, nil
}

func (s *spool) close() { _ = s.f.Close() }

func (s *spool) add(row []any) (err error) {
	if s.line, err = appendRow(s.line[:0], s.columns, row); err != nil {
		return err
	}
	s.n++
	_, err = s.w.Write(s.line)
	return err
}

// rows reads back what was added: a function that gives one row after the other, which is used
// again, and then io.EOF.
func (s *spool) rows() (func() ([]any, error), error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(s.f)
	lines.Buffer(nil, 1<<20)
	row := make([]any, len(s.columns))
	return func() ([]any, error) {
		if !lines.Scan() {
			return nil, cmp.Or(lines.Err(), io.EOF)
		}
		return row, readRow(lines.Bytes(), s.columns, row)
	}, nil
}

// noting notes which objects the rows of a table name, in their order: those of outputs.
func (s *spool) noting(t ledger.Table) func([]any) error {
	at := core.Map(s.columns, func(want ledger.Column) int {
		return slices.IndexFunc(t.Columns, func(c ledger.Column) bool { return c.Name == want.Name })
	})
	if t.Name != "outputs" || slices.Contains(at, -1) {
		return func([]any) error { return nil }
	}
	row := make([]any, len(at))
	return func(all []any) error {
		for i, from := range at {
			row[i] = all[from]
		}
		if row[3] == "" { // it is in the row
			return nil
		}
		return s.add(row)
	}
}

// batches hands the objects that rows name to do, so many at a time.
func batches(next func() ([]any, error), do func([]object) error) error {
	batch := make([]object, 0, atOnce)
	for {
		row, err := next()
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return err
		}
		if !last {
			o, err := objectOf(row)
			if err != nil {
				return err
			}
			batch = append(batch, o)
		}
		if len(batch) > 0 && (last || len(batch) == atOnce) {
			if err := do(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if last {
			return nil
		}
	}
}

// earlier reads the list of the backup before, in step with the one that is made.
type earlier struct {
	r    *rowsReader // nil: there is none, or no more
	head object
}

// openEarlier opens the newest list of a place. One that cannot be read is no reason not to make a
// backup.
func openEarlier(ctx context.Context, p place) *earlier {
	e := &earlier{}
	ids, err := whole(ctx, p)
	if err != nil {
		return e
	}
	for _, id := range slices.Backward(ids) {
		m, err := readManifest(ctx, p, id)
		if err != nil || m.Outputs == nil {
			continue
		}
		if r, err := readRows(ctx, p, id+"/"+objectsName, objectColumns, m.Outputs.Sum); err == nil {
			e.r = r
			e.step()
		}
		return e
	}
	return e
}

func (e *earlier) step() {
	row, err := e.r.next()
	if err == nil {
		e.head, err = objectOf(row)
	}
	if err != nil {
		e.close()
	}
}

func (e *earlier) close() {
	if e.r != nil {
		e.r.close()
		e.r = nil
	}
}

// find returns the entry of an object in the list. Call it in the list's order.
func (e *earlier) find(o *object) (object, bool) {
	for e.r != nil && e.head.compare(o) < 0 {
		e.step()
	}
	if e.r != nil && e.head.compare(o) == 0 && e.head.key == o.key {
		return e.head, true
	}
	return object{}, false
}

// copyObjects copies what the place has not, and writes the list.
func copyObjects(ctx context.Context, p place, id string, o *Options, named *spool) (*Outputs, error) {
	o.report("%d outputs", named.n)
	out := &Outputs{}
	had := openEarlier(ctx, p)
	defer had.close()
	list, err := newSpool(objectColumns)
	if err != nil {
		return nil, err
	}
	defer list.close()
	next, err := named.rows()
	if err != nil {
		return nil, err
	}
	err = batches(next, func(batch []object) error {
		if err := copyBatch(ctx, p, o, had, batch, out); err != nil {
			return err
		}
		for i := range batch {
			b := &batch[i]
			if b.bytes < 0 {
				out.Missing++
				continue
			}
			out.Objects++
			out.Size += b.bytes
			if err := list.add([]any{b.run, b.idx, b.name, b.key, b.bytes, b.sha256}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = checkSource(ctx, o.Objects, out)
	}
	if err != nil {
		return nil, err
	}
	out.Sum, err = writeList(ctx, p, id, list)
	return out, err
}

// checkSource refuses a place of outputs that has none of them, as a folder that is not mounted:
// the objects of earlier backups are not read there.
func checkSource(ctx context.Context, from *blob.Bucket, out *Outputs) error {
	if out.Missing == 0 || out.New+out.Damaged > 0 {
		return nil
	}
	if out.Objects > 0 {
		_, err := from.List(&blob.ListOptions{Prefix: "output/"}).Next(ctx)
		if !errors.Is(err, io.EOF) {
			return ledger.BucketError(err)
		}
	}
	return fmt.Errorf("large outputs that the ledger names: %d; their place has none of them: %w\nhint: check --outputs, and that it is mounted; --no-outputs copies the ledger alone", out.Objects+out.Missing, core.ErrInvalid)
}

// copyBatch copies the objects of a batch at the same time; into a single file one after the other.
func copyBatch(ctx context.Context, p place, o *Options, had *earlier, batch []object, out *Outputs) error {
	g, ctx := errgroup.WithContext(ctx)
	if _, single := p.(*zipWriter); single {
		g.SetLimit(1)
	}
	var fresh, damaged atomic.Int64
	for i := range batch {
		b := &batch[i]
		same, known := had.find(b)
		g.Go(func() error {
			count := &fresh
			if known {
				switch err := intact(ctx, p, &same, o.ReadData); {
				case err == nil:
					b.bytes, b.sha256 = same.bytes, same.sha256
					return nil
				case ctx.Err() != nil:
					return err
				case !errors.Is(err, core.ErrNotFound): // no backup can use the object that is there
					count = &damaged
				}
			}
			err := copyObject(ctx, p, o.Objects, b)
			if b.bytes >= 0 {
				count.Add(1)
			}
			return err
		})
	}
	err := g.Wait()
	out.New += fresh.Load()
	out.Damaged += damaged.Load()
	return err
}

// intact compares an object of a place with its entry in the list: its size, and where it is read
// its bytes. None is core.ErrNotFound.
func intact(ctx context.Context, p place, o *object, read bool) error {
	n, err := p.size(ctx, objectsFolder+o.key)
	if err != nil {
		return err
	}
	if n != o.bytes {
		return fmt.Errorf("output %s: the backup is damaged: it has %d bytes, %d were copied: %w", o.key, n, o.bytes, core.ErrInvalid)
	}
	if !read {
		return nil
	}
	src, err := p.open(ctx, objectsFolder+o.key)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	return check(o, src, io.Discard)
}

func writeList(ctx context.Context, p place, id string, list *spool) (Sum, error) {
	next, err := list.rows()
	if err != nil {
		return Sum{}, err
	}
	w, err := writeRows(ctx, p, id+"/"+objectsName, objectColumns)
	if err != nil {
		return Sum{}, err
	}
	for err == nil {
		var row []any
		if row, err = next(); err == nil {
			err = w.row(row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return w.end(err)
}

// copyObject copies one, and sets its size and hash; its bytes are negative where the bucket has it
// no more.
func copyObject(ctx context.Context, p place, from *blob.Bucket, o *object) (err error) {
	r, err := from.NewReader(ctx, o.key, nil)
	if err = ledger.BucketError(err); errors.Is(err, core.ErrNotFound) {
		o.bytes = -1
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", o.key, err)
	}
	defer func() { _ = r.Close() }()
	f, err := p.create(ctx, objectsFolder+o.key)
	if err != nil {
		return err
	}
	m := newMeter()
	if _, err := io.Copy(io.MultiWriter(f, m), r); err != nil {
		f.drop()
		return fmt.Errorf("copy %s: %w", o.key, ledger.BucketError(err))
	}
	o.bytes, o.sha256 = m.n, hex.EncodeToString(m.h.Sum(nil))
	return f.keep()
}
