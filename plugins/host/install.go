package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// Installing defines what to install, and where.
type Installing struct {
	Source  string           // a program, or a folder with one, or with a script and its plugin.yaml
	Dir     string           // plugin folder
	Adapter []string         // what serves a script
	Others  []Plugin         // built into workers: their names and job types are taken
	Force   bool             // replace the same version
	Use     bool             // choose the version, also if another is in use
	Sandbox *sandbox.Sandbox // in which it is asked for its manifest; nil: none
}

// Installed is the result of Install.
type Installed struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Path    string   `json:"path"`
	Tree    string   `json:"tree"`
	InUse   string   `json:"in_use"`  // the version that workers take
	Already bool     `json:"already"` // it was there, byte for byte
	Types   []string `json:"types"`
}

// Install copies a plugin to DIR/NAME/VERSION, as its manifest names it. It is there whole or not
// at all. The version in use changes only if it is the first, or if Use is set.
func Install(ctx context.Context, in Installing) (Installed, error) {
	var out Installed
	if err := os.MkdirAll(in.Dir, 0o755); err != nil { //nolint:gosec // programs that anybody may run, and nobody else write
		return out, fmt.Errorf("plugin folder: %w", err)
	}
	dir, err := filepath.Abs(in.Dir)
	if err != nil {
		return out, fmt.Errorf("plugin folder: %w", err)
	}
	stage, err := os.MkdirTemp(dir, ".install-") // discovery passes over dots
	if err != nil {
		return out, fmt.Errorf("plugin folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(stage) }()
	staged := filepath.Join(stage, "new")
	if err := copyPlugin(in.Source, staged, dir); err != nil {
		return out, err
	}
	m, err := describeFolder(ctx, staged, in.Adapter, in.Sandbox)
	if err != nil {
		return out, fmt.Errorf("%w: %s: asking it for its manifest failed: %w", core.ErrInvalid, in.Source, err)
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return out, fmt.Errorf("plugin %s: manifest: %w", m.Name, err)
	}
	if err := os.WriteFile(filepath.Join(staged, manifestFile), append(raw, '\n'), 0o644); err != nil { //nolint:gosec // public
		return out, fmt.Errorf("plugin %s: manifest: %w", m.Name, err)
	}
	home := filepath.Join(dir, m.Name)
	out = Installed{Name: m.Name, Version: m.Version, Path: filepath.Join(home, m.Version)}
	for _, t := range m.Types {
		out.Types = append(out.Types, t.Name)
	}
	if out.Tree, err = Tree(staged); err != nil {
		return out, err
	}
	if err := in.unique(m, dir); err != nil {
		return out, err
	}
	if err := in.place(&out, home, stage, staged); err != nil {
		return out, err
	}
	out.InUse, err = chooseVersion(home)
	return out, err
}

// unique refuses what another plugin in use is or has already: workers take all plugins or none.
func (in Installing) unique(m Manifest, dir string) error {
	others := slices.Clone(in.Others)
	names, err := folders(dir)
	if err != nil {
		return fmt.Errorf("plugin folder: %w", err)
	}
	for _, name := range names {
		home := filepath.Join(dir, name)
		version, err := chooseVersion(home)
		if name == m.Name || err != nil { // problems of another one are reported when it is loaded
			continue
		}
		if other, err := readManifest(filepath.Join(home, version, manifestFile)); err == nil {
			others = append(others, Plugin{Name: name, Version: version, Manifest: other})
		}
	}
	var errs []error
	for _, p := range others {
		if p.Name == m.Name {
			errs = append(errs, fmt.Errorf("%w: a plugin %s is built in: give yours another name", core.ErrConflict, p.Name))
		}
		for _, t := range m.Types {
			if slices.ContainsFunc(p.Manifest.Types, func(o Type) bool { return o.Name == t.Name }) {
				errs = append(errs, fmt.Errorf("%w: job type %s is that of plugin %s %s already; with both, workers take no plugin at all", core.ErrConflict, t.Name, p.Name, p.Version))
			}
		}
	}
	return errors.Join(errs...)
}

// place moves what is staged to where it belongs.
func (in Installing) place(out *Installed, home, stage, staged string) error {
	if there, err := Tree(out.Path); err == nil {
		out.Already = there == out.Tree
		if !out.Already && !in.Force {
			return fmt.Errorf("%w: %s is installed already, and is another\n  installed: %s\n  new:       %s\nhint: give the plugin a new version, or --force",
				core.ErrConflict, out.Path, there, out.Tree)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil { //nolint:gosec // as above
		return fmt.Errorf("plugin folder: %w", err)
	}
	if err := keepChoice(home, out.Version); err != nil {
		return err
	}
	if !out.Already {
		old := filepath.Join(stage, "old")
		if err := os.Rename(out.Path, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace %s: %w", out.Path, err)
		}
		if err := os.Rename(staged, out.Path); err != nil {
			return errors.Join(fmt.Errorf("install %s: %w", out.Path, err), os.Rename(old, out.Path))
		}
	}
	if in.Use {
		return choose(home, out.Version)
	}
	return nil
}

// keepChoice writes down the one version that is in use because it is alone, before a second comes.
func keepChoice(home, coming string) error {
	if _, err := os.Lstat(filepath.Join(home, currentFile)); err == nil {
		return nil
	}
	versions, err := folders(home)
	if err != nil || len(versions) != 1 || slices.Contains(versions, coming) {
		return err
	}
	return choose(home, versions[0])
}

// choose makes a version the one in use.
func choose(home, version string) error {
	part := filepath.Join(home, "."+currentFile)
	_ = os.Remove(part)
	if err := os.Symlink(version, part); err != nil {
		return fmt.Errorf("choose version %s: %w", version, err)
	}
	if err := os.Rename(part, filepath.Join(home, currentFile)); err != nil {
		return fmt.Errorf("choose version %s: %w", version, err)
	}
	return nil
}

// left are not copied: what version control and interpreters keep, and a manifest that is made
// again.
var left = []string{".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".venv", manifestFile, manifestFile + ".part"}

// copyPlugin copies a program or a folder, except the plugin folder that it may hold: the copy is
// made in there.
func copyPlugin(from, to, plugins string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("%w: plugin: %w", core.ErrInvalid, err)
	}
	installed, err := os.Stat(plugins)
	if err != nil {
		return fmt.Errorf("plugin folder: %w", err)
	}
	if os.SameFile(info, installed) {
		return fmt.Errorf("%w: %s is the plugin folder itself; expected the folder of one plugin", core.ErrInvalid, from)
	}
	if err := os.Mkdir(to, 0o755); err != nil { //nolint:gosec // as above
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if !info.IsDir() {
		if info.Mode().Perm()&0o111 == 0 || !info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is not an executable file; expected a program: chmod +x", core.ErrInvalid, from)
		}
		return copyFile(from, filepath.Join(to, programFile), 0o755)
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if slices.Contains(left, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			if os.SameFile(info, installed) {
				return fs.SkipDir
			}
		}
		return copyEntry(path, filepath.Join(to, rel), rel, d)
	})
}

func copyEntry(path, to, rel string, d fs.DirEntry) error {
	info, err := d.Info()
	switch {
	case err != nil:
		return err
	case rel == ".":
		return nil
	case d.IsDir():
		return os.Mkdir(to, 0o755) //nolint:gosec // as above
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is neither file, folder nor link", core.ErrInvalid, path)
	}
	mode := fs.FileMode(0o644)
	if info.Mode().Perm()&0o111 != 0 {
		mode = 0o755
	}
	return copyFile(path, to, mode)
}

func copyFile(from, to string, mode fs.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chmod(mode), dst.Close())
}
