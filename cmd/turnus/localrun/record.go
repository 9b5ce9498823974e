package localrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/securefile"
)

// Bounds of what the record keeps: runs that are older, and those behind so many runs or so many
// hosts of newer runs, go.
const (
	keepFor   = 180 * 24 * time.Hour
	keepRuns  = 1000 // at most ledger.MaxPage
	keepHosts = 200_000
	pruneFor  = time.Second // at the end of a command; the rest goes at the end of the next one
	pruneRows = 2000        // of one transaction
)

// Record is the ledger of a user's runs. Any number of processes may have it open.
type Record struct {
	Ledger *ledger.Ledger
	folder string      // "" of one in memory
	broken chan error  // gets the first error of the storage
	failed atomic.Bool // there was one
	closed bool

	mu    sync.Mutex
	held  map[string]*os.File // by run
	still func()              // ends the beat; nil: there is none
}

// recordFolder is where the record is kept.
func recordFolder() (string, error) {
	dir, err := settings.StateDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	return filepath.Join(dir, "record"), err
}

func ledgerFile(folder string) string { return filepath.Join(folder, "ledger.db") }

// memoryRecord is one that ends with the process.
func memoryRecord(ctx context.Context) (*Record, error) {
	l, err := ledger.Open(ctx, ledger.Memory, ledger.Options{Private: true})
	return &Record{Ledger: l}, err
}

// OpenRecord opens the record of this user's runs, and makes one if there is none. It ends the runs
// in it whose process has died. A record that may be another user's is refused as invalid input.
func OpenRecord(ctx context.Context, con *console.Console) (*Record, error) {
	return named(openRecord(ctx, con, false))
}

func named(r *Record, err error) (*Record, error) {
	if _, refused := errors.AsType[*console.Exit](err); err != nil && !refused {
		err = fmt.Errorf("the record of runs: %w", err)
	}
	return r, err
}

func openRecord(ctx context.Context, con *console.Console, reading bool) (_ *Record, err error) {
	folder, err := recordFolder()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{folder, filepath.Join(folder, runningFolder)} {
		if err := ownRecord(securefile.OwnFolder(dir)); err != nil {
			return nil, err
		}
	}
	if err := ownRecord(securefile.OwnFile(ledgerFile(folder))); err != nil {
		return nil, err
	}
	r := &Record{folder: folder, broken: make(chan error, 1), held: map[string]*os.File{}}
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	r.Ledger, err = ledger.Open(ctx, "sqlite:"+ledgerFile(folder), ledger.Options{Private: true, Broken: r.breaks})
	if errors.Is(err, core.ErrInvalid) {
		return nil, &console.Exit{Code: console.ExitInvalid, Err: fmt.Errorf("%w\nhint: --no-record runs without it; TURNUS_STATE names another folder for it", err)}
	}
	if err != nil {
		return nil, err
	}
	err = errors.Join(r.importHandlers(ctx, con, filepath.Dir(folder)), r.endInterrupted(ctx))
	if err != nil && (!reading || !r.failed.Load()) { // a full disk can be read
		return nil, errors.Join(err, r.Ledger.Close())
	}
	return r, nil
}

// ownRecord makes a refusal of the record's folder or file one of usage, which names the way out.
func ownRecord(err error) error {
	if _, mode := errors.AsType[*securefile.ModeError](err); mode || errors.Is(err, securefile.ErrForeign) {
		return console.Invalid("the record of runs: %w\nhint: --no-record runs without it; TURNUS_STATE names another folder for it", err)
	}
	return err
}

// ReadRecord is OpenRecord for readers only: nil if nothing was recorded yet.
func ReadRecord(ctx context.Context, con *console.Console) (*Record, error) {
	folder, err := recordFolder()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(ledgerFile(folder)); errors.Is(err, fs.ErrNotExist) {
		old, _ := filepath.Glob(filepath.Join(filepath.Dir(folder), oldHandlers, "*.json")) // the pattern is well formed
		if len(old) == 0 {
			return nil, nil //nolint:nilnil // there is none
		}
	}
	return named(openRecord(ctx, con, true))
}

// Client returns a client of the API over the record, or over an empty one where nothing was
// recorded yet; found reports which. close ends both.
func Client(ctx context.Context, con *console.Console) (_ *client.Client, found bool, end func(), err error) {
	r, err := ReadRecord(ctx, con)
	if found = r != nil; !found && err == nil {
		r, err = memoryRecord(ctx)
	}
	if err != nil {
		return nil, false, nil, err
	}
	c, stop, err := service.InProcess(r.Ledger, whoami())
	if err != nil {
		return nil, false, nil, errors.Join(err, r.Close(ctx))
	}
	return c, found, func() { stop(); _ = r.Close(ctx) }, nil // nothing was written that could be lost
}

// breaks notes the first error of the storage.
func (r *Record) breaks(err error) {
	if r.failed.CompareAndSwap(false, true) {
		r.broken <- err
	}
}

// Close ends what was driven here and is not over, and prunes. A second call does nothing.
func (r *Record) Close(ctx context.Context) error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.folder == "" {
		return r.Ledger.Close()
	}
	ctx = context.WithoutCancel(ctx)
	if r.failed.Load() { // it was reported; the next command that can write removes the files of its runs
		return errors.Join(r.Ledger.Close(), r.letGo())
	}
	var errs []error
	unlock, err := r.lock()
	if err != nil {
		return errors.Join(err, r.Ledger.Close())
	}
	defer unlock()
	ran := len(r.held) > 0
	for id := range r.held {
		errs = append(errs, os.Remove(r.runFile(id)))
	}
	errs = append(errs, r.letGo())
	if ran {
		errs = append(errs, r.endInterrupted(ctx), r.prune(ctx))
	}
	return errors.Join(append(errs, r.Ledger.Close())...)
}

func (r *Record) letGo() (err error) {
	if r.still != nil {
		r.still()
	}
	for _, f := range r.held {
		err = errors.Join(err, f.Close())
	}
	return err
}

// runningFolder holds a file for each run that a process drives, which it has locked: the lock ends
// with the process, however that ends.
const runningFolder = "running"

func (r *Record) runFile(run string) string {
	return filepath.Join(r.folder, runningFolder, fmt.Sprintf("%x", run))
}

// hold shows other processes that this one drives a run, until it ends. Call it before the run is
// accepted.
func (r *Record) hold(run string) error {
	if r.folder == "" {
		return nil
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	f, err := lockFile(r.runFile(run), syscall.LOCK_EX)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(beats); err != nil {
		return errors.Join(err, f.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[run] = f
	if r.still == nil {
		r.still = r.beat()
	}
	return nil
}

// The time of a run's file is a heartbeat: after a kill it shows until when jobs may have begun.
const (
	beats     = "beats\n"       // in a file whose time is one; older versions wrote nothing
	beatEvery = 5 * time.Second // between beats
	beatLate  = time.Minute     // how long after its last beat a process may have lived
)

// beat sets the time of the held files, until still is called.
func (r *Record) beat() (still func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				r.touch(now)
			case <-quit:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-ended })
}

func (r *Record) touch(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.held {
		_ = os.Chtimes(r.runFile(id), now, now) // a disk that refuses this has broken the record, which is reported
	}
}

// driven reports whether a process that lives drives a run, and else until when one may have lived.
func (r *Record) driven(run string) (lives bool, until time.Time, err error) {
	path, now := r.runFile(run), time.Now()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, now, nil
	}
	if err != nil {
		return false, now, err
	}
	f, err := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, now, nil
	}
	if err != nil {
		return false, now, err
	}
	if until = info.ModTime().Add(beatLate); info.Size() == 0 || until.After(now) {
		until = now
	}
	return false, until, f.Close()
}

// dead returns the files of processes that died. The caller has the lock.
func (r *Record) dead() (paths []string, err error) {
	files, err := os.ReadDir(filepath.Join(r.folder, runningFolder))
	for _, file := range files {
		path := filepath.Join(r.folder, runningFolder, file.Name())
		f, failed := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(failed, syscall.EWOULDBLOCK) { // its process lives
			continue
		}
		if failed == nil {
			paths, failed = append(paths, path), f.Close()
		}
		err = errors.Join(err, failed)
	}
	return paths, err
}

// lock keeps other processes from opening the record, and from beginning or ending runs, meanwhile.
func (r *Record) lock() (unlock func(), err error) {
	f, err := lockFile(filepath.Join(r.folder, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

const (
	interrupted = "interrupted: turnus run ended, or could not write this record any more, before the run did"
	// sharedName begins the name of a controller whose queue other processes work on.
	sharedName = "run-shared-"
	ownName    = "run-"
)

// controllerName is another one in each process.
func controllerName(shared bool) string {
	if shared {
		return sharedName + rand.Text()
	}
	return ownName + rand.Text()
}

// endInterrupted ends the runs whose process has died. The caller has the lock.
func (r *Record) endInterrupted(ctx context.Context) error {
	dead, err := r.dead() // before the runs are read: a process that dies meanwhile keeps its file
	if err != nil {
		return err
	}
	var ctl *controller.Controller
	for run, err := range ledger.Each(ctx, ledger.DefaultPage, r.Ledger.Unfinished) {
		if err != nil {
			return err
		}
		lives, until, err := r.driven(run.ID)
		if err != nil {
			return err
		}
		if lives {
			continue
		}
		if ctl == nil {
			q := memory.New(memory.Options{})
			defer q.Shutdown()
			if ctl, err = controller.New(controller.Config{Name: controllerName(false), Ledger: r.Ledger, Queue: q, Board: q, Alone: true}); err != nil {
				return err
			}
		}
		shared := strings.HasPrefix(run.Incarnation, sharedName)
		if shared { // the others continue without it
			until = time.Now()
		}
		if err := ctl.EndInterrupted(ctx, run.ID, interrupted, shared, until); err != nil {
			return err
		}
	}
	for _, path := range dead {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// prune removes what is beyond the bounds, for a while.
func (r *Record) prune(ctx context.Context) error {
	until := time.Now().Add(pruneFor)
	oldest := time.Now().Add(-keepFor)
	kept, hosts := 0, 0
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
		return r.Ledger.Runs(ctx, ledger.AllTenants(), ledger.RunFilter{}, p)
	}
	for run, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil {
			return err
		}
		if kept, hosts = kept+1, hosts+run.Total; !run.Complete() || kept == 1 || kept <= keepRuns && hosts <= keepHosts && run.Created.After(oldest) {
			continue
		}
		for more := true; more; {
			if time.Now().After(until) {
				return nil
			}
			p, err := r.Ledger.Prune(ctx, run.ID, pruneRows)
			if err != nil {
				return err
			}
			more = p.More
		}
	}
	return nil
}
