package fleet

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// gunzip is gzip -dc, of its standard input.
func gunzip(ctx context.Context, c *call, o options) int {
	if !o.has('d') || !o.has('c') {
		return c.misused("gzip -dc <FILE")
	}
	r, err := gzip.NewReader(ctxReader{ctx, c.in})
	if err != nil {
		return c.fail(1, "stdin: not in gzip format")
	}
	_, err = io.Copy(c.out, r) //nolint:gosec // what stores it is bounded
	if code := c.wrote(err, 0); err == nil || code != 0 {
		return code
	}
	return c.fail(1, "stdin: %v", err)
}

// untar is tar that lists or extracts.
func untar(ctx context.Context, c *call, o options) int {
	if o.has('x') == o.has('t') || !o.has('f') {
		return c.misused("tar -t|-x [-po] -f FILE")
	}
	in, err := c.open(o['f'])
	if err != nil {
		return c.fail(2, "%s: Cannot open: %s", o['f'], reason(err))
	}
	x := extraction{c: c, tar: tar.NewReader(ctxReader{ctx, in}), own: o.has('o') || c.sh.uid != 0}
	if c.sh.uid != 0 && !o.has('p') {
		x.umask = c.sh.umask
	}
	code := 0
	for {
		h, err := x.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return max(code, x.finish())
		case err != nil:
			c.fail(2, "This does not look like a whole tar archive: %v", err)
			return c.fail(2, "Error is not recoverable: exiting now")
		case o.has('t'):
			c.print(strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(h.Name) + "\n")
		default:
			if err := x.entry(h); err != nil {
				code = c.fail(2, "%s: %s", h.Name, reason(err))
			}
		}
	}
}

// extraction puts the entries of an archive into the working directory.
type extraction struct {
	c     *call
	tar   *tar.Reader
	own   bool // files belong to the user who extracts them
	umask fs.FileMode
	links []*tar.Header // symbolic ones come last: no entry goes through one
}

// Refusals of entries that reach out of the folder, or that ask for more than a host has.
var (
	errDots   = errors.New("Member name contains '..', skipping")        //nolint:staticcheck // tar's words
	errSparse = errors.New("Sparse files are not simulated, skipping")   //nolint:staticcheck // as tar's
	errFull   = errors.New("Cannot write: " + reason(syscall.ENOSPC))    //nolint:staticcheck // tar's words
	errType   = errors.New("Cannot extract: unknown type of the member") //nolint:staticcheck // as tar's
)

func (x *extraction) entry(h *tar.Header) error {
	m, p := x.c.fs(), x.at(h.Name)
	switch {
	case dots(h.Name):
		return errDots
	case len(h.Name)+len(h.Linkname) > maxTarget:
		return syscall.ENAMETOOLONG
	}
	if err := m.mkdir(path.Dir(p), true, 0o777, x.c.sh.actor()); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := m.mkdir(p, true, 0o777, x.c.sh.actor()); err != nil {
			return err
		}
		return x.attributes(p, h)
	case tar.TypeSymlink:
		if len(x.links) >= maxHostFiles {
			return errFull
		}
		x.links = append(x.links, h)
		return nil
	case tar.TypeLink:
		if dots(h.Linkname) {
			return errDots
		}
		return errors.Join(x.clear(p), m.hardlink(x.at(h.Linkname), p))
	case tar.TypeReg:
		return x.file(p, h)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if _, err := m.create(p, true, true, 0o644, x.c.sh.actor()); err != nil {
			return err
		}
		return errors.Join(m.change(p, false, func(n *node) { n.odd = true }), x.attributes(p, h))
	}
	return errType
}

// at is the path of a name below the working directory. Callers have refused names with dots.
func (x *extraction) at(name string) string { return path.Join(x.c.sh.cwd, name) }

func dots(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }

// clear removes what an entry replaces.
func (x *extraction) clear(p string) error {
	if n, err := x.c.fs().lstat(p); err != nil || n.dir {
		return nil //nolint:nilerr // there is nothing, or making the entry fails
	}
	return x.c.fs().remove(p, false)
}

func (x *extraction) file(p string, h *tar.Header) error {
	m := x.c.fs()
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return errSparse
		}
	}
	if h.Size > m.room() {
		return errFull
	}
	if err := x.clear(p); err != nil {
		return err
	}
	f, err := m.create(p, true, true, 0o600, x.c.sh.actor())
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, x.tar); err != nil {
		return err
	}
	return x.attributes(p, h)
}

func (x *extraction) attributes(p string, h *tar.Header) error {
	return x.c.fs().change(p, false, func(n *node) {
		n.mode, n.mtime = fs.FileMode(h.Mode)&0o7777&^x.umask, h.ModTime
		if !x.own {
			n.uid, n.gid = uint32(h.Uid), uint32(h.Gid)
		}
	})
}

// finish makes the symbolic links.
func (x *extraction) finish() int {
	code := 0
	for _, h := range x.links {
		p := x.at(h.Name)
		if err := errors.Join(x.clear(p), x.c.fs().symlink(h.Linkname, p, x.c.sh.actor())); err != nil {
			code = x.c.fail(2, "%s: Cannot create symlink to '%s': %s", h.Name, h.Linkname, reason(err))
		}
	}
	return code
}

// room returns how many bytes the host can still store.
func (m *memFS) room() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maxHostBytes - m.bytes
}
