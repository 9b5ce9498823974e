package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/server"
)

// DataDir is the folder of what a service keeps, while this process holds it.
type DataDir struct {
	Path string
	lock *os.File
}

// OpenData makes the folder and holds it. Another process that holds it already is named.
func OpenData(path string) (*DataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := ownFolder(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	d := &DataDir{Path: path, lock: lock}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		who, _ := io.ReadAll(io.LimitReader(lock, 1000)) // the message can do without it
		return nil, errors.Join(console.Invalid("data folder %s: another process holds it: %s\nhint: stop that one, or give --data another folder", path, strings.TrimSpace(string(who))), lock.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data folder %s: lock: %w", path, err), lock.Close())
	}
	if err := d.ignore(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, d.sign("starting")
}

// ownFolder refuses a folder in which others could put another ledger in the place of this one's.
func ownFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return console.Invalid("data folder %s: others may write into it (mode %04o): they could put in what runs on the hosts, or who may ask\nhint: chmod 700 %s", path, mode, path)
	}
	return nil
}

// HeldSince is when the process that holds a data folder began to listen; held is false where none
// does.
func HeldSince(data string) (began time.Time, held bool, err error) {
	lock, err := os.Open(filepath.Join(data, "lock"))
	if errors.Is(err, os.ErrNotExist) {
		return began, false, nil
	}
	if err != nil {
		return began, false, fmt.Errorf("data folder: %w", err)
	}
	defer func() { _ = lock.Close() }()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return began, false, nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return began, false, fmt.Errorf("data folder %s: lock: %w", data, err)
	}
	info, err := lock.Stat()
	if err != nil {
		return began, true, fmt.Errorf("data folder: %w", err)
	}
	return info.ModTime(), true, nil
}

// ignore keeps a folder that is in a repository, as it does by default, out of its commits: it
// holds the admin token.
func (d *DataDir) ignore() error {
	f, err := os.OpenFile(filepath.Join(d.Path, ".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// sign writes which process holds the folder, for a second process that is refused.
func (d *DataDir) sign(what string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	text := fmt.Sprintf("process %d on %s, %s\n", os.Getpid(), host, what)
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err = d.lock.WriteAt([]byte(text), 0)
	return err
}

// Close lets the folder go. The lock's file stays: removed, two processes could each hold one of
// its name.
func (d *DataDir) Close() error {
	err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN) // a child between fork and exec also has the file open
	return errors.Join(err, d.lock.Close())
}

// OpenLedger opens what url names, or the data folder's own; large outputs are in the data folder's
// outputs unless another place is named.
func (d *DataDir) OpenLedger(ctx context.Context, url, outputs string, ring *keyring.Ring) (*ledger.Ledger, error) {
	if url == "" {
		url = "sqlite:" + filepath.Join(d.Path, "ledger.db")
	}
	if outputs == "" {
		outputs = filepath.Join(d.Path, "outputs")
	}
	bucket, err := ledger.OpenBucket(ctx, outputs)
	if err != nil {
		return nil, fmt.Errorf("--outputs: %w", err)
	}
	l, err := ledger.Open(ctx, url, ledger.Options{Bucket: bucket, Keyring: ring})
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return l, nil
}

// tokenFile holds the first admin token.
func (d *DataDir) tokenFile() string { return filepath.Join(d.Path, "admin.token") }

// firstToken makes the first admin token of a new ledger, and keeps it in the data folder. A file
// with the secret comes first: a process that is killed between the two leaves a token that the
// next start finds, not one that nobody knows.
//
// former is the file with the token of the folder's former ledger; "" without one.
func (d *DataDir) firstToken(ctx context.Context, l *ledger.Ledger, by string) (made bool, former string, err error) {
	file := d.tokenFile() + ".new"
	if secret, err := os.ReadFile(file); err == nil {
		_, err := l.Authenticate(ctx, strings.TrimSpace(string(secret)))
		if err == nil {
			former, err = d.keepToken(file)
			return true, former, err
		}
		if !errors.Is(err, core.ErrNotFound) {
			return false, "", fmt.Errorf("check whether the first token was made: %w", err)
		}
	}
	secret := ledger.NewSecret()
	if err := writeSynced(file, secret+"\n"); err != nil {
		return false, "", fmt.Errorf("keep the first token: %w", err)
	}
	_, err = l.AddToken(ctx, by, secret, ledger.Token{ID: "first", Name: "admin", AllTenants: true, Roles: []string{string(server.Admin)}})
	if errors.Is(err, core.ErrConflict) {
		return false, "", os.Remove(file)
	}
	if err != nil {
		return false, "", fmt.Errorf("make the first token: %w", err)
	}
	former, err = d.keepToken(file)
	return true, former, err
}

// keepToken gives the file its name. A token of another ledger is kept beside it: that ledger may
// come back.
func (d *DataDir) keepToken(file string) (former string, err error) {
	former = d.tokenFile() + ".old"
	if err = os.Rename(d.tokenFile(), former); errors.Is(err, os.ErrNotExist) {
		former, err = "", nil
	}
	if err == nil {
		err = os.Rename(file, d.tokenFile())
	}
	if err != nil {
		return "", fmt.Errorf("keep the first token: %w\nhint: it is in %s: give it by --token-file", err, file)
	}
	return former, nil
}

// usedBefore is the warning of an empty ledger in a folder that served another one.
func (d *DataDir) usedBefore(former string) string {
	return fmt.Sprintf("the ledger is empty, but the data folder %s was used with another ledger: runs, schedules and tokens of that one are not here. Its admin token is now in %s\n"+
		"hint: if it was lost, stop turnus, give it an empty ledger, and restore a backup: turnus admin restore WHERE", d.Path, former)
}

// writeSynced writes a file that only this user can read, to the disk.
func writeSynced(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
