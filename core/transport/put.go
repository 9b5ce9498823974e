package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// newMode is the mode of a file that was not there, where nobody gives another.
const newMode = 0o644

// maxSize bounds the size of a file: one more is still a number.
const maxSize int64 = 1 << 62

// Put defines where and how to write a file.
type Put struct {
	Path   string // absolute; a symbolic link there is replaced, not followed
	Mode   uint32 // permission bits; 0 keeps those of the file there, and means 0644 for a new one
	Owner  string // user[:group]; "" leaves it
	Size   int64  // -1: unknown
	SHA256 string // hex; "" takes what was read
	Backup string // suffix of a copy of the old file; "" keeps none
	// Validate is a command that checks the new file before it replaces the old one; %s is its path.
	Validate string
	Fence    Fence       // of the lease that the file belongs to: the host compares it before anything is replaced
	Become   core.Become // writes the file as another user
}

// Written is the result of Put.
type Written struct {
	Size   int64
	SHA256 string
}

// smallPut is the size up to which a file is the input of the command that finishes it.
const smallPut = 64 << 10

// cleanupTime is for removing a part file after the caller's context ended.
const cleanupTime = 5 * time.Second

// upload is one Put under way.
type upload struct {
	p    *Pool
	r    route
	put  Put
	part string

	verified bool // the host's hash of the part file was right before finish
}

// Put writes a file: to PATH.part.ID, readable by the user only, verified by
// its hash on the host, given mode and owner, then renamed over PATH. It goes
// over SFTP, and through cat where there is no SFTP. A small file is the input
// of the one command that does all of it. A transfer that failed is never
// resumed, since a part's length proves nothing (pkg/sftp#472), and its part
// file is removed as far as the host can be reached. The part file of a worker
// that was killed is removed by the next Put with a newer fence to PATH, also
// by one that fails; by one of another queue after a day: see sweepScript.
// Without a fence it stays.
//
// Put.Size 0 means an empty file.
func (p *Pool) Put(ctx context.Context, h core.Host, put Put, data io.Reader) (Written, error) {
	r, err := p.resolve(h)
	if err != nil {
		return Written{}, err
	}
	if err := put.check(); err != nil {
		return Written{}, r.last().fail("put", "", true, mark(err, core.ErrInvalid))
	}
	u := p.upload(r, put)
	src := &source{r: data, sum: sha256.New(), ctx: ctx}
	if put.Size >= 0 {
		src.limit = put.Size + 1 // one more shows that the source is longer
	} else {
		src.limit = maxSize
	}
	w, err := u.send(ctx, src)
	if err != nil {
		u.cleanup()
	}
	return w, err
}

func (p *Pool) upload(r route, put Put) *upload {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	fence := put.Fence.partName(r.last().name)
	if len(path.Base(put.Path)) > 200 { // a name has at most 255 bytes: such a part stays if its worker is killed
		fence = ""
	}
	return &upload{p: p, r: r, put: put, part: put.Path + ".part." + fence + hex.EncodeToString(random[:])}
}

func (p *Put) check() error {
	if !path.IsAbs(p.Path) || strings.ContainsAny(p.Path, "\x00\n") || path.Clean(p.Path) != p.Path || p.Path == "/" {
		return fmt.Errorf("path %q: expected a clean absolute path", p.Path)
	}
	if p.Size < -1 || p.Size > maxSize {
		return fmt.Errorf("size %d: expected at most %d bytes, or -1 for an unknown size", p.Size, maxSize)
	}
	if p.Mode > 0o7777 {
		return fmt.Errorf("mode %o: expected at most 7777", p.Mode)
	}
	if strings.ContainsAny(p.Backup, "/\x00\n") {
		return fmt.Errorf("backup suffix %q: expected no slash", p.Backup)
	}
	if strings.ContainsAny(p.Validate, "\x00\r\n") {
		return fmt.Errorf("validate command %q: expected one line", p.Validate)
	}
	if strings.ContainsAny(p.Owner, "\x00\n ") || strings.HasPrefix(p.Owner, "-") {
		return fmt.Errorf("owner %q: expected user or user:group", p.Owner)
	}
	if p.SHA256 != "" {
		p.SHA256 = strings.ToLower(p.SHA256)
		if b, err := hex.DecodeString(p.SHA256); err != nil || len(b) != sha256.Size {
			return fmt.Errorf("sha256 %q: expected 64 hex digits", p.SHA256)
		}
	}
	return nil
}

// source hashes and counts what is read from the caller. Nobody waits for the reader of a command's
// input: a Read may return after the transfer.
type source struct {
	r     io.Reader
	ctx   context.Context //nolint:containedctx // of the Put: ends the transfer between reads; io.Reader passes none
	limit int64

	mu   sync.Mutex
	over bool // the transfer has ended: the rest no longer changes
	sum  hash.Hash
	n    int64
	err  error // of the caller's reader, as opposed to the network's
}

func (s *source) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	s.mu.Lock()
	left := s.limit - s.n
	s.mu.Unlock()
	if int64(len(b)) > left {
		if left == 0 {
			return 0, io.EOF
		}
		b = b[:left]
	}
	n, err := s.r.Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0, io.ErrClosedPipe
	}
	s.sum.Write(b[:n])
	s.n += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// end marks the end of the transfer.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (u *upload) fail(hint string, err error) *Error {
	return u.r.last().fail("put", hint, false, fmt.Errorf("%s: %w", u.put.Path, err))
}

// send moves the bytes and finishes on the host. A host that has no shell, or nothing to hash with,
// gets a small file as it gets another.
func (u *upload) send(ctx context.Context, src *source) (Written, error) {
	small, code, refused := u.put.Size >= 0 && u.put.Size <= smallPut, 0, error(nil)
	if small {
		data, err := io.ReadAll(src)
		w, err := u.sent(ctx, src, err)
		if err != nil {
			return Written{}, err
		}
		input := io.MultiReader(strings.NewReader(w.SHA256+"\n"), bytes.NewReader(data))
		code, refused = u.fenced(ctx, u.put.Fence, u.finishScript(finishing{receive: true, check: true}), input, nil)
		if code != exitNoTool && !errors.Is(refused, errNoShell) {
			return w, u.finished(ctx, w, true, code, refused)
		}
		src = &source{r: bytes.NewReader(data), sum: sha256.New(), ctx: ctx, limit: maxSize}
	}
	err := errNoSFTP // as another user: sshd's SFTP is the login's
	if u.put.Become.User == "" {
		err = u.bySFTP(ctx, src)
	}
	plain := errors.Is(err, errNoSFTP)
	if plain {
		err = u.byCat(ctx, src)
	}
	w, err := u.sent(ctx, src, err)
	if err != nil {
		return Written{}, err
	}
	if !small {
		code, refused = u.fenced(ctx, u.put.Fence, u.finishScript(finishing{check: true, early: u.verified}), strings.NewReader(w.SHA256+"\n"), nil)
	}
	return w, u.finished(ctx, w, plain, code, refused)
}

// sent ends the source, and returns what was read of it if that is what was meant.
func (u *upload) sent(ctx context.Context, src *source, err error) (Written, error) {
	src.end()
	switch {
	case src.err != nil:
		return Written{}, u.fail("", fmt.Errorf("reading the source: %w", src.err))
	case err != nil && ctx.Err() != nil:
		return Written{}, u.r.last().ended(ctx, "put", false)
	case err != nil:
		return Written{}, err
	}
	w := Written{Size: src.n, SHA256: hex.EncodeToString(src.sum.Sum(nil))}
	if u.put.Size >= 0 && w.Size != u.put.Size {
		return Written{}, u.fail("", mark(fmt.Errorf("source is %s %d bytes, expected exactly that many", moreOrLess(w.Size, u.put.Size), u.put.Size), core.ErrInvalid))
	}
	if u.put.SHA256 != "" && w.SHA256 != u.put.SHA256 {
		return Written{}, u.fail("the source is not the file that was meant; compare: sha256sum FILE", mark(fmt.Errorf("source has sha256 %s, expected %s", w.SHA256, u.put.SHA256), core.ErrInvalid))
	}
	return w, nil
}

func moreOrLess(got, want int64) string {
	if got > want {
		return "more than"
	}
	return fmt.Sprintf("%d bytes, less than", got)
}

// bySFTP writes the part file with concurrent writes.
func (u *upload) bySFTP(ctx context.Context, src *source) error {
	c, done, err := u.p.sftp(ctx, u.r)
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	f, err := c.OpenFile(u.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return u.fail("does the directory exist, and may the user write to it? See ls -ld on the host", err)
	}
	err = f.Chmod(0o600) // for a server that ignores the mode of a new file
	if err == nil {
		_, err = f.ReadFromWithConcurrency(src, 64)
	}
	early := func() {}
	if err == nil && src.n >= largePut { // all reads have returned
		early = u.sumEarly(ctx, hex.EncodeToString(src.sum.Sum(nil)))
	}
	if _, ok := c.HasExtension("fsync@openssh.com"); ok && err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	done() // its session may be the one that sumEarly waits for
	early()
	if err != nil {
		return u.transferError(err)
	}
	return nil
}

// largePut is the size from which the host computes the hash while its disk takes the file: both
// take about as long as the transfer, and for smaller files a further command would cost more.
const largePut = 8 << 20

// sumEarly begins the verification of the part file; the function that it returns waits for its
// end. A failure is left to finish, which knows what to report and what else to try.
func (u *upload) sumEarly(ctx context.Context, want string) (wait func()) {
	over := make(chan struct{})
	if !u.p.spawn(func() {
		defer close(over)
		_, err := u.script(ctx, earlySumScript(u.part), strings.NewReader(want+"\n"), nil)
		u.verified = err == nil
	}) {
		return func() {}
	}
	return func() { <-over }
}

func (u *upload) transferError(err error) *Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, sftp.ErrSSHFxConnectionLost) {
		return u.fail("", mark(fmt.Errorf("connection lost during the transfer: %w", err), core.ErrUnreachable))
	}
	return u.fail(shell.FullDiskHint, err)
}

// byCat writes the part file without SFTP.
func (u *upload) byCat(ctx context.Context, src *source) error {
	_, err := u.script(ctx, receiveScript(u.part), src, nil)
	return err
}

// script runs a script of ours and turns its failures into errors. The exit
// code is valid where err is nil or wraps errScript.
func (u *upload) script(ctx context.Context, text string, in io.Reader, out io.Writer) (int, error) {
	return u.fenced(ctx, Fence{}, text, in, out)
}

func (u *upload) fenced(ctx context.Context, fence Fence, text string, in io.Reader, out io.Writer) (int, error) {
	complaint := &core.Head{Most: 4 << 10}
	exit, err := u.p.run(ctx, u.r, Exec{Command: text, Fence: fence, Become: u.put.Become, Stdin: in, Stdout: out, Stderr: complaint})
	if err != nil || exit.Code == 0 {
		return 0, err
	}
	why := strings.TrimSpace(complaint.String())
	if why == "" {
		why = fmt.Sprintf("exit code %d", exit.Code)
	}
	hint := ""
	if shell.FullDisk(why) {
		hint = shell.FullDiskHint
	}
	return exit.Code, u.fail(hint, mark(errors.New(why), errScript))
}

var (
	errScript = errors.New("script failed")
	errNoSFTP = errors.New("no SFTP")
)

func (u *upload) finishScript(how finishing) string {
	return finishScript(u.part, u.r.last().name, u.put, how)
}

// finished returns the end of the command that verifies, adorns and renames the part file. Where
// the host cannot verify it, or the login runs no commands, that is done here.
func (u *upload) finished(ctx context.Context, w Written, plain bool, code int, err error) error {
	switch {
	case err == nil:
		return nil
	case code == exitMismatch:
		return u.mismatch("another file")
	case code == exitNoTool:
		if err := u.readBack(ctx, w.SHA256, plain); err != nil {
			return err
		}
		if code, err = u.fenced(ctx, u.put.Fence, u.finishScript(finishing{}), nil, nil); code == exitMismatch {
			return u.mismatch("another file")
		}
		return err
	case !plain && errors.Is(err, errNoShell):
		if err := u.readBack(ctx, w.SHA256, false); err != nil {
			return err
		}
		if u.put.Validate != "" {
			return u.fail("give the login a shell, or leave validate out", errors.New("the validate command needs a shell on the host: nothing was replaced"))
		}
		return u.finishSFTP(ctx)
	}
	return err
}

func (u *upload) mismatch(got string) *Error {
	return u.fail("a faulty disk, memory or a full file system on the host? See dmesg there; nothing was replaced",
		fmt.Errorf("verification failed: the host holds %s than was sent", got))
}

// readBack hashes the part file here, for hosts that cannot.
func (u *upload) readBack(ctx context.Context, want string, plain bool) error {
	sum := sha256.New()
	if plain {
		if _, err := u.script(ctx, "exec cat "+shell.Quote(u.part), nil, sum); err != nil {
			return err
		}
	} else {
		c, done, err := u.p.sftp(ctx, u.r)
		if err != nil {
			return err
		}
		defer done()
		f, err := c.Open(u.part)
		if err == nil {
			_, err = f.WriteTo(sum)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return u.transferError(err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return u.mismatch("sha256 " + got + " rather")
	}
	return nil
}

// cleanup removes the part file, also when the caller's context has ended.
func (u *upload) cleanup() {
	ctx, cancel := context.WithTimeout(u.p.ctx, cleanupTime)
	defer cancel()
	if _, err := u.script(ctx, removeScript(u.part, u.r.last().name, u.put), nil, nil); !errors.Is(err, errNoShell) || u.put.Become.User != "" {
		return
	}
	if c, done, err := u.p.sftp(ctx, u.r); err == nil {
		defer done()
		var now time.Time
		if part, err := c.Lstat(u.part); err == nil {
			now = part.ModTime()
		}
		_ = c.Remove(u.part)
		u.sweepSFTP(ctx, c, now)
	}
}
