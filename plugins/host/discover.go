package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

const (
	programFile  = "plugin"
	manifestFile = "manifest.json"

	// ScriptFile describes a script that is a plugin by way of the adapter; it is in place of a
	// program.
	ScriptFile = "plugin.yaml"

	currentFile = "current" // symbolic link, or text file, that chooses among versions
)

// discover reads the plugin folders, except what is under development. All errors come together,
// and with an error nothing is loaded: a plugin that is half there would fail in the middle of a
// run.
func discover(cfg Config, l launch) ([]Plugin, []*origin, error) {
	var found []Plugin
	var sources []*origin
	var errs []error
	for _, dir := range cfg.Dirs {
		marks := map[string]string{} // taken first: what is written meanwhile shows as a change
		if names, err := folders(dir); err == nil {
			for _, name := range names {
				marks[name] = newOrigin(name, dir, false).mark()
			}
		}
		some, err := loadLocked(dir, cfg.Dev, l)
		for _, p := range some {
			src := newOrigin(p.Name, dir, false)
			src.seen = marks[p.Name]
			sources = append(sources, src)
		}
		found, errs = append(found, some...), append(errs, err)
	}
	return found, sources, errors.Join(errs...)
}

// loadDir reads one plugin folder and holds it to lock, nil is none; except the plugins of those
// names.
func loadDir(dir string, but map[string]string, l launch, lock *Lock) ([]Plugin, error) {
	names, err := folders(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s: no such folder; expected one with %s\nhint: turnus plugins install PROGRAM --plugins %s makes it", core.ErrInvalid, dir, filepath.Join("NAME", "VERSION", programFile), dir)
		}
		return nil, fmt.Errorf("plugin folder: %w", err)
	}
	var found []Plugin
	var errs []error
	for _, name := range names {
		if _, left := but[name]; left {
			continue
		}
		p, err := loadFolder(filepath.Join(dir, name), name, l, lock)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, p)
	}
	return found, errors.Join(errs...)
}

// folders lists the folders within dir, those that start with a dot left out.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == currentFile {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func loadFolder(folder, name string, l launch, lock *Lock) (Plugin, error) {
	version, err := chooseVersion(folder)
	if err != nil {
		return Plugin{}, err
	}
	dir, err := filepath.Abs(filepath.Join(folder, version))
	if err != nil {
		return Plugin{}, fmt.Errorf("%s: %w", folder, err)
	}
	p := Plugin{Name: name, Version: version, Dir: dir}
	if p.Argv, err = argvOf(dir, l.adapter); err != nil {
		return Plugin{}, err
	}
	script := p.Argv[0] != filepath.Join(dir, programFile)
	if script {
		err = vetScript(dir)
	} else {
		p.SHA256, err = vet(dir, p.Argv[0])
	}
	if err != nil {
		return Plugin{}, err
	}
	if lock != nil { // before anything of it runs
		if p.Tree, err = Tree(dir); err == nil {
			err = lock.Check(filepath.Dir(folder), Lock{Plugins: []Locked{{Name: name, Version: version, Tree: p.Tree}}})
		}
		if err != nil {
			return Plugin{}, err
		}
	}
	path := filepath.Join(dir, manifestFile)
	p.Manifest, err = readManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		p.Manifest, err = describeAndKeep(p, path, l)
	}
	if err != nil {
		return Plugin{}, err
	}
	if p.Manifest.Name != name || p.Manifest.Version != version {
		return Plugin{}, fmt.Errorf("%w: %s: the manifest is of %s %s; expected it in a folder %s", core.ErrInvalid, dir,
			p.Manifest.Name, p.Manifest.Version, filepath.Join(p.Manifest.Name, p.Manifest.Version))
	}
	if script && lock == nil { // the program is the adapter: what must not change is the folder
		p.Tree, err = Tree(dir)
	}
	return p, err
}

// argvOf is how the plugin of a folder is started: by its program, or, for a script with its
// description, by the adapter.
func argvOf(dir string, adapter []string) ([]string, error) {
	program := filepath.Join(dir, programFile)
	if _, err := os.Lstat(program); !errors.Is(err, fs.ErrNotExist) {
		return []string{program}, nil
	}
	if _, err := os.Stat(filepath.Join(dir, ScriptFile)); err == nil && len(adapter) > 0 {
		return append(slices.Clone(adapter), dir), nil
	}
	return nil, fmt.Errorf("%w: %s holds neither a program named %s nor a %s", core.ErrInvalid, dir, programFile, ScriptFile)
}

func vetScript(dir string) error {
	if path := everybodys(dir); path != "" {
		return fmt.Errorf("%w: %s can be written to by everybody; take that right away: chmod o-w", core.ErrInvalid, path)
	}
	return nil
}

// chooseVersion never guesses: of several versions, a person has chosen one.
func chooseVersion(folder string) (string, error) {
	versions, err := folders(folder)
	if err != nil {
		return "", fmt.Errorf("plugin folder: %w", err)
	}
	current := filepath.Join(folder, currentFile)
	info, err := os.Lstat(current)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(current)
		if err != nil {
			return "", fmt.Errorf("plugin folder: %w", err)
		}
		return among(versions, filepath.Base(filepath.Clean(to)), current)
	case err == nil:
		raw, err := os.ReadFile(current)
		if err != nil {
			return "", fmt.Errorf("plugin folder: %w", err)
		}
		return among(versions, strings.TrimSpace(string(raw)), current)
	case len(versions) == 1:
		return versions[0], nil
	case len(versions) == 0:
		return "", fmt.Errorf("%w: %s holds no version; expected %s", core.ErrInvalid, folder, filepath.Join(folder, "VERSION", programFile))
	}
	return "", fmt.Errorf("%w: %s holds several versions (%s); choose one: ln -sfn %s %s",
		core.ErrInvalid, folder, strings.Join(versions, ", "), versions[len(versions)-1], current)
}

func among(versions []string, chosen, current string) (string, error) {
	if !slices.Contains(versions, chosen) {
		return "", fmt.Errorf("%w: %s chooses %q; there is: %s", core.ErrInvalid, current, chosen, strings.Join(versions, ", "))
	}
	return chosen, nil
}

// vet makes sure that the program can be run and that no stranger can exchange it, and hashes it.
func vet(dir, program string) (string, error) {
	for _, path := range []string{dir, program} {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("plugin: %w", err)
		}
		if info.Mode().Perm()&0o002 != 0 {
			return "", fmt.Errorf("%w: %s can be written to by everybody; take that right away: chmod o-w", core.ErrInvalid, path)
		}
		if path == program && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
			return "", fmt.Errorf("%w: %s is not an executable file; expected a program: chmod +x", core.ErrInvalid, path)
		}
	}
	f, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("plugin: %w", err)
	}
	defer func() { _ = f.Close() }()
	return sumFile(f)
}

// describeAndKeep asks the plugin for its manifest, and keeps the answer beside it where
// that folder can be written to and is not locked as it is.
func describeAndKeep(p Plugin, path string, l launch) (Manifest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	m, err := l.describe(ctx, p)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s has no %s, and asking it failed: %w", filepath.Dir(path), manifestFile, err)
	}
	if p.Tree != "" {
		return m, nil
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Manifest{}, fmt.Errorf("plugin %s: manifest: %w", p.Name, err)
	}
	temp := path + ".part"
	err = os.WriteFile(temp, append(raw, '\n'), 0o644) //nolint:gosec // public
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		l.log.Debug("manifest is not kept", "plugin", p.Name, "err", err)
		return m, nil
	}
	return readManifest(path)
}

// describe starts the plugin once, for its manifest.
func (l launch) describe(ctx context.Context, p Plugin) (Manifest, error) {
	process, err := l.start(ctx, &p)
	if err != nil {
		return Manifest{}, err
	}
	defer process.close()
	defer process.child.terminate(describeGrace)
	m, err := process.describe(ctx)
	if err != nil {
		return Manifest{}, err
	}
	return m, m.Validate()
}

// Describe starts a plugin once to ask for its manifest. The result is valid.
// The program of argv is named by an absolute path; dir is the plugin's folder, or empty for a
// program alone.
func Describe(ctx context.Context, argv []string, dir string, box *sandbox.Sandbox) (Manifest, error) {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return Manifest{}, fmt.Errorf("%w: plugin program %q: expected an absolute path", core.ErrInvalid, argv)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	root := &folder{}
	defer func() { _ = root.remove() }()
	return asks(root, nil, box).describe(ctx, Plugin{Name: filepath.Base(argv[0]), Argv: argv, Dir: dir})
}
