package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/securefile"
)

// Files in the lab's folder. The lock file stays: its lock shows whether a lab is up, also after a
// kill or a reboot.
const (
	lockFile       = "lock"
	socketFile     = "control.sock"
	inventoryFile  = "hosts.yaml"
	knownHostsFile = "known_hosts"
	keyFile        = "id_ed25519" // written by the fleet
	logFile        = "lab.log"    // stderr of a lab in the background
)

// maxSocketPath is the longest path of a Unix socket, on Linux.
const maxSocketPath = 107

// folder is where the lab keeps its files. Nobody else has a right to it.
type folder struct{ path string }

func openFolder() (*folder, error) {
	state, err := settings.StateDir()
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(state, "lab"))
	if err != nil {
		return nil, fmt.Errorf("folder of the lab: %w", err)
	}
	if len(filepath.Join(path, socketFile)) > maxSocketPath {
		return nil, console.Invalid("folder of the lab: %s: the path is too long for a Unix socket\nhint: set TURNUS_STATE to a shorter path", path)
	}
	if err := securefile.OwnFolder(path); err != nil {
		return nil, console.Invalid("folder of the lab: %w", err)
	}
	return &folder{path}, nil
}

// open opens the lock file.
func (f *folder) open() (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(f.path, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the lab: %w", err)
	}
	return lock, nil
}

// hold locks the folder for the life of a lab: the lock ends with the file, or with the process.
func (f *folder) hold() (*os.File, error) {
	lock, err := f.open()
	if err != nil {
		return nil, err
	}
	err = syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
	if err == nil {
		return lock, nil
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		err = f.refuse()
	}
	return nil, errors.Join(err, lock.Close())
}

// holder returns the process that has the lock; 0 for none. It does not lock, so that it does not
// disturb a lab that starts at this moment.
func (f *folder) holder() (int, error) {
	lock, err := f.open()
	if err != nil {
		return 0, err
	}
	held := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = errors.Join(syscall.FcntlFlock(lock.Fd(), syscall.F_GETLK, &held), lock.Close())
	switch {
	case err != nil:
		return 0, fmt.Errorf("lock the lab: %w", err)
	case held.Type == syscall.F_UNLCK:
		return 0, nil
	}
	return int(held.Pid), nil
}

// clean removes what a lab wrote. The caller has the lock.
func (f *folder) clean() error {
	var errs []error
	for _, name := range []string{socketFile, inventoryFile, knownHostsFile, keyFile} {
		if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the files of a lab: %w", err))
		}
	}
	return errors.Join(errs...)
}

// refuse is the error of a second lab.
func (f *folder) refuse() error {
	pid, err := f.holder()
	if err != nil {
		return err
	}
	return console.Invalid("start the lab: a lab is up (process %d)\nhint: turnus lab ls, or turnus lab down first", pid)
}

// spawn starts turnus lab up --foreground in a session of its own, and returns what it prints once
// its hosts are up.
func (f *folder) spawn(ctx context.Context, hosts int) (Lab, error) {
	pid, err := f.holder()
	switch {
	case err != nil:
		return Lab{}, err
	case pid != 0:
		return Lab{}, f.refuse()
	}
	self, err := os.Executable()
	if err != nil {
		return Lab{}, fmt.Errorf("find the program itself, to start the lab: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(f.path, logFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return Lab{}, fmt.Errorf("start the lab: %w", err)
	}
	defer func() { _ = log.Close() }()
	c := exec.Command(self, "lab", "up", "--foreground", "--hosts", strconv.Itoa(hosts), "-o", "json") //nolint:gosec,noctx // this program; it outlives the context
	c.Args[0] = os.Args[0]
	c.Dir, c.Stderr = f.path, log
	c.Env = append(os.Environ(), "TURNUS_STATE="+filepath.Dir(f.path))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		return Lab{}, fmt.Errorf("start the lab: %w", err)
	}
	if err := c.Start(); err != nil {
		return Lab{}, fmt.Errorf("start the lab: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() }) // fails only if it has ended
	var l Lab
	err = json.NewDecoder(out).Decode(&l)
	if stop() && err == nil {
		return l, errors.Join(out.Close(), c.Process.Release())
	}
	_ = c.Process.Kill() // fails only if it has ended
	_ = c.Wait()         // its log has the reason of its end
	if ctx.Err() != nil {
		return Lab{}, fmt.Errorf("start the lab: %w", ctx.Err())
	}
	said, _ := io.ReadAll(io.NewSectionReader(log, 0, 4<<10)) // the error is reported without it
	return Lab{}, fmt.Errorf("start the lab: %s", strings.TrimPrefix(strings.TrimSpace(string(said)), "error: "))
}
