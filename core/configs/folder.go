package configs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
)

const (
	lockName  = "turnus.lock"  // its lock is the right to write; it also shows that the folder is ours
	readyName = "turnus.ready" // git init came to its end
)

// exists reports whether there is a repository.
func (r *Repo) exists() (bool, error) { return r.has(readyName) }

func (r *Repo) has(name string) (bool, error) {
	_, err := os.Stat(filepath.Join(r.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock makes the folder ours, waits until nobody else writes, and clears away what a writer that
// was killed left in the way. The lock ends when the file is closed here and in every git it was
// given to.
func (r *Repo) lock(ctx context.Context) (_ *os.File, err error) {
	ours, err := r.has(lockName)
	if err != nil {
		return nil, fmt.Errorf("repository of configurations: %w", err)
	}
	if !ours {
		if err := r.claim(); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(r.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("repository of configurations: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := flock(ctx, f); err != nil {
		return nil, fmt.Errorf("repository of configurations %s: waiting for its lock: %w", r.dir, err)
	}
	r.tidy()
	if ready, err := r.exists(); ready || err != nil {
		return f, err
	}
	// init may be repeated over what an init that was killed left.
	if _, err := r.git.text(ctx, f, 1<<10, "init", "--bare", "--quiet", "--shared=0600", "--object-format=sha1", "--initial-branch=main"); err != nil {
		return f, err
	}
	return f, os.WriteFile(filepath.Join(r.dir, readyName), nil, 0o600)
}

// claim makes the folder, and refuses one that holds what is not ours.
func (r *Repo) claim() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("repository of configurations: %w", err)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("repository of configurations: %w", err)
	}
	if len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == lockName }) { // another process was first
		return nil
	}
	return fmt.Errorf("%w repository of configurations %s: the folder holds %s and was not made by Turnus; expected a new or an empty folder", core.ErrInvalid, r.dir, entries[0].Name())
}

// flock waits for the lock: another process holds it for the time of a commit.
func flock(ctx context.Context, f *os.File) error {
	pause := 5 * time.Millisecond
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		pause = min(2*pause, 200*time.Millisecond)
		t.Reset(pause)
	}
}

// tidy removes locks and unfinished files of a git that was killed. The holder of our lock is the
// only writer.
func (r *Repo) tidy() {
	for _, dir := range []string{"", "refs/heads", "objects/pack"} {
		entries, err := os.ReadDir(filepath.Join(r.dir, dir))
		if err != nil {
			continue // there is nothing yet
		}
		for _, e := range entries {
			name := e.Name()
			left := strings.HasSuffix(name, ".lock") && name != lockName || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, "fast_import_crash_") || name == "gc.pid"
			if left && e.Type().IsRegular() {
				_ = os.Remove(filepath.Join(r.dir, dir, name)) // if it stays, git reports it
			}
		}
	}
}
