package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// tree is where files come from: a folder, a commit, or documents.
type tree interface {
	// list gives every file, by path. Folders are not entries. Hidden files and what is
	// below hidden folders may be left out.
	list(ctx context.Context) ([]entry, error)
	// read gives the bytes of regular files, in the order asked for.
	read(ctx context.Context, files []entry) ([][]byte, error)
}

type kind int

const (
	regular kind = iota
	program      // a regular file that may be run
	link         // a symbolic link
	module       // a submodule
	special      // a device, socket or pipe
)

// entry is one file of a tree.
type entry struct {
	path string
	kind kind
	size int64
	blob string // of a commit
}

// bytes counts what MaxSize bounds of a file: its content, and its path as in the ledger's JSON.
func (e entry) bytes() int64 {
	name, _ := json.Marshal(e.path) // strings always marshal
	return e.size + int64(len(name)-len(`""`))
}

// checkPath reports why a tree must not have a path, or "".
func checkPath(p string) string {
	switch {
	case !fs.ValidPath(p) || p == ".":
		return "is no path below the root of the tree"
	case len(p) > maxPath:
		return fmt.Sprintf("is longer than %d bytes", maxPath)
	case strings.Count(p, "/") >= maxFolders:
		return fmt.Sprintf("lies more than %d folders deep", maxFolders)
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\ufffd' }):
		return "has characters that file names here may not have"
	}
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") {
			return "would be a repository's own folder"
		}
	}
	return ""
}

func treeProblem(p, format string, args ...any) error {
	return playbooks.Diagnostics{{File: quotePath(p), Message: fmt.Sprintf(format, args...)}}
}

// quotePath keeps a path from steering a terminal.
func quotePath(p string) string {
	if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(p) > maxPath {
		return fmt.Sprintf("%q", p[:min(len(p), 200)])
	}
	return p
}

func hidden(p string) bool { return strings.HasPrefix(p, ".") || strings.Contains(p, "/.") }

// folder is a tree on the disk. Nothing outside of it is read, wherever links point.
type folder struct {
	dir  string
	root *os.Root
}

func openFolder(_ context.Context, dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("project %s: %w: no such folder", dir, core.ErrInvalid)
		}
		return nil, fmt.Errorf("project: %w", err)
	}
	return &folder{dir, root}, nil
}

func (f *folder) close() { _ = f.root.Close() } // only read from

func (f *folder) list(ctx context.Context) ([]entry, error) {
	var out []entry
	err := fs.WalkDir(f.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("project %s: %w", f.dir, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case p == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if why := checkPath(p); why != "" {
			return treeProblem(p, "the file %s", why)
		}
		if d.IsDir() {
			return nil
		}
		if len(out) == MaxEntries {
			return treeProblem(f.dir, "the folder holds more than %d files", MaxEntries)
		}
		e := entry{path: p, kind: kindOf(d.Type())}
		if info, err := d.Info(); err == nil {
			e.size = info.Size()
			if e.kind == regular && info.Mode()&0o111 != 0 {
				e.kind = program
			}
		}
		out = append(out, e)
		return nil
	})
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return out, err
}

func kindOf(m fs.FileMode) kind {
	switch {
	case m.IsRegular():
		return regular
	case m&fs.ModeSymlink != 0:
		return link
	}
	return special
}

func (f *folder) read(ctx context.Context, files []entry) ([][]byte, error) {
	out := make([][]byte, 0, len(files))
	for _, e := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := f.readOne(e)
		if err != nil {
			return nil, fmt.Errorf("project %s: read %s: %w", f.dir, e.path, err)
		}
		out = append(out, data)
	}
	return out, nil
}

func (f *folder) readOne(e entry) ([]byte, error) {
	file, err := f.root.OpenFile(e.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not waiting for a pipe that took its place
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%w: no regular file", core.ErrInvalid))
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFileSize+1))
	if err == nil && len(data) > MaxFileSize { // it grew since it was listed
		err = fmt.Errorf("%w: larger than %d MiB", core.ErrInvalid, MaxFileSize>>20)
	}
	return data, err
}

// memory is documents as a tree.
type memory []Document

func (m memory) list(context.Context) ([]entry, error) {
	out := make([]entry, 0, len(m))
	for _, d := range m {
		if why := checkPath(d.Path); why != "" {
			return nil, treeProblem(d.Path, "the file %s", why)
		}
		out = append(out, entry{path: d.Path, size: int64(len(d.Data))})
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	for i := 1; i < len(out); i++ {
		if out[i].path == out[i-1].path {
			return nil, treeProblem(out[i].path, "the file is there twice")
		}
	}
	return out, nil
}

func (m memory) read(_ context.Context, files []entry) ([][]byte, error) {
	at := make(map[string][]byte, len(m))
	for _, d := range m {
		at[d.Path] = d.Data
	}
	return core.Map(files, func(e entry) []byte { return at[e.path] }), nil
}

// under reports whether a path is root itself, or below it.
func under(p, root string) bool {
	return root == "." || p == root || strings.HasPrefix(p, root+"/")
}

func isYAML(p string) bool {
	ext := strings.ToLower(path.Ext(p))
	return ext == ".yaml" || ext == ".yml"
}
