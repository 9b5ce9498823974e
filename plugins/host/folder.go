package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
)

const (
	folderPrefix  = "turnus-sock-"
	maxSocketPath = 103         // sun_path holds 104 to 108 bytes
	socketTail    = 30          // what is added to the folder's path: a process's folder, and a name of go-plugin
	strayAge      = time.Minute // a younger folder may be about to be locked by its owner
)

// folder is the private folder of the processes' folders. It is made when the first process
// starts, and locked as long as its owner lives, so that the next owner can clear away what one
// that was killed left behind. Safe for concurrent use.
type folder struct {
	parent string // "": the system's folder for temporary files

	mu   sync.Mutex
	path string
	lock *os.File

	copying sync.Mutex
	copies  map[string]string // of plugins' folders, by their hash; guarded by copying
}

// copyOf returns the copy of a plugin's folder, which only this user reads and nobody writes. It is
// made once and lasts as long as the folder. The plugin's own folder must have the hash that was
// loaded, each time.
func (f *folder) copyOf(p *Plugin) (string, error) {
	root, err := f.open()
	if err != nil {
		return "", err
	}
	f.copying.Lock()
	defer f.copying.Unlock()
	if dir, ok := f.copies[p.Tree]; ok {
		got, err := Tree(p.Dir)
		if err == nil {
			err = p.sameTree(got)
		}
		return dir, err
	}
	dir, err := os.MkdirTemp(root, "plugin-") // 0700
	if err != nil {
		return "", fmt.Errorf("copy of plugin %s: %w", p.Name, err)
	}
	got, err := hashTree(p.Dir, dir)
	if err == nil {
		err = p.sameTree(got)
	}
	if err == nil {
		err = chmodFolders(dir, 0o555)
	}
	if err != nil {
		return "", errors.Join(err, removeAll(dir))
	}
	if f.copies == nil {
		f.copies = map[string]string{}
	}
	f.copies[p.Tree] = dir
	return dir, nil
}

// chmodFolders sets the mode of a folder and those in it. Only the folder itself must be safe from
// others: a process that outlived its plugin may put a link in the place of one within.
func chmodFolders(dir string, mode fs.FileMode) error {
	if err := os.Chmod(dir, mode); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, mode)
		}
		return err
	})
}

// removeAll removes a folder, also with folders in it that nobody may write.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	_ = chmodFolders(path, 0o700)
	return os.RemoveAll(path)
}

// open returns the folder's path.
func (f *folder) open() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" {
		return f.path, nil
	}
	parent, err := socketParent(f.parent)
	if err != nil {
		return "", fmt.Errorf("folder for sockets: %w", err)
	}
	sweep(parent)
	path, err := os.MkdirTemp(parent, folderPrefix) // 0700
	if err != nil {
		return "", fmt.Errorf("folder for sockets: %w", err)
	}
	if len(path)+socketTail > maxSocketPath {
		_ = os.Remove(path)
		return "", fmt.Errorf("%w: folder for sockets %s: its path is too long for Unix sockets; expected at most %d bytes", core.ErrInvalid, path, maxSocketPath-socketTail)
	}
	// Without a lock, which a few file systems lack, the folder is good but may be swept.
	if f.lock, err = lockFolder(path); err != nil {
		f.lock = nil
	}
	f.path = path
	return path, nil
}

// remove takes the folder away. It may be called again, and before open.
func (f *folder) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return nil
	}
	err := removeAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
	f.path, f.lock = "", nil
	f.copying.Lock()
	f.copies = nil
	f.copying.Unlock()
	if err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	return nil
}

func socketParent(parent string) (string, error) {
	if parent != "" {
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return "", err
		}
		return filepath.Abs(parent)
	}
	if parent = os.TempDir(); len(parent) > maxSocketPath-socketTail-len(folderPrefix)-12 {
		return "/tmp", nil
	}
	return parent, nil
}

// lockFolder fails when another process holds the folder. The descriptor is not inherited.
func lockFolder(path string) (*os.File, error) {
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// sweep removes folders of this user whose owner has ended. parent may be one where anybody writes:
// things that are no folders of ours, also symbolic links, stay as they are.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) || time.Since(info.ModTime()) < strayAge {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		path := filepath.Join(parent, e.Name())
		if lock, err := lockFolder(path); err == nil {
			_ = removeAll(path)
			_ = lock.Close()
		}
	}
}
