package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
)

// retryBad is how long a version that could not be loaded is believed to be bad while its files
// stay as they are: the reason may have been the machine's.
const retryBad = 5 * time.Second

// origin is where a plugin comes from that may change while the supervisor runs. Its files are
// compared at the start of a call.
type origin struct {
	name string
	path string // the plugin folder that it is installed in; of one under development, its folder or program
	dev  bool

	turn chan struct{} // holds one while somebody compares and loads, who then has what follows
	seen string        // the files' mark when they were last loaded, or found to be bad
	tree string        // of dev: hash of the files that were loaded
	bad  error         // why they could not be
	at   time.Time     // when
}

func newOrigin(name, path string, dev bool) *origin {
	return &origin{name: name, path: path, dev: dev, turn: make(chan struct{}, 1)}
}

// mark identifies a state of the files, without reading them. An installed version changes by being
// installed: what is exchanged in place is refused when a process starts, by its hash.
func (src *origin) mark() string {
	if src.dev {
		return markTree(src.path)
	}
	version, err := chooseVersion(filepath.Join(src.path, src.name))
	if err != nil {
		return err.Error()
	}
	dir := filepath.Join(src.path, src.name, version)
	return strings.Join([]string{version, inode(dir), fact(filepath.Join(dir, manifestFile)), fact(filepath.Join(src.path, LockFile))}, "\n")
}

// inode is the identity of what is at path; "" if nothing is.
func inode(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Dev, st.Ino)
}

// fact identifies the state of a file, and changes when the file does; "" if there is none.
func fact(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(inode(path), info.Mode(), info.Size(), info.ModTime().UnixNano())
}

// markTree is the mark of all files that copyPlugin copies.
func markTree(root string) string {
	sum := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && slices.Contains(left, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() { // its entries are what counts
			fmt.Fprintf(sum, "%q\n", path)
			return nil
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintf(sum, "%q %v %d %d %s\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano(), inode(path))
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// refresh loads the plugin of src again if its files changed. A new installed version that cannot
// be loaded is logged, and the one that was loaded continues: it is still the one that the lockfile
// names. One under development is an error until it is mended.
func (s *Supervisor) refresh(ctx context.Context, src *origin) error {
	select {
	case src.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-src.turn }()
	if s.isStopped() {
		return nil
	}
	mark := src.mark() // before the files are read: what is written meanwhile shows as a change
	now := s.timing.now()
	if mark != src.seen || src.bad != nil && now.Sub(src.at) >= retryBad {
		before := src.bad
		ctx, cancel := s.untilStop(ctx)
		defer cancel()
		err := s.reload(ctx, src)
		if err != nil && ctx.Err() != nil { // nothing is known of the files
			return fmt.Errorf("%w: plugin %s: its files changed, and the wait for the new version was cut short", core.ErrUnavailable, src.name)
		}
		src.seen, src.bad, src.at = mark, err, now
		if err != nil && (before == nil || before.Error() != err.Error()) {
			s.launch.log.Error("plugin is not taken", "plugin", src.name, "folder", src.path, "err", err)
		}
	}
	if src.dev {
		return src.bad
	}
	return nil
}

func (s *Supervisor) isStopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// untilStop returns a context that also ends when the supervisor stops.
func (s *Supervisor) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// reload loads the plugin of src, and has calls that begin from now on go to it.
func (s *Supervisor) reload(ctx context.Context, src *origin) error {
	p, tree, err := s.read(ctx, src)
	if err != nil || src.dev && tree == src.tree {
		return err
	}
	if err := s.replace(src, p); err != nil {
		src.drop(&p)
		return err
	}
	src.tree = tree
	return nil
}

// read reads the plugin as it is now.
func (s *Supervisor) read(ctx context.Context, src *origin) (Plugin, string, error) {
	if src.dev {
		p, tree, err := src.develop(ctx, s.launch, s.cfg.Allow[src.name])
		if err == nil {
			if err = permit(&p, s.cfg); err != nil {
				src.drop(&p)
			}
		}
		return p, tree, err
	}
	lock, err := lockOf(src.path)
	if err != nil {
		return Plugin{}, "", err
	}
	p, err := loadFolder(filepath.Join(src.path, src.name), src.name, s.launch, lock)
	if err != nil {
		return p, "", err
	}
	return p, "", permit(&p, s.cfg)
}

// develop loads a plugin from the folder of its author, as if it were installed: what runs is a
// copy, so that calls end with the files with which they began. Errors name that folder.
func (src *origin) develop(ctx context.Context, l launch, allow Allow) (p Plugin, tree string, err error) {
	staged := ""
	fail := func(err error) (Plugin, string, error) {
		if ctx.Err() != nil {
			return Plugin{}, "", ctx.Err()
		}
		text := strings.TrimPrefix(err.Error(), core.ErrInvalid.Error()+": ")
		if staged != "" {
			text = strings.ReplaceAll(text, staged, src.path)
			_ = os.RemoveAll(filepath.Dir(staged))
		}
		return Plugin{}, "", fmt.Errorf("%w: plugin %s, under development in %s: %s", core.ErrInvalid, src.name, src.path, text)
	}
	if _, err := os.Stat(filepath.Join(src.path, "go.mod")); err == nil {
		if _, err := os.Stat(filepath.Join(src.path, programFile)); errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Errorf("it holds no program named %s yet\nhint: (cd %s && go build -o %s .)", programFile, src.path, programFile))
		}
	}
	if err := vetScript(src.path); err != nil {
		return fail(err)
	}
	root, err := l.root.open()
	if err != nil {
		return fail(err)
	}
	stage, err := os.MkdirTemp(root, "dev-")
	if err != nil {
		return fail(err)
	}
	staged = filepath.Join(stage, "new")
	if err := copyPlugin(src.path, staged, root); err != nil {
		return fail(err)
	}
	if tree, err = Tree(staged); err != nil {
		return fail(err)
	}
	if tree == src.tree { // only their times changed
		_ = os.RemoveAll(stage)
		return Plugin{}, tree, nil
	}
	p = Plugin{Name: src.name, Dir: staged, Allow: allow}
	if p.Argv, err = argvOf(staged, l.adapter); err != nil {
		return fail(err)
	}
	if p.Argv[0] == filepath.Join(staged, programFile) {
		if p.SHA256, err = vet(staged, p.Argv[0]); err != nil {
			return fail(err)
		}
	}
	asking, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if p.Manifest, err = l.describe(asking, p); err != nil {
		return fail(fmt.Errorf("asking it for its manifest failed: %w", err))
	}
	if p.Manifest.Name != src.name {
		return fail(fmt.Errorf("it calls itself %s\nhint: --plugin-dev %s=%s", p.Manifest.Name, p.Manifest.Name, src.path))
	}
	p.Version = p.Manifest.Version
	return p, tree, nil
}

// drop removes the copy from which a version under development ran.
func (src *origin) drop(p *Plugin) {
	if src != nil && src.dev && p.Dir != "" {
		_ = os.RemoveAll(filepath.Dir(p.Dir))
	}
}

// seek finds plugins that were installed since, and loads again what changed.
func (s *Supervisor) seek(ctx context.Context) error {
	s.mu.Lock()
	if s.stopped { // Stop waits for the origins that it saw
		s.mu.Unlock()
		return nil
	}
	known := map[string]bool{}
	for _, src := range s.sources {
		known[src.name] = true
	}
	for _, dir := range s.cfg.Dirs {
		names, _ := folders(dir) // of a folder that is gone there is nothing new
		for _, name := range names {
			if pluginName().MatchString(name) && !known[name] {
				known[name] = true
				s.sources = append(s.sources, newOrigin(name, dir, false))
			}
		}
	}
	all := slices.Clone(s.sources)
	s.mu.Unlock()
	return errors.Join(core.Map(all, func(src *origin) error { return s.refresh(ctx, src) })...)
}
