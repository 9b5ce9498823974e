package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of output.
const (
	SmallOutput     = 64 << 10 // up to here it is in the database, compressed
	MaxInlineOutput = 8 << 20  // and up to here, where there is no bucket

	outputPrefix = "output/" // of the names of objects
)

// Output is one named text that a job wrote, as "2/stdout": the caller's names.
type Output struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	Written time.Time `json:"written"`

	data   []byte
	object string
}

// PutOutput stores what r gives, in the place of what that name had. Small output goes into the
// database, larger into the bucket as it is, so that parts of it can be read. After an
// error nothing has changed, except that after core.ErrUnknown the output may be stored. Output
// over MaxInlineOutput without a bucket is core.ErrInvalid.
func (l *Ledger) PutOutput(ctx context.Context, id core.JobID, name string, r io.Reader) (Output, error) {
	if err := checkText("output: name", name, true, maxID*2); err != nil {
		return Output{}, err
	}
	run, err := l.Run(ctx, AllTenants(), id.Run)
	if err != nil {
		return Output{}, err
	}
	if id.Index < 0 || id.Index >= run.Total {
		return Output{}, noJob(id)
	}
	o := Output{Name: name, Written: fromMicros(micros(l.now()))}
	limit := int64(SmallOutput)
	if l.bucket == nil {
		limit = MaxInlineOutput
	}
	head, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return Output{}, fmt.Errorf("read output %s of job %s: %w", name, id, err)
	}
	switch {
	case int64(len(head)) <= limit:
		o.data, o.Size = l.encrypt(head, outputPlace(outputOf, id, name)...), int64(len(head))
	case l.bucket == nil:
		return Output{}, fmt.Errorf("output %s of job %s is over %d bytes, and the ledger has no bucket for it: %w", name, id, limit, core.ErrInvalid)
	default:
		if err := l.upload(ctx, &o, run.seq, id, io.MultiReader(bytes.NewReader(head), r)); err != nil {
			return Output{}, fmt.Errorf("store output %s of job %s: %w", name, id, err)
		}
	}
	if err := l.putOutput(ctx, run.seq, id, o); err != nil {
		if !errors.Is(err, core.ErrUnknown) { // the row may name it; Sweep removes it if not
			l.discard(ctx, o.object)
		}
		return Output{}, err
	}
	return o, nil
}

func (l *Ledger) upload(ctx context.Context, o *Output, seq int64, id core.JobID, r io.Reader) error {
	plain := &counter{from: r}
	r = l.encryptObject(o, id, plain)
	o.object = outputPrefix + strconv.FormatInt(seq, 10) + "/" + strconv.Itoa(id.Index) + "/" + hex.EncodeToString(random(8))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Close it drops what was written
	w, err := l.bucket.NewWriter(ctx, o.object, BucketWriterOptions("text/plain; charset=utf-8"))
	if err != nil {
		return BucketError(err)
	}
	_, err = io.Copy(w, r)
	o.Size = plain.n
	if err != nil {
		cancel()
		_ = w.Close()
		return BucketError(err)
	}
	return BucketError(w.Close())
}

// putOutput writes the row, and removes the object that it named before.
func (l *Ledger) putOutput(ctx context.Context, seq int64, id core.JobID, o Output) error {
	var old string
	err := l.db.transact(ctx, "store output "+o.Name+" of job "+id.String(), func(t *tx) error {
		// The run's row is locked, so that none is added to a run that is being pruned.
		if _, err := lockRun(ctx, t, id.Run); err != nil {
			return err
		}
		err := t.row(ctx, `SELECT object FROM outputs WHERE run = $1 AND idx = $2 AND name = $3`, seq, id.Index, o.Name).Scan(&old)
		if err != nil && !none(err) {
			return err
		}
		_, err = t.exec(ctx, `INSERT INTO outputs (run, idx, name, size, written, data, object) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (run, idx, name) DO UPDATE SET size = excluded.size, written = excluded.written, data = excluded.data, object = excluded.object`,
			seq, id.Index, o.Name, o.Size, micros(o.Written), o.data, o.object)
		return err
	})
	if err == nil {
		l.discard(ctx, old)
	}
	return err
}

// discard removes an object that nothing names any more. Left behind, it only costs space.
func (l *Ledger) discard(ctx context.Context, object string) {
	if object != "" && l.bucket != nil {
		_ = l.bucket.Delete(context.WithoutCancel(ctx), object)
	}
}

const outputColumns = `name, size, written, object`

func scanOutput(row scanner) (Output, error) {
	var o Output
	var written int64
	err := row.Scan(&o.Name, &o.Size, &written, &o.object)
	o.Written = fromMicros(written)
	return o, err
}

// Outputs lists what a job in scope wrote, by name.
func (l *Ledger) Outputs(ctx context.Context, s Scope, id core.JobID) ([]Output, error) {
	j, err := l.Job(ctx, s, id)
	if err != nil {
		return nil, err
	}
	rows, err := l.db.rows(ctx, `SELECT `+outputColumns+` FROM outputs WHERE run = $1 AND idx = $2 ORDER BY name LIMIT $3`, j.seq, id.Index, MaxPage)
	all, err := collect(rows, err, scanOutput)
	return all, translate("list the output of job "+id.String(), err)
}

// OpenOutput reads length bytes of an output from offset; a negative length means to its end, and
// what is beyond the end is not there. The caller closes the reader.
func (l *Ledger) OpenOutput(ctx context.Context, s Scope, id core.JobID, name string, offset, length int64) (io.ReadCloser, Output, error) {
	if offset < 0 {
		return nil, Output{}, fmt.Errorf("output %s from byte %d: expected 0 or more: %w", name, offset, core.ErrInvalid)
	}
	j, err := l.Job(ctx, s, id)
	if err != nil {
		return nil, Output{}, err
	}
	var data []byte
	o, err := scanOutput(ahead{l.db.row(ctx, `SELECT data, `+outputColumns+` FROM outputs WHERE run = $1 AND idx = $2 AND name = $3`, j.seq, id.Index, clean(name, maxText)), []any{&data}})
	if none(err) {
		return nil, Output{}, fmt.Errorf("job %s has no output %q: %w", id, clean(name, maxID), core.ErrNotFound)
	}
	what := "read output " + name + " of job " + id.String()
	if err != nil {
		return nil, Output{}, translate(what, err)
	}
	offset = min(offset, o.Size)
	if length < 0 || length > o.Size-offset {
		length = o.Size - offset
	}
	if o.object == "" {
		data, err := l.open(data, outputPlace(outputOf, id, name)...)
		if err != nil {
			return nil, Output{}, fmt.Errorf("%s: %w", what, err)
		}
		if int64(len(data)) != o.Size {
			return nil, Output{}, fmt.Errorf("%s: %d bytes are stored, expected %d", what, len(data), o.Size)
		}
		return io.NopCloser(bytes.NewReader(data[offset : offset+length])), o, nil
	}
	if l.bucket == nil {
		return nil, Output{}, fmt.Errorf("%s: it is in a bucket, and the ledger was opened without one: %w", what, core.ErrUnavailable)
	}
	r, err := l.openObject(ctx, &o, data, id, offset, length)
	if err != nil {
		return nil, Output{}, fmt.Errorf("%s: %w", what, err)
	}
	return r, o, nil
}
