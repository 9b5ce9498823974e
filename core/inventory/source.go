package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxFile   = 10 << 20 // bytes of one file, or of one executable's output
	maxFiles  = 20_000   // files read for one inventory
	maxNested = 8        // folders within folders
)

// disk is the machine's own files: any path, not only one below a root.
type disk struct{}

func (disk) Open(name string) (fs.File, error)          { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// local reports whether paths mean the machine's own files.
func (b *builder) local() bool {
	_, ok := b.tree.(disk)
	return ok
}

// source reads one path of any kind.
func (b *builder) source(ctx context.Context, path string, depth int) error {
	st, err := fs.Stat(b.tree, path)
	if err != nil {
		return unreadable(path, err)
	}
	if st.IsDir() {
		return b.folder(ctx, path, depth)
	}
	src := b.file(path)
	if b.isExecutable(path, st) {
		if !b.local() {
			src.problem(1, 1, "an inventory that is a program is not run here").Hint = "keep what it prints in a file"
			return nil
		}
		if err := src.execute(ctx, path); err != nil {
			return err
		}
		b.varsBeside(filepath.Dir(path))
		return nil
	}
	data, err := b.read(path)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(data, []byte("$ANSIBLE_VAULT;")) {
		src.warn(1, 1, "the file is encrypted with Ansible Vault, which is not supported; it is left out")
		return nil
	}
	isAnsible := true
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yml", ".yaml", ".json":
		isAnsible = src.yaml(data)
	default:
		src.ini(data)
	}
	if isAnsible {
		b.varsBeside(filepath.Dir(path))
	}
	return nil
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		hint := fmt.Sprintf("a list of names ends with a comma: -i %q", filepath.Base(path)+",")
		if near := nearFile(path); near != "" {
			hint = fmt.Sprintf("did you mean -i %s? %s", near, hint)
		}
		return fmt.Errorf("inventory %s: %w: no such file\nhint: %s", path, core.ErrInvalid, hint)
	}
	return fmt.Errorf("inventory %s: %w: %w", path, core.ErrInvalid, err)
}

// read reads a whole file within the bounds.
func (b *builder) read(path string) ([]byte, error) {
	if b.files++; b.files > maxFiles {
		return nil, fmt.Errorf("inventory %s: %w: more than %d files", path, core.ErrInvalid, maxFiles)
	}
	f, err := b.tree.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("inventory %s: %w: larger than %d MB", path, core.ErrInvalid, maxFile>>20)
	}
	return data, nil
}

// isExecutable reports whether a file is a program rather than a list: it may be run, and begins as
// programs do or has no ending of a list.
func (b *builder) isExecutable(path string, st fs.FileInfo) bool {
	if st.Mode()&0o111 == 0 {
		return false
	}
	head := make([]byte, 4)
	if f, err := b.tree.Open(path); err == nil {
		n, _ := io.ReadFull(f, head) // a shorter file is no program
		head = head[:n]
		_ = f.Close() // only read from
	}
	if bytes.HasPrefix(head, []byte("#!")) || bytes.Equal(head, []byte("\x7fELF")) {
		return true
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yml", ".yaml", ".json", ".ini", ".txt", "":
		return false
	}
	return true
}

// folder reads every source in a folder, by name. Files that Ansible skips are skipped.
func (b *builder) folder(ctx context.Context, dir string, depth int) error {
	if depth >= maxNested {
		return fmt.Errorf("inventory %s: %w: folders are nested too deeply", dir, core.ErrInvalid)
	}
	entries, err := fs.ReadDir(b.tree, dir) // sorted
	if err != nil {
		return unreadable(dir, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("load inventory: %w", err)
		}
		name := e.Name()
		if name == "group_vars" || name == "host_vars" || strings.HasPrefix(name, ".") || skippedEnding(name) {
			continue
		}
		if filepath.Ext(name) == ".ini" {
			b.warn(place{filepath.Join(dir, name), 1, 1}, "skipped, as Ansible does with .ini files in a folder; name the file itself, or rename it")
			continue
		}
		if err := b.source(ctx, filepath.Join(dir, name), depth+1); err != nil {
			return err
		}
	}
	b.varsBeside(dir)
	return nil
}

func skippedEnding(name string) bool {
	return strings.HasSuffix(name, "~") ||
		slices.Contains([]string{".orig", ".bak", ".cfg", ".retry", ".pyc", ".pyo", ".swp", ".rpm", ".md", ".rst"}, filepath.Ext(name))
}

// varsBeside remembers a folder whose group_vars and host_vars are read when all
// groups and hosts are known.
func (b *builder) varsBeside(dir string) {
	if !slices.Contains(b.varDirs, dir) {
		b.varDirs = append(b.varDirs, dir)
	}
}

// varFiles reads group_vars and host_vars of a folder.
func (b *builder) varFiles(dir string) error {
	for _, kind := range []string{"group_vars", "host_vars"} {
		root := filepath.Join(dir, kind)
		entries, err := fs.ReadDir(b.tree, root)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return unreadable(root, err)
		}
		slices.SortStableFunc(entries, func(x, y fs.DirEntry) int { return dirsFirst(x) - dirsFirst(y) })
		for _, e := range entries {
			if err := b.varEntry(kind, root, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func dirsFirst(e fs.DirEntry) int {
	if e.IsDir() {
		return 0
	}
	return 1
}

// varEntry reads NAME, NAME.yml, NAME.yaml, NAME.json, or everything in NAME/.
func (b *builder) varEntry(kind, root string, e fs.DirEntry) error {
	name, path := e.Name(), filepath.Join(root, e.Name())
	if strings.HasPrefix(name, ".") || skippedEnding(name) {
		return nil
	}
	var paths []string
	st, err := fs.Stat(b.tree, path)
	if err != nil {
		return unreadable(path, err)
	}
	if st.IsDir() {
		err := fs.WalkDir(b.tree, path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			hidden := strings.HasPrefix(d.Name(), ".") || skippedEnding(d.Name())
			if d.IsDir() && hidden {
				return fs.SkipDir
			}
			if !d.IsDir() && !hidden && varExt(d.Name()) {
				paths = append(paths, p)
			}
			return nil
		})
		if err != nil {
			return unreadable(path, err)
		}
	} else if varExt(name) {
		paths = []string{path}
		if ext := filepath.Ext(name); ext == ".yml" || ext == ".yaml" || ext == ".json" {
			name = strings.TrimSuffix(name, ext)
		}
	} else if b.groups[name] != nil || b.hosts[name] != nil {
		paths = []string{path} // a name with dots, without an ending
	}
	for _, p := range paths {
		if err := b.varFile(kind, name, p); err != nil {
			return err
		}
	}
	return nil
}

func varExt(name string) bool {
	return slices.Contains([]string{".yml", ".yaml", ".json", ""}, filepath.Ext(name))
}

// varFile reads one file of vars for a group or host; one that nobody knows is
// left out, as with Ansible.
func (b *builder) varFile(kind, name, path string) error {
	var into *settings
	var g *group
	if kind == "group_vars" {
		g = b.groups[name]
		if g == nil && name == "all" {
			g = b.group(name, place{path, 1, 1})
		}
		if g == nil {
			return nil
		}
		into = &g.files
	} else {
		e := b.hosts[name]
		if e == nil {
			return nil
		}
		into = &e.files
	}
	data, err := b.read(path)
	if err != nil {
		return err
	}
	src := b.file(path)
	if bytes.HasPrefix(data, []byte("$ANSIBLE_VAULT;")) {
		src.warn(1, 1, "the file is encrypted with Ansible Vault, which is not supported; its vars are left out")
		return nil
	}
	if root := src.parseYAML(data); root != nil {
		src.ansibleVars(root, into, g)
	}
	return nil
}

// nearFile returns the file beside a path that the path most likely meant; "" if there is none.
func nearFile(path string) string {
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.TrimSuffix(name, filepath.Ext(name)) == filepath.Base(path) {
			return filepath.Join(filepath.Dir(path), name)
		}
		names = append(names, name)
	}
	if near := yamlread.Nearest(filepath.Base(path), names); near != "" {
		return filepath.Join(filepath.Dir(path), near)
	}
	return ""
}
