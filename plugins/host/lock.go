package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// LockFile is in a plugin folder, beside the folders of its plugins.
const LockFile = "plugins.lock"

// Lock is a lockfile: what the plugins of a folder must be, byte for byte. A worker refuses what
// differs, and what is not named.
type Lock struct {
	Plugins []Locked `json:"plugins"` // in the order of names
}

// Locked is one plugin of a lockfile.
type Locked struct {
	Name    string `json:"name"`
	Version string `json:"version"` // the one in use
	Tree    string `json:"tree"`    // hash of all its files
}

// NewLock returns what the plugins of a folder are now. One without manifest.json is asked for it.
func NewLock(dir string, adapter []string, box *sandbox.Sandbox) (Lock, error) {
	lock := Lock{Plugins: []Locked{}}
	root := &folder{}
	defer func() { _ = root.remove() }()
	found, err := loadDir(dir, nil, asks(root, adapter, box), nil)
	if err != nil {
		return lock, err
	}
	for _, p := range found {
		tree, err := Tree(p.Dir)
		if err != nil {
			return lock, err
		}
		lock.Plugins = append(lock.Plugins, Locked{Name: p.Name, Version: p.Version, Tree: tree})
	}
	return lock, nil
}

// CheckLock compares a plugin folder with its lockfile, which must be there, and returns how many
// plugins it has. It starts none that differs.
func CheckLock(dir string, adapter []string, box *sandbox.Sandbox) (int, error) {
	lock, ok, err := ReadLock(dir)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s has no %s\nhint: turnus plugins lock writes it", core.ErrInvalid, dir, LockFile)
	}
	if err != nil {
		return 0, err
	}
	root := &folder{}
	defer func() { _ = root.remove() }()
	found, err := loadDir(dir, nil, asks(root, adapter, box), &lock)
	return len(found), err
}

// asks has the settings of plugins that are started only for their descriptions.
func asks(root *folder, adapter []string, box *sandbox.Sandbox) launch {
	return launch{root: root, reach: nowhere{}, log: slog.New(slog.DiscardHandler), adapter: adapter, sandbox: box}
}

// Write writes the lockfile of a folder, whole or not at all.
func (l Lock) Write(dir string) error {
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("lockfile: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	if err := os.WriteFile(path+".part", append(raw, '\n'), 0o644); err != nil { //nolint:gosec // public
		return fmt.Errorf("lockfile: %w", err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		return fmt.Errorf("lockfile: %w", err)
	}
	return nil
}

// ReadLock reads the lockfile of a folder; ok is false where there is none.
func ReadLock(dir string) (l Lock, ok bool, err error) {
	path := filepath.Join(dir, LockFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // a link to nothing is a lockfile that is lost, not none
		return l, false, nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxManifest {
		err = fmt.Errorf("over %d bytes", maxManifest)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err == nil {
		err = words.Unmarshal("lockfile", raw, &l)
	}
	if err != nil {
		return l, false, fmt.Errorf("%w: lockfile %s: %w", core.ErrInvalid, path, err)
	}
	return l, true, nil
}

// Check compares the lockfile with what is there, and reports every difference.
func (l Lock) Check(dir string, now Lock) error {
	locked := map[string]Locked{}
	for _, p := range l.Plugins {
		locked[p.Name] = p
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", core.ErrInvalid, filepath.Join(dir, LockFile), fmt.Sprintf(format, args...)))
	}
	for _, p := range now.Plugins {
		want, ok := locked[p.Name]
		switch {
		case !ok:
			bad("plugin %s %s (%s) is not named\nhint: turnus plugins lock names it, once you trust it", p.Name, p.Version, p.Tree)
		case want.Version != p.Version:
			bad("plugin %s: version %s is locked, %s is in use", p.Name, want.Version, p.Version)
		case want.Tree != p.Tree:
			bad("plugin %s %s: its files are not those that were locked\n  locked: %s\n  found:  %s", p.Name, p.Version, want.Tree, p.Tree)
		}
	}
	return errors.Join(errs...)
}

// loadLocked reads a plugin folder, except the plugins of those names, and holds it to its
// lockfile, if it has one. No plugin that differs is started.
func loadLocked(dir string, but map[string]string, l launch) ([]Plugin, error) {
	lock, err := lockOf(dir)
	if err != nil {
		return nil, err
	}
	return loadDir(dir, but, l, lock)
}

// lockOf is the lockfile of a plugin folder; nil where it has none.
func lockOf(dir string) (*Lock, error) {
	lock, ok, err := ReadLock(dir)
	if err != nil || !ok {
		return nil, err
	}
	return &lock, nil
}

// describeFolder asks the plugin of a folder for its manifest.
func describeFolder(ctx context.Context, dir string, adapter []string, box *sandbox.Sandbox) (Manifest, error) {
	argv, err := argvOf(dir, adapter)
	if err != nil {
		return Manifest{}, err
	}
	return Describe(ctx, argv, dir, box)
}
