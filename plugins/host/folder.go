package host

import (
	"fmt"
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
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
	f.path, f.lock = "", nil
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

// sweep removes folders of this user whose owner is dead. parent may be one where
// anybody writes: what is not a folder of ours, a symbolic link too, is left alone.
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
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}
