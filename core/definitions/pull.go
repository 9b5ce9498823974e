package definitions

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// maxPacks is how many packs the mirror may hold before it is packed again.
const maxPacks = 8

// maxBroken is how many fetches in a row may fail before the mirror itself is checked.
const maxBroken = 3

// poll asks the remote once, and takes what is new.
func (f *Follower) poll(ctx context.Context) {
	f.mu.Lock()
	f.status.Polls++
	f.mu.Unlock()
	asked := time.Now()
	tip, err := f.remoteTip(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		f.report(Unreachable, err)
		return
	case tip == "":
		f.answered()
		f.report(BranchGone, fmt.Errorf("the repository has no branch %s (any more)", f.o.Branch))
		return
	}
	f.answered()
	good := f.Status().Good.Commit
	if tip == good {
		f.bad, f.badErr = "", nil
		f.tried(Revision{Commit: tip}, f.Status().Good)
		f.report(Following, nil)
		if set := f.Set(); set != nil && f.o.Still != nil {
			f.o.Still(ctx, Update{Set: set, Before: set, Asked: asked})
		}
		return
	}
	if tip == f.bad { // it will not get better
		f.report(BadCommit, f.badErr)
		return
	}
	tip, rewritten, err := f.fetch(ctx, good)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		f.report(Unreachable, err)
		return
	}
	_ = f.take(ctx, tip, rewritten, asked) // it has been reported
}

// remoteTip is the commit at which the branch stands there; "" when there is no such branch.
func (f *Follower) remoteTip(ctx context.Context) (tip string, err error) {
	ref := "refs/heads/" + f.o.Branch
	err = f.g.stream(ctx, f.o.Timeout, nil, func(r *bufio.Reader) error {
		for {
			line, err := r.ReadSlice('\n')
			commit, name, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
			if name == ref && hash().MatchString(commit) { // a pattern also matches longer names, of which there may be many
				tip = commit
			}
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil && !errors.Is(err, bufio.ErrBufferFull):
				return err
			}
		}
	}, "ls-remote", "--quiet", "--refs", "--", f.g.remote.address, ref)
	return tip, err
}

// fetch gets the tip, which may be newer than the one in the notification, and reports whether it
// continues what the branch was.
func (f *Follower) fetch(ctx context.Context, good string) (tip string, rewritten bool, err error) {
	before := cmp.Or(f.tip, good)
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance", "--force", "--update-shallow",
		"--depth=" + fetchDepth, "--", f.g.remote.address, "+refs/heads/" + f.o.Branch + ":" + tipRef}
	if err = f.g.watched(ctx, f.o.Timeout, f.o.MaxMirror, args...); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, f.mend(ctx, errors.Is(err, errTooLarge)))
		}
		return "", false, err
	}
	f.broken = 0
	if tip, err = f.g.resolve(ctx, tipRef); err != nil {
		return "", false, err
	}
	f.tip = tip
	if before == "" || before == tip {
		return tip, false, nil
	}
	_, err = f.g.run(ctx, localTime, "merge-base", "--is-ancestor", before, tip)
	return tip, err != nil && ctx.Err() == nil, nil
}

// mend makes the mirror fit for another fetch after one that failed: it removes what a killed git
// left, and replaces a mirror that is too large or damaged.
func (f *Follower) mend(ctx context.Context, tooLarge bool) error {
	f.g.tidyLocks()
	if f.broken++; !tooLarge && f.broken < maxBroken {
		return nil
	}
	f.broken = 0
	if tooLarge {
		return f.renew(ctx)
	}
	_, err := f.g.run(ctx, localTime, "update-ref", "-d", tipRef)
	if err == nil {
		_, err = f.g.run(ctx, localTime, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	}
	if err != nil && ctx.Err() == nil {
		return f.renew(ctx)
	}
	return nil
}

// take loads a commit and hands it on: all of it, or nothing.
func (f *Follower) take(ctx context.Context, commit string, rewritten bool, asked time.Time) error {
	rev, err := f.g.describe(ctx, commit)
	if err != nil {
		if ctx.Err() == nil {
			f.report(Unreachable, err)
		}
		return err
	}
	f.tried(rev, rev)
	notice := ""
	if rewritten {
		notice = fmt.Sprintf("the branch was rewritten (force-push): %s does not continue what was there before", rev.Short())
	}
	f.notice(notice)
	set, dir, err := f.valid(ctx, rev)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, core.ErrInvalid):
		f.bad, f.badErr = commit, err
		f.report(BadCommit, err)
		return err
	case err != nil: // the disk, git: another look may go better
		f.report(Refused, err)
		return err
	}
	before := f.Set()
	if err := f.o.Apply(ctx, Update{Set: set, Before: before, Dir: dir, Rewritten: rewritten, Asked: asked}); err != nil {
		if ctx.Err() == nil {
			f.report(Refused, err)
		}
		return err
	}
	f.bad, f.badErr = "", nil
	if before != nil {
		f.trees.leave(before.Revision.Commit)
	}
	f.mu.Lock()
	f.set = set
	f.status.Good, f.status.GoodSince = set.Revision, time.Now().UTC()
	f.mu.Unlock()
	f.remember(ctx, commit)
	f.tidy(ctx, commit)
	f.report(Following, nil)
	return nil
}

func (f *Follower) valid(ctx context.Context, rev Revision) (*Set, string, error) {
	tree, o := &gitTree{g: f.g, commit: rev.Commit}, f.o.Load
	o.Revision = rev
	set, err := loadTree(ctx, tree, o)
	if err != nil {
		return nil, "", err
	}
	dir, err := f.trees.make(ctx, tree)
	return set, dir, err
}

// remember keeps the good commit over a restart, and from being packed away.
func (f *Follower) remember(ctx context.Context, commit string) {
	_, err := f.g.run(ctx, localTime, "update-ref", goodRef, commit)
	if err == nil {
		err = os.WriteFile(f.originFile(), []byte(f.origin()), 0o600)
	}
	if err != nil && ctx.Err() == nil {
		f.notice("the revision holds, but will not be known after a restart: " + err.Error())
	}
}

// tidy removes what is old.
func (f *Follower) tidy(ctx context.Context, current string) {
	if err := f.trees.trim(current, f.o.Keep, f.o.KeepFor); err != nil {
		f.notice(err.Error())
	}
	packs, err := filepath.Glob(filepath.Join(f.g.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) <= maxPacks {
		return
	}
	if _, err := f.g.run(ctx, f.o.Timeout, "gc", "--quiet", "--prune=now"); err != nil && ctx.Err() == nil {
		f.notice(err.Error())
	}
}

func (f *Follower) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Seen, f.status.Failures = time.Now().UTC(), 0
}

// tried notes a check of a commit; known is what is known of it.
func (f *Follower) tried(r, known Revision) {
	if known.Commit == r.Commit {
		r = known
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Tried, f.status.TriedAt = r, time.Now().UTC()
}

func (f *Follower) notice(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Notice = text
}

// maxError bounds the error of a bad commit in a status.
const maxError = 8 << 10

// report notes the state, and reports a change of it.
func (f *Follower) report(s State, err error) {
	f.mu.Lock()
	f.status.Error = ""
	if err != nil {
		f.status.Error = cutText(f.g.remote.redact(err.Error()))
	}
	if s == Unreachable {
		f.status.Failures++
	}
	if f.status.State != s {
		f.status.State, f.status.Since = s, time.Now().UTC()
	}
	now, before := f.status, f.reported
	f.reported = now
	f.mu.Unlock()
	if news := before.State != now.State || before.Error != now.Error || before.GoodSince != now.GoodSince; news && f.o.OnStatus != nil {
		f.o.OnStatus(now)
	}
}

func cutText(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "…"
}
