package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// sftpClient is a client that can list a folder of any host: what comes is bounded.
type sftpClient struct {
	*sftp.Client
	in *meter
}

// maxList bounds the bytes of a folder's list, about 12000 files of OpenSSH's server.
const maxList = 2 << 20

// list returns the files in a folder: of a large one those that came first.
func (c *sftpClient) list(ctx context.Context, dir string) []os.FileInfo {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	c.in.bound(maxList, cancel)
	defer c.in.bound(0, nil)
	files, _ := c.ReadDirContext(ctx, dir)
	return files
}

var errPlanted = errors.New("is a link that another user may have planted: fetch the file itself")

// follow returns the path without links, which count as for sendScript. The login is taken for the
// owner of its home folder, because the protocol does not report it. Others may exchange what was
// checked, so that the caller compares the owner of the opened file.
func (c *sftpClient) follow(file string) (string, error) {
	if real, err := c.RealPath(file); err != nil || real == file {
		return file, err
	}
	home, err := c.Stat(".")
	if err != nil {
		return "", err
	}
	at, todo := "/", strings.Split(file, "/")
	for hops := 0; len(todo) > 0; {
		next := path.Join(at, todo[0])
		todo = todo[1:]
		link, err := c.Lstat(next)
		if err != nil {
			return "", err
		}
		if link.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := c.mayFollow(at, next, link, uid(home))
		if hops++; err == nil && hops > 40 {
			err = errors.New("too many links")
		}
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// mayFollow returns the target of a link in a folder, for the user me.
func (c *sftpClient) mayFollow(dir, name string, link os.FileInfo, me uint32) (string, error) {
	in, err := c.Lstat(dir)
	if err != nil {
		return "", err
	}
	own := func(of os.FileInfo) bool { return uid(of) == 0 || uid(of) == me }
	ours := own(in)
	switch mode := in.Mode(); {
	case mode.Perm()&0o002 != 0 && mode&os.ModeSticky == 0:
		ours = false
	case mode.Perm()&0o022 != 0:
		ours = ours && own(link)
	}
	if !ours {
		to, err := c.Stat(name)
		if err != nil {
			return "", err
		}
		if uid(in) == 0 || uid(to) != uid(in) {
			return "", errPlanted
		}
	}
	return c.ReadLink(name)
}

// uid returns the owner of a file of the host; 0 if its server does not report it.
func uid(of os.FileInfo) uint32 {
	if st, ok := of.Sys().(*sftp.FileStat); ok {
		return st.UID
	}
	return 0
}

// meter reads what the host sends, and calls over when that is more than the bound.
type meter struct {
	io.Reader

	mu   sync.Mutex
	left int
	over func() // nil: no bound
}

func (m *meter) bound(left int, over func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.over = left, over
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left -= n; m.left < 0 && m.over != nil {
		m.over()
	}
	return n, err
}

// private sends the packets of an SFTP client, and makes each new file one that only its owner can
// read. The client gives no mode, so that a server would make the file for everybody: a later chmod
// does not end the access of a user who has opened it.
type private struct {
	io.WriteCloser

	rest int // bytes of the packet that are still to come: a file's content
}

func (p *private) Write(b []byte) (int, error) {
	const kind, open, flags, create = 4, 3, 8, 1 << 3 // draft-ietf-secsh-filexfer-02, 6.3
	n := len(b)
	if p.rest == 0 && n > kind {
		p.rest = 4 + int(binary.BigEndian.Uint32(b))
		if p.rest == n && b[kind] == open && b[n-flags+3]&create != 0 {
			b = binary.BigEndian.AppendUint32(slices.Clone(b), 0o600)
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
			b[n-1] = 4 // the attributes are permissions
		}
	}
	p.rest -= n
	if m, err := p.WriteCloser.Write(b); err != nil {
		return min(m, n), err
	}
	return n, nil
}

// sftp opens an SFTP session, which ends with done or with ctx. Where the host
// has no SFTP the error wraps errNoSFTP.
func (p *Pool) sftp(ctx context.Context, r route) (_ *sftpClient, done func(), err error) {
	s, err := p.session(ctx, r, false)
	if err != nil {
		return nil, nil, err
	}
	if err := s.start(ctx, "subsystem", "sftp"); err != nil {
		s.end()
		switch {
		case ctx.Err() != nil:
			return nil, nil, r.last().ended(ctx, "session", true)
		case errors.Is(err, errStartRefused):
			return nil, nil, errNoSFTP
		}
		return nil, nil, s.broken("session")
	}
	stop := context.AfterFunc(ctx, func() { p.spawn(s.abort) })
	p.spawn(func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) })
	in := &meter{Reader: s.ch}
	c, err := sftp.NewClientPipe(in, &private{WriteCloser: s.ch}, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(64))
	if err != nil {
		stop()
		s.end()
		if ctx.Err() != nil {
			return nil, nil, r.last().ended(ctx, "session", true)
		}
		return nil, nil, fmt.Errorf("%w: %w", errNoSFTP, err) // its server is not installed
	}
	return &sftpClient{c, in}, func() {
		stop()
		_ = c.Close()
		s.end()
	}, nil
}

// finishSFTP is finishScript for logins that have SFTP and nothing else. Owners
// must be numbers there.
func (u *upload) finishSFTP(ctx context.Context) error {
	c, done, err := u.p.sftp(ctx, u.r)
	if err != nil {
		return err
	}
	defer done()
	part, err := c.Lstat(u.part)
	if err != nil {
		return u.fail("", err)
	}
	swept := make(chan struct{})
	if u.p.spawn(func() { defer close(swept); u.sweepSFTP(ctx, c, part.ModTime()) }) {
		defer func() { <-swept }()
	}
	if err := u.ownFolder(c, part); err != nil {
		return u.fail("chown, or chmod go-w, the folder; or give the login a shell", err)
	}
	old, err := c.Lstat(u.put.Path)
	switch {
	case err == nil && old.IsDir():
		return u.fail("", errors.New("is a directory"))
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return u.fail("", err)
	}
	if err := u.chownSFTP(c, part, old); err != nil {
		return u.fail("write the owner as a number, as owner: 1000: names need a shell on the host", err)
	}
	mode := os.FileMode(u.put.Mode&0o777) | special(u.put.Mode)
	switch {
	case u.put.Mode != 0:
	case old != nil && old.Mode().IsRegular():
		mode = old.Mode() & (os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky)
	default:
		mode = newMode
	}
	if err := c.Chmod(u.part, mode); err != nil {
		return u.fail("", fmt.Errorf("chmod: %w", err))
	}
	if u.put.Backup != "" && old != nil && old.Mode().IsRegular() {
		if err := copySFTP(c, u.put.Path, u.put.Path+u.put.Backup, old.Mode()); err != nil {
			return u.fail("", fmt.Errorf("backup: %w", err))
		}
	}
	if _, ok := c.HasExtension("posix-rename@openssh.com"); !ok {
		return u.fail("its SFTP server lacks posix-rename@openssh.com: use that of OpenSSH, by Subsystem in sshd_config", errors.New("the host cannot replace a file atomically"))
	}
	if err := c.PosixRename(u.part, u.put.Path); err != nil {
		return u.fail("", fmt.Errorf("rename: %w", err))
	}
	return nil
}

// sweepSFTP is sweepScript for such logins. now is of the host's clock, zero if unknown. Links that
// others put on the way lead to no other file: only a part file has such a name.
func (u *upload) sweepSFTP(ctx context.Context, c *sftpClient, now time.Time) {
	if u.put.Fence.Queue == "" {
		return
	}
	dir, name := path.Split(u.put.Path)
	for _, f := range c.list(ctx, dir) {
		id, is := strings.CutPrefix(f.Name(), name+".part.")
		if is && f.Mode().IsRegular() && u.put.Fence.sweeps(u.r.last().name, id, now.Sub(f.ModTime())) {
			_ = c.Remove(dir + f.Name())
		}
	}
}

// ownFolder refuses a folder in which other users can exchange files: SFTP sets owner and mode by
// name and follows links. In a sticky folder nobody can exchange the part file, only what it
// replaces.
func (u *upload) ownFolder(c *sftpClient, part os.FileInfo) error {
	dir, err := c.Stat(path.Dir(u.put.Path))
	if err != nil {
		return err
	}
	of, known := dir.Sys().(*sftp.FileStat)
	own, alsoKnown := part.Sys().(*sftp.FileStat)
	shared := dir.Mode().Perm()&0o022 != 0 && (dir.Mode()&os.ModeSticky == 0 || u.put.Backup != "")
	if !known || !alsoKnown || of.UID != 0 && of.UID != own.UID || shared {
		return errors.New("other users may write to its folder, and could put links in the place of its files")
	}
	return nil
}

func special(mode uint32) (m os.FileMode) {
	for bit, flag := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

func (u *upload) chownSFTP(c *sftpClient, part, old os.FileInfo) error {
	have, ok := part.Sys().(*sftp.FileStat)
	if !ok {
		return nil
	}
	uid, gid := have.UID, have.GID
	if u.put.Owner != "" {
		name, group, both := strings.Cut(u.put.Owner, ":")
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return fmt.Errorf("owner %q is not a number", name)
		}
		uid = uint32(n)
		if both {
			if n, err = strconv.ParseUint(group, 10, 32); err != nil {
				return fmt.Errorf("group %q is not a number", group)
			}
			gid = uint32(n)
		}
	} else if old != nil {
		if was, ok := old.Sys().(*sftp.FileStat); ok {
			uid, gid = was.UID, was.GID
		}
	}
	if uid == have.UID && gid == have.GID {
		return nil
	}
	return c.Chown(u.part, int(uid), int(gid))
}

func copySFTP(c *sftpClient, from, to string, mode os.FileMode) error {
	in, err := c.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	// Not through a link that somebody left under this name.
	if err := c.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := c.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	if err = out.Chmod(mode); err == nil {
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Close())
}
