package definitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// checkouts are the folders of revisions, dir/COMMIT, for the files that playbooks send.
// They are read-only, and go when nobody uses them.
type checkouts struct {
	dir   string
	bytes int64 // of one checkout at most

	making sync.Mutex       // held while one is written: a second writer would take the first one's away
	sizes  map[string]int64 // bytes of those that trim has measured; guarded by making

	mu      sync.Mutex
	users   map[string]int
	checked map[string]bool // made or checked by this process
}

const (
	staging   = ".new-"
	leaving   = ".old-"
	maxLink   = 1024 // bytes of where a link points
	maxKept   = 100  // checkouts, however young
	maxTrees  = 8    // how many of the largest size are as large as all young ones may be together
	dirMode   = 0o555
	fileMode  = 0o444
	programs  = 0o555
	ownerOnly = 0o700
)

// Checkout is the folder of one revision while somebody uses it.
type Checkout struct {
	Dir     string
	release func()
}

// Release lets the folder go. Further calls do nothing.
func (c *Checkout) Release() { c.release() }

// open makes the folder ready, and forgets what a process that died left half done.
func (c *checkouts) open() error {
	if err := os.MkdirAll(c.dir, ownerOnly); err != nil {
		return fmt.Errorf("project: make the folder of checkouts: %w", err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), staging) || strings.HasPrefix(e.Name(), leaving) {
			if err := removeTree(filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// use holds a checkout. It is core.ErrNotFound when there is none of this commit.
func (c *checkouts) use(commit string) (*Checkout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := filepath.Join(c.dir, commit)
	if !hash().MatchString(commit) || !c.checked[commit] {
		return nil, fmt.Errorf("there is no checkout of %q: %w", yamlread.Clip(commit), core.ErrNotFound)
	}
	c.users[commit]++
	return &Checkout{Dir: dir, release: sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users[commit]--; c.users[commit] == 0 {
			delete(c.users, commit)
		}
	})}, nil
}

// adopt takes a checkout of the process before this one as good, though the mirror does not
// hold its commit any more.
func (c *checkouts) adopt(commit string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Lstat(filepath.Join(c.dir, commit)); err != nil || !info.IsDir() {
		return false
	}
	c.checked[commit] = true
	return true
}

// make writes the checkout of a commit, if it is not there, and gives its folder.
func (c *checkouts) make(ctx context.Context, t *gitTree) (string, error) {
	c.making.Lock()
	defer c.making.Unlock()
	dir := filepath.Join(c.dir, t.commit)
	c.mu.Lock()
	there := c.checked[t.commit]
	c.mu.Unlock()
	if there {
		now := time.Now()
		return dir, os.Chtimes(dir, now, now) // young again
	}
	entries, err := t.list(ctx)
	if err != nil {
		return "", err
	}
	if !complete(dir, entries) {
		if err := c.write(ctx, t, dir, entries); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[t.commit] = true
	return dir, nil
}

// leave notes that a commit is no longer the current one: the time for which its checkout is kept
// begins now, not when it was made.
func (c *checkouts) leave(commit string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(c.dir, commit), now, now) // one that is gone needs no time
}

// complete reports whether a folder holds every file in its size: a machine that lost power may
// have left others.
func complete(dir string, entries []entry) bool {
	for _, e := range entries {
		if e.kind == module {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(e.path)))
		if err != nil || info.Size() != e.size || (e.kind == link) != (info.Mode()&fs.ModeSymlink != 0) {
			return false
		}
	}
	_, err := os.Stat(dir)
	return err == nil
}

func (c *checkouts) write(ctx context.Context, t *gitTree, dir string, entries []entry) (err error) {
	var files, links []entry
	var size int64
	for _, e := range entries {
		switch e.kind {
		case regular, program:
			files = append(files, e)
		case link:
			if e.size > maxLink {
				return treeProblem(e.path, "the symbolic link is longer than %d bytes", maxLink)
			}
			links = append(links, e)
		case special:
			return treeProblem(e.path, "not a regular file")
		case module: // its files are not here: a playbook that sends one fails by name
		}
		if size += e.size; size > c.bytes {
			return treeProblem(e.path, "the tree is larger than %d MiB with all its files", c.bytes>>20)
		}
	}
	tmp, err := os.MkdirTemp(c.dir, staging)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(tmp))
		}
	}()
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := t.blobs(ctx, files, func(e entry, r io.Reader) error { return writeFile(root, e, r) }); err != nil {
		return err
	}
	if err := writeLinks(ctx, t, root, links); err != nil {
		return err
	}
	if err := readOnly(tmp); err != nil {
		return err
	}
	if err := removeTree(dir); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	return nil
}

func writeFile(root *os.Root, e entry, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(e.path), ownerOnly); err != nil {
		return fmt.Errorf("write %s: %w", e.path, err)
	}
	f, err := root.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", e.path, err)
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", e.path, err), f.Close())
	}
	mode := fs.FileMode(fileMode)
	if e.kind == program {
		mode = programs
	}
	return errors.Join(f.Chmod(mode), f.Close())
}

// writeLinks comes after all files, so that nothing is written through a link. Each must lead
// to something within the tree, whatever links are on the way: os.Root follows them so.
func writeLinks(ctx context.Context, t *gitTree, root *os.Root, links []entry) error {
	targets, err := t.read(ctx, links)
	if err != nil {
		return err
	}
	for i, e := range links {
		if err := root.MkdirAll(path.Dir(e.path), ownerOnly); err != nil {
			return fmt.Errorf("write %s: %w", e.path, err)
		}
		if err := root.Symlink(string(targets[i]), e.path); err != nil {
			return treeProblem(e.path, "the symbolic link cannot be made: %v", errors.Unwrap(err))
		}
	}
	for i, e := range links {
		if _, err := root.Stat(e.path); err != nil {
			return treeProblem(e.path, "the symbolic link to %q leads out of the tree, or nowhere", clean(yamlread.Clip(string(targets[i]))))
		}
	}
	return nil
}

// readOnly takes the right to write from folders; files were made without it.
func readOnly(dir string) error {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(p, dirMode) //nolint:gosec // for readers: the folder above is the owner's alone
	})
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	return nil
}

// removeTree removes a folder that may be read-only.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(p, ownerOnly) //nolint:gosec // a folder that is about to go
		}
		return nil // what cannot be read shows when it is removed
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("project: remove an old checkout: %w", err)
	}
	return nil
}

// trim removes checkouts that nobody uses and that are old: more than keep, and for longer
// than young not the current one; over maxKept or maxTrees, however young.
func (c *checkouts) trim(current string, keep int, young time.Duration) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	type folder struct {
		commit string
		at     time.Time
	}
	var all []folder
	for _, e := range entries {
		if info, err := e.Info(); err == nil && hash().MatchString(e.Name()) && e.Name() != current {
			all = append(all, folder{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b folder) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.commit, b.commit)) })
	c.making.Lock()
	defer c.making.Unlock()
	var size int64
	for i, f := range all {
		if i < keep || time.Since(f.at) < young && i < maxKept {
			if size += c.size(f.commit); i < keep || size <= maxTrees*c.bytes {
				continue
			}
		}
		if err := c.remove(f.commit); err != nil {
			return err
		}
	}
	return nil
}

// size returns the bytes of a checkout, which never change.
func (c *checkouts) size(commit string) int64 {
	known, ok := c.sizes[commit]
	if !ok {
		known = sizeOf(filepath.Join(c.dir, commit))
		c.sizes[commit] = known
	}
	return known
}

// remove takes a checkout away, unless somebody uses it.
func (c *checkouts) remove(commit string) error {
	c.mu.Lock()
	if c.users[commit] > 0 {
		c.mu.Unlock()
		return nil
	}
	delete(c.checked, commit)
	delete(c.sizes, commit)
	old := filepath.Join(c.dir, leaving+commit)
	err := os.Rename(filepath.Join(c.dir, commit), old)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	return removeTree(old)
}
