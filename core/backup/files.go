package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Bounds of what is read.
const (
	maxLine   = 1 << 30 // bytes of a row: a run of ten million targets has half of that, and bytes grow by a third as text
	maxWindow = 64 << 20
)

// meter counts and hashes what is written, or read, through it.
type meter struct {
	n int64
	h hash.Hash
}

func newMeter() *meter { return &meter{h: sha256.New()} }

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	return m.h.Write(p)
}

func (m *meter) sum() Sum { return Sum{m.n, hex.EncodeToString(m.h.Sum(nil))} }

// rowsWriter writes rows into a compressed file of a place.
type rowsWriter struct {
	f       file
	columns []ledger.Column
	m       *meter
	z       *zstd.Encoder
	b       *bufio.Writer
	line    []byte
	rows    int64
}

func writeRows(ctx context.Context, p place, name string, columns []ledger.Column) (*rowsWriter, error) {
	f, err := p.create(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &rowsWriter{f: f, columns: columns, m: newMeter()}
	if w.z, err = zstd.NewWriter(io.MultiWriter(f, w.m), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20)); err != nil {
		f.drop()
		return nil, err
	}
	w.b = bufio.NewWriterSize(w.z, 1<<16)
	return w, nil
}

func (w *rowsWriter) row(row []any) (err error) {
	if w.line, err = appendRow(w.line[:0], w.columns, row); err != nil {
		return err
	}
	w.rows++
	_, err = w.b.Write(w.line)
	return err
}

// end keeps the file, or drops it after an error.
func (w *rowsWriter) end(err error) (Sum, error) {
	if err == nil {
		err = w.b.Flush()
	}
	if closed := w.z.Close(); err == nil { // it also ends goroutines
		err = closed
	}
	if err != nil {
		w.f.drop()
		return Sum{}, err
	}
	return w.m.sum(), w.f.keep()
}

// rowsReader reads them back, and reports at the end whether they match the manifest.
type rowsReader struct {
	name    string
	src     io.ReadCloser
	columns []ledger.Column
	want    Sum
	m       *meter
	tee     io.Reader
	z       *zstd.Decoder
	b       *bufio.Reader
	line    []byte
	values  []any
	rows    int64
}

func readRows(ctx context.Context, p place, name string, columns []ledger.Column, want Sum) (*rowsReader, error) {
	src, err := p.open(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &rowsReader{name: name, src: src, columns: columns, want: want, m: newMeter(), values: make([]any, len(columns))}
	r.tee = io.TeeReader(src, r.m)
	if r.z, err = zstd.NewReader(r.tee, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
		_ = src.Close()
		return nil, err
	}
	r.b = bufio.NewReaderSize(r.z, 1<<16)
	return r, nil
}

// next is the next row, which is used again; io.EOF after the last, when all was what it should be.
func (r *rowsReader) next() ([]any, error) {
	r.line = r.line[:0]
	for {
		part, err := r.b.ReadSlice('\n')
		r.line = append(r.line, part...)
		switch {
		case len(r.line) > maxLine:
			return nil, r.broken(errors.New("a line is longer than any row"))
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.line) == 0:
			return nil, r.whole()
		case err != nil:
			return nil, r.broken(err)
		}
		break
	}
	r.rows++
	if err := readRow(r.line[:len(r.line)-1], r.columns, r.values); err != nil {
		return nil, r.broken(err)
	}
	return r.values, nil
}

// whole is io.EOF for a file with the size and hash of the manifest.
func (r *rowsReader) whole() error {
	if _, err := io.Copy(io.Discard, r.tee); err != nil { // what a decoder leaves
		return r.broken(err)
	}
	if got := r.m.sum(); got != r.want {
		return r.broken(fmt.Errorf("it has %d bytes with the SHA-256 %s, expected %d with %s", got.Bytes, got.SHA256, r.want.Bytes, r.want.SHA256))
	}
	return io.EOF
}

func (r *rowsReader) broken(err error) error {
	return fmt.Errorf("%s, row %d: the backup is damaged: %w: %w", r.name, r.rows+1, core.ErrInvalid, err)
}

func (r *rowsReader) close() {
	r.z.Close()
	_ = r.src.Close()
}
