package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
)

// FileInfo describes what Get read.
type FileInfo struct {
	Size   int64
	Mode   uint32
	SHA256 string
}

// sink hashes, counts and bounds what a host sends.
type sink struct {
	w     io.Writer
	sum   hash.Hash
	n     int64
	limit int64
	err   error // of the caller's writer, or errTooLong
}

var errNoTool = errors.New("the host has no stat that gives mode and size, or no /proc/self/fd")

var errTooLong = errors.New("file is longer than allowed")

func (s *sink) Write(b []byte) (int, error) {
	if s.limit > 0 && s.n+int64(len(b)) > s.limit {
		s.err = errTooLong
		return 0, s.err
	}
	n, err := s.w.Write(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

// Get reads a regular file of at most maxSize bytes (0: any) into w. A missing
// file is core.ErrNotFound. It is read as the user of as. Nothing is written when the file is known
// to be too long beforehand; when it grows meanwhile, part of it may have been.
func (p *Pool) Get(ctx context.Context, h core.Host, file string, as core.Become, maxSize int64, w io.Writer) (FileInfo, error) {
	r, err := p.resolve(h)
	if err != nil {
		return FileInfo{}, err
	}
	if !path.IsAbs(file) || strings.IndexByte(file, 0) >= 0 {
		return FileInfo{}, r.last().fail("get", "", true, mark(fmt.Errorf("path %q: expected an absolute path", file), core.ErrInvalid))
	}
	d := &download{p: p, r: r, file: file, as: as, out: &sink{w: w, sum: sha256.New(), limit: maxSize}}
	mode, err := d.byCat(ctx)
	// As another user there is no SFTP: sshd's is the login's.
	if as.User == "" && (errors.Is(err, errNoShell) || errors.Is(err, errNoTool)) {
		if m, other := d.bySFTP(ctx); !errors.Is(other, errNoSFTP) {
			mode, err = m, other
		}
	}
	switch {
	case d.out.err != nil && !errors.Is(d.out.err, errTooLong):
		return FileInfo{}, d.fail("", fmt.Errorf("writing what was read: %w", d.out.err))
	case errors.Is(d.out.err, errTooLong):
		return FileInfo{}, d.tooLong()
	case err != nil && ctx.Err() != nil:
		return FileInfo{}, r.last().ended(ctx, "get", false)
	case err != nil:
		return FileInfo{}, err
	}
	return FileInfo{Size: d.out.n, Mode: mode, SHA256: hex.EncodeToString(d.out.sum.Sum(nil))}, nil
}

// download is one Get under way.
type download struct {
	p    *Pool
	r    route
	file string
	as   core.Become
	out  *sink
}

func (d *download) fail(hint string, err error) *Error {
	return d.r.last().fail("get", hint, false, fmt.Errorf("%s: %w", d.file, err))
}

func (d *download) tooLong() *Error {
	return d.fail("raise max_size: of the step, or fetch less", mark(fmt.Errorf("longer than the limit of %d bytes", d.out.limit), core.ErrInvalid))
}

func (d *download) bySFTP(ctx context.Context) (mode uint32, err error) {
	c, done, err := d.p.sftp(ctx, d.r)
	if err != nil {
		return 0, err
	}
	defer done()
	at, err := c.follow(d.file)
	var st os.FileInfo
	if err == nil {
		st, err = c.Lstat(at)
	}
	switch {
	case errors.Is(err, errPlanted):
		return 0, d.fail("", mark(err, core.ErrInvalid))
	case errors.Is(err, os.ErrNotExist):
		return 0, d.fail("", mark(err, core.ErrNotFound))
	case err != nil:
		return 0, d.lost(err)
	case !st.Mode().IsRegular():
		return 0, d.fail("", mark(fmt.Errorf("is not a regular file (%s)", st.Mode()), core.ErrInvalid))
	case d.out.limit > 0 && st.Size() > d.out.limit:
		return 0, d.tooLong()
	}
	f, err := c.Open(at)
	if err != nil {
		return 0, d.fail("may the user read it? See ls -l on the host", err)
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || uid(opened) != uid(st) {
		return 0, d.fail("", mark(fmt.Errorf("%w while it was read", errPlanted), core.ErrInvalid))
	}
	if _, err := f.WriteTo(d.out); err != nil {
		return 0, d.lost(err)
	}
	if d.out.n < st.Size() {
		return 0, d.fail("it was cut meanwhile, or the transfer was: run it again, with --retry-failed", fmt.Errorf("read %d bytes of %d", d.out.n, st.Size()))
	}
	return unixMode(st.Mode()), nil
}

func unixMode(m os.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, flag := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if m&flag != 0 {
			mode |= bit
		}
	}
	return mode
}

func (d *download) lost(err error) *Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = mark(fmt.Errorf("connection lost during the transfer: %w", err), core.ErrUnreachable)
	}
	return d.fail("", err)
}

// header splits "MODE SIZE\n" off the front of a stream.
type header struct {
	line  []byte
	done  bool
	check func(line string) error
	rest  io.Writer
}

func (h *header) Write(b []byte) (int, error) {
	if h.done {
		return h.rest.Write(b)
	}
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		h.line = append(h.line, b...)
		if len(h.line) > 64 {
			return 0, errors.New("the host's answer is not what stat prints")
		}
		return len(b), nil
	}
	h.done = true
	if err := h.check(string(append(h.line, b[:i]...))); err != nil {
		return 0, err
	}
	n, err := h.rest.Write(b[i+1:])
	return i + 1 + n, err
}

func (d *download) byCat(ctx context.Context) (uint32, error) {
	var mode, size uint64
	h := &header{rest: d.out, check: func(line string) (err error) {
		a, b, _ := strings.Cut(line, " ")
		if mode, err = strconv.ParseUint(a, 8, 16); err == nil {
			size, err = strconv.ParseUint(b, 10, 63)
		}
		if err == nil && d.out.limit > 0 && int64(size) > d.out.limit {
			d.out.err = errTooLong
			return errTooLong
		}
		return err
	}}
	complaint := &core.Head{Most: 4 << 10}
	exit, err := d.p.run(ctx, d.r, Exec{Command: sendScript(d.file), Become: d.as, Stdout: h, Stderr: complaint})
	why := errors.New(strings.TrimSpace(complaint.String()))
	switch {
	case err != nil:
		return 0, err
	case exit.Code == exitMissing:
		return 0, d.fail("", mark(why, core.ErrNotFound))
	case exit.Code == exitRefused:
		return 0, d.fail("", mark(why, core.ErrInvalid))
	case exit.Code == exitNoTool && !h.done:
		return 0, d.fail("", mark(errors.New(cmp.Or(why.Error(), errNoTool.Error())), errNoTool))
	case exit.Code != 0 || !h.done:
		return 0, d.fail("may the user read it? See ls -l on the host", fmt.Errorf("exit code %d: %w", exit.Code, why))
	case d.out.n < int64(size):
		return 0, d.fail("it was cut meanwhile, or the transfer was: run it again, with --retry-failed", fmt.Errorf("read %d bytes of %d", d.out.n, size))
	}
	return uint32(mode), nil
}
