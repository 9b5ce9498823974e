package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
)

// Bounds of outputs that are too long for a result, and go to Config.KeepOutput by way of a file.
const (
	spoolStream = 64 << 20 // of one stream of one step; what is over is left out
	spoolNode   = 2 << 30  // of all steps that run on a node
	keepTime    = time.Minute
)

// KeepOutput stores an output of a job in the place of what that name had. open gives it from its
// beginning, each time it is called.
type KeepOutput func(ctx context.Context, job core.JobID, name string, open func() (io.Reader, error)) error

// spool keeps the whole of a stream in a file that has no name any more, so that it goes with the
// process. The zero value of used keeps nothing.
type spool struct {
	used *atomic.Int64 // by all spools of the node; nil: nothing is kept
	file *os.File
	buf  *bufio.Writer
	size int64 // in the file
	over int64 // bytes that were left out
	err  error
}

func (s *spool) write(p []byte) {
	if s.err != nil {
		return
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "turnus-output-")
		if err == nil {
			err = os.Remove(file.Name())
		}
		if err != nil {
			s.err = err
			return
		}
		s.file, s.buf = file, bufio.NewWriterSize(file, 32<<10)
	}
	room := min(int64(len(p)), spoolStream-s.size)
	if s.over > 0 { // there is no continuing behind a hole
		room = 0
	}
	if s.used.Add(room) > spoolNode {
		s.used.Add(-room)
		room = 0
	}
	s.over += int64(len(p)) - room
	n, err := s.buf.Write(p[:room])
	s.used.Add(int64(n) - room)
	s.size += int64(n)
	s.err = err
}

// open reads the stream from its beginning, as results have it: valid, printable UTF-8.
func (s *spool) open() (io.Reader, error) {
	if err := s.buf.Flush(); err != nil {
		return nil, err
	}
	var tail io.Reader = eof{}
	if s.over > 0 {
		tail = &text{fmt.Sprintf("\n[… %d bytes cut …]\n", s.over)}
	}
	return io.MultiReader(&escaping{from: io.NewSectionReader(s.file, 0, s.size)}, tail), nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

type text struct{ left string }

func (t *text) Read(p []byte) (int, error) {
	if t.left == "" {
		return 0, io.EOF
	}
	n := copy(p, t.left)
	t.left = t.left[n:]
	return n, nil
}

// escaping is escape over a stream.
type escaping struct {
	from io.Reader
	raw  [8 << 10]byte
	held int    // bytes of raw that are the beginning of a rune
	out  string // escaped, not yet read
	err  error
}

func (e *escaping) Read(p []byte) (int, error) {
	for e.out == "" {
		if e.err != nil {
			return 0, e.err
		}
		n, err := e.from.Read(e.raw[e.held:])
		n += e.held
		e.held, e.err = 0, err
		whole := e.raw[:n]
		if err == nil {
			whole = wholeRunes(whole)
		}
		e.out = escape(string(whole))
		e.held = copy(e.raw[:utf8.UTFMax], e.raw[len(whole):n])
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// close gives the file's space back.
func (s *spool) close() {
	if s.file == nil {
		return
	}
	s.used.Add(-s.size)
	_ = s.file.Close()
	s.file, s.buf, s.size, s.over, s.err = nil, nil, 0, 0, nil
}

// captured returns a stream that continues after before. It is kept whole where the node stores
// outputs.
func (w *Worker) captured(before string) capture {
	c := capture{before: before}
	if w.cfg.KeepOutput != nil {
		c.whole.used = &w.spooled
	}
	return c
}

// keepOutputs stores the streams that did not fit into the result. A stream that cannot be stored
// stays cut, and the result shows that.
func (a *attempts) keepOutputs() {
	defer a.dropOutputs()
	j := a.m.job
	keep := j.w.cfg.KeepOutput
	if keep == nil {
		return
	}
	ctx := j.ctx
	if ctx.Err() != nil {
		if !errors.Is(context.Cause(ctx), errCancelled) { // the job may be another node's already
			return
		}
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	for _, s := range []struct {
		name string
		c    *capture
	}{{"stdout", &a.stdout}, {"stderr", &a.stderr}, {"diff", &a.diff}} {
		if s.c.whole.file == nil {
			continue
		}
		name := strconv.Itoa(a.index) + "/" + s.name
		if a.items > 1 {
			name += "-" + strconv.Itoa(a.cur.Item+1)
		}
		err := s.c.whole.err
		if err == nil {
			err = keep(ctx, j.lease.Job, name, s.c.whole.open)
		}
		if err != nil {
			j.w.cfg.Log.Warn("an output could not be kept whole", "job", j.lease.Job.String(), "output", name, "error", err)
		}
	}
}

func (a *attempts) dropOutputs() {
	for _, c := range []*capture{&a.stdout, &a.stderr, &a.diff} {
		c.whole.close()
	}
}
