package definitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// FollowOptions define what is followed, and how.
type FollowOptions struct {
	URL    string // https, ssh, file, user@host:path, or a path; user:token@ is taken out of what is shown
	Branch string
	Dir    string // private folder of this follower alone: the mirror and the checkouts

	Load Options // Revision is filled in

	// Apply takes a valid set; an error keeps the one before, and the next poll offers the set again.
	// It is called by one goroutine, and not again before it returned.
	Apply func(ctx context.Context, u Update) error
	// Still, if given, is called, by the same goroutine, when the branch was checked and has not moved
	// since Apply took Set: somebody else may have put another in its place.
	Still func(ctx context.Context, u Update)
	// OnStatus, if given, is called when the state or the revision changes. It must not block.
	OnStatus func(Status)

	Every      time.Duration // between polls; 1 min when zero. A tenth of it is jitter
	MinGap     time.Duration // between polls, however often it is notified; 2 s when zero
	Timeout    time.Duration // of one fetch; 2 min when zero
	MaxBackoff time.Duration // between polls while the remote is away; 5 min when zero
	MaxMirror  int64         // bytes of the mirror; 1 GiB when zero
	MaxTree    int64         // bytes of one checkout; 512 MiB when zero
	Keep       int           // checkouts kept beside the current one; 3 when zero
	KeepFor    time.Duration // checkouts are kept so long, though there are more; 24 h when zero

	Git string // the program; git when empty
}

// Update is a set that takes the place of another.
type Update struct {
	Set       *Set
	Before    *Set      // nil: the first since the start
	Dir       string    // the checkout: read-only. Hold it with Use
	Rewritten bool      // the branch does not continue what it was: a force-push
	Asked     time.Time // when the repository was asked; zero: it was not, this is what held when the process before this one ended
}

// State is how following goes.
type State string

// The states.
const (
	Starting    State = "starting"
	Following   State = "following"   // the branch's tip is what holds
	BadCommit   State = "bad_commit"  // the tip is not valid; the last good one holds
	Refused     State = "refused"     // the tip could not be taken: Apply did not, or the disk is full
	BranchGone  State = "branch_gone" // the repository answers, and has no such branch
	Unreachable State = "unreachable" // the repository does not answer, or is too large
)

// Status is the state of the followed branch.
type Status struct {
	Repository string    `json:"repository"` // without secrets
	Branch     string    `json:"branch"`
	State      State     `json:"state"`
	Since      time.Time `json:"since"`            // when the state began
	Error      string    `json:"error,omitempty"`  // why it is not Following
	Notice     string    `json:"notice,omitempty"` // what happened to the branch at its last move: a force-push
	Good       Revision  `json:"good"`             // the revision that holds; zero: none yet
	GoodSince  time.Time `json:"good_since,omitzero"`
	Tried      Revision  `json:"tried"` // the tip that was checked last
	TriedAt    time.Time `json:"tried_at,omitzero"`
	Seen       time.Time `json:"seen,omitzero"` // when the repository last answered
	Failures   int       `json:"failures"`      // polls in a row without an answer
	Polls      int       `json:"looks"`         // since the start
	Next       time.Time `json:"next,omitzero"` // the next poll, unless it is notified
}

// Follower follows one branch. Run does the work; the other methods may be called by any
// goroutine, before, while and after it runs.
type Follower struct {
	o      FollowOptions
	g      *git
	trees  *checkouts
	notify chan struct{}
	failed core.Backoff

	// Of the goroutine of Run.
	bad    string // a tip that is not valid
	badErr error  // why
	tip    string // the tip that was fetched last
	broken int    // fetches in a row that failed

	mu       sync.Mutex
	status   Status
	reported Status // as OnStatus heard it last
	set      *Set
}

const (
	goodRef = "refs/turnus/good"
	tipRef  = "refs/turnus/tip"
)

const (
	fetchDepth = "50" // commits
	// sshCommand is strict, and asks nothing.
	sshCommand = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=15 -oPermitLocalCommand=no"
)

// NewFollower checks the options. Nothing is contacted and nothing written. Errors wrap
// core.ErrInvalid.
func NewFollower(o FollowOptions) (*Follower, error) {
	r, err := parseRemote(o.URL)
	if err != nil {
		return nil, err
	}
	if !branchName(o.Branch) {
		return nil, fmt.Errorf("repository %s: %w branch name %q", r.address, core.ErrInvalid, yamlread.Clip(o.Branch))
	}
	if o.Dir == "" || o.Apply == nil {
		return nil, fmt.Errorf("repository %s: %w: a folder and Apply are needed", r.address, core.ErrInvalid)
	}
	o.Every = cmp.Or(o.Every, time.Minute)
	o.MinGap = cmp.Or(o.MinGap, 2*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 5*time.Minute)
	o.MaxMirror = cmp.Or(o.MaxMirror, 1<<30)
	o.MaxTree = cmp.Or(o.MaxTree, 512<<20)
	o.Keep = cmp.Or(o.Keep, 3)
	o.KeepFor = cmp.Or(o.KeepFor, 24*time.Hour)
	o.Git = cmp.Or(o.Git, "git")
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", r.address, err)
	}
	f := &Follower{
		o: o, notify: make(chan struct{}, 1), failed: core.Backoff{Interval: min(o.Every, 5*time.Second), Max: max(o.MaxBackoff, o.MinGap), Jitter: 0.2},
		g:     &git{program: o.Git, dir: filepath.Join(dir, "mirror"), remote: r, ssh: sshCommand},
		trees: &checkouts{dir: filepath.Join(dir, "rev"), bytes: o.MaxTree, users: map[string]int{}, checked: map[string]bool{}, sizes: map[string]int64{}},
	}
	f.o.Dir = dir
	f.status = Status{Repository: r.address, Branch: o.Branch, State: Starting, Since: time.Now().UTC()}
	return f, nil
}

// branchName reports whether a name can be one, as git check-ref-format has it.
func branchName(name string) bool {
	if name == "" || len(name) > 250 || name == "@" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "//") || strings.Contains(name, "@{") || strings.ContainsAny(name, " ~^:?*[\\\x7f") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}

// Run follows the branch until ctx ends; then it returns nil, and nothing that it started runs any
// more. An error means that it could not begin: the folder, or no git.
func (f *Follower) Run(ctx context.Context) error {
	if _, err := exec.LookPath(f.o.Git); err != nil {
		return fmt.Errorf("follow %s: the program git is needed: %w", f.g.remote.address, err)
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	f.restore(ctx)
	for ctx.Err() == nil {
		began := time.Now()
		f.poll(ctx)
		f.rest(ctx, began)
	}
	return nil
}

// lock keeps a second process out of the folder.
func (f *Follower) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.o.Dir, ownerOnly); err != nil {
		return nil, fmt.Errorf("follow %s: %w", f.g.remote.address, err)
	}
	if err := os.Chmod(f.o.Dir, ownerOnly); err != nil {
		return nil, fmt.Errorf("follow %s: %w", f.g.remote.address, err)
	}
	file, err := os.OpenFile(filepath.Join(f.o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", f.g.remote.address, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("follow %s: %w: another process uses %s", f.g.remote.address, core.ErrConflict, f.o.Dir), file.Close())
	}
	return func() {
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // a child between fork and exec also has the file open
		_ = file.Close()
	}, nil
}

// prepare makes the mirror. One that git does not know any more is made again: it is a copy.
func (f *Follower) prepare(ctx context.Context) error {
	if err := f.trees.open(); err != nil {
		return err
	}
	f.g.tidyLocks()
	if out, err := f.g.run(ctx, localTime, "rev-parse", "--is-bare-repository"); err == nil && strings.TrimSpace(out) == "true" {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.renew(ctx)
}

// renew puts a new mirror in the place of the old one. The new mirror holds the good revision if
// the old one still has it, and nothing else: neither objects that a killed fetch left nor files
// that keep them from being removed.
func (f *Follower) renew(ctx context.Context) error {
	fresh, old := *f.g, f.g.dir+".old"
	fresh.dir += ".new"
	if err := f.emptyMirror(ctx, &fresh); err != nil {
		return err
	}
	_, err := fresh.run(ctx, localTime, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--update-shallow",
		"--depth="+fetchDepth, "--", f.g.dir, "+"+goodRef+":"+goodRef)
	if ctx.Err() != nil {
		return ctx.Err() // the old mirror stays until the next start
	}
	if err != nil || sizeOf(fresh.dir) > f.o.MaxMirror/2 { // no good revision yet, a damaged one, or one that leaves no space for others
		if err := f.emptyMirror(ctx, &fresh); err != nil {
			return err
		}
	}
	err = os.RemoveAll(old)
	if err == nil {
		if err = os.Rename(f.g.dir, old); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(fresh.dir, f.g.dir)
	}
	if err == nil {
		err = os.RemoveAll(old)
	}
	if err != nil {
		return fmt.Errorf("follow %s: replace the mirror: %w", f.g.remote.address, err)
	}
	return nil
}

// emptyMirror makes an empty repository in the folder of g.
func (f *Follower) emptyMirror(ctx context.Context, g *git) error {
	err := os.RemoveAll(g.dir)
	if err == nil {
		err = os.MkdirAll(g.dir, ownerOnly)
	}
	if err == nil {
		_, err = g.run(ctx, localTime, "init", "--quiet", "--bare", "--initial-branch=none")
	}
	if err != nil {
		return fmt.Errorf("follow %s: make the mirror: %w", f.g.remote.address, err)
	}
	return nil
}

// restore offers what held when the process before this one ended, so that a server has its
// definitions though the remote is away or the tip is bad.
func (f *Follower) restore(ctx context.Context) {
	commit, err := f.g.resolve(ctx, goodRef)
	if err != nil {
		return // the first start, or another repository than before
	}
	if text, err := os.ReadFile(f.originFile()); err != nil || string(text) != f.origin() {
		return
	}
	if f.take(ctx, commit, false, time.Time{}) != nil {
		f.bad, f.badErr = "", nil // it is checked again with the remote's answer
	}
}

// origin identifies the source of the good revision: with another address or branch it counts no
// more.
func (f *Follower) origin() string     { return f.g.remote.address + "\n" + f.o.Branch + "\n" }
func (f *Follower) originFile() string { return filepath.Join(f.o.Dir, "origin") }

// rest waits for the next look: the interval, or a notify after the least gap.
func (f *Follower) rest(ctx context.Context, began time.Time) {
	f.mu.Lock()
	wait := f.o.Every + time.Duration(rand.Float64()*float64(f.o.Every)/10) //nolint:gosec // jitter
	if f.status.Failures > 0 {
		wait = f.failed.Delay(f.status.Failures-1, rand.Float64()) //nolint:gosec // jitter
	}
	f.status.Next = time.Now().Add(wait).UTC()
	f.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-f.notify:
	}
	core.Pause(ctx, time.Until(began.Add(f.o.MinGap)), nil)
	select { // those that came meanwhile are served by the same look
	case <-f.notify:
	default:
	}
}

// Notify asks for a poll soon. It never blocks; many notifications cause one poll.
func (f *Follower) Notify() { core.Notify(f.notify) }

// Status is how it goes.
func (f *Follower) Status() Status { return core.Locked(&f.mu, &f.status) }

// Set is the last good set; nil before the first.
func (f *Follower) Set() *Set { return core.Locked(&f.mu, &f.set) }

// Use holds the checkout of a revision until it is released: runs send files of it. It is
// core.ErrNotFound when the revision is long gone, or was never here.
func (f *Follower) Use(ctx context.Context, commit string) (*Checkout, error) {
	held, err := f.trees.use(commit)
	if err == nil || !hash().MatchString(commit) {
		return held, err
	}
	switch _, lost := f.g.resolve(ctx, commit); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case lost != nil:
		if !f.trees.adopt(commit) {
			return nil, err
		}
	default:
		if _, err := f.trees.make(ctx, &gitTree{g: f.g, commit: commit}); err != nil {
			return nil, err
		}
	}
	return f.trees.use(commit)
}
