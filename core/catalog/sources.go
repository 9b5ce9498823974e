package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
)

// maxRaces is how often followed may find that another server was faster.
const maxRaces = 10

// followed takes what the follower of the branch found. Servers that follow one branch may see its
// tips at different times: one that is behind must not bring back what another has replaced. They
// may also put the same tip at the same time: the version that came first is compared again.
func (c *Catalog) followed(ctx context.Context, u definitions.Update) (err error) {
	for lost, n := true, 0; lost && n < maxRaces; n++ {
		lost, err = c.followOnce(ctx, u)
	}
	return err
}

// followOnce is one attempt of followed; lost reports that another server put a version meanwhile.
func (c *Catalog) followOnce(ctx context.Context, u definitions.Update) (lost bool, err error) {
	rev := u.Set.Revision
	now, err := c.standing(ctx)
	if err != nil {
		return false, err
	}
	at, clock := c.follower.Status(), time.Now().UTC()
	base := Base{ID: rev.Commit, At: rev.CommittedAt, Branch: at.Repository + " " + at.Branch, Seen: u.Asked.UTC()}
	if base.At.After(clock) { // else no commit of another branch ever takes its place
		base.At = clock
	}
	switch was := now.Base; {
	case was.ID == rev.Commit: // what was applied by hand since holds
		return false, nil
	case was.ID == "" || newer(u, base, was, clock):
	case was.Branch == "" || was.Branch == base.Branch || u.Asked.IsZero():
		return false, nil
	default: // else the operator who changed the branch would wait for it
		return false, fmt.Errorf("commit %s of %s is older than commit %.12s of %s, whose project is in use: %w\nhint: git commit --allow-empty on the branch that is followed now",
			rev.Short(), base.Branch, was.ID, was.Branch, core.ErrConflict)
	}
	if b := u.Before; b != nil && now.own != nil && b.Revision == now.own.Revision && b.Hash() == now.own.Hash() {
		now.own = b // the ledger's has no files that playbooks send
	}
	_, err = c.put(ctx, "git: "+rev.Author, u.Set, FromGit, base, now)
	return errors.Is(err, core.ErrConflict), err
}

// newer reports whether what a follower found takes the place of what was put before. Of two that
// asked one branch, the one that asked later is right, whatever the times of the commits: a branch
// may go back.
func newer(u definitions.Update, found, was Base, now time.Time) bool {
	switch {
	case u.Asked.IsZero(): // what was on this server's disk; the ledger's is what it would have become
		return false
	case was.Branch == found.Branch && !was.Seen.After(now): // also if this server asked long ago
		return found.Seen.After(was.Seen)
	case u.Before != nil && u.Before.Revision.Commit == was.ID:
		return true
	default: // another branch, or the clocks of servers differ: the commits decide
		return !found.At.Before(was.At)
	}
}

// still puts the ledger right where somebody put another commit than the branch's tip, and cannot
// undo it.
func (c *Catalog) still(ctx context.Context, u definitions.Update) {
	c.trouble(ctx, "cannot compare the branch with the project", c.followed(ctx, u))
}

// gitStatus reports a commit that was not taken and a branch that cannot be read, and also what
// the caller of New asked for.
func (c *Catalog) gitStatus(next func(definitions.Status)) func(definitions.Status) {
	return func(s definitions.Status) {
		switch s.State {
		case definitions.BadCommit, definitions.Refused:
			c.report(Event{Kind: ProjectRejected, By: s.Tried.Author, Reason: "commit " + s.Tried.Short(), Err: errors.New(s.Error)})
		case definitions.BranchGone, definitions.Unreachable:
			c.report(Event{Kind: Trouble, Reason: "the project of " + s.Repository + " cannot be followed", Err: errors.New(s.Error)})
		case definitions.Starting, definitions.Following: // all is well
		}
		if next != nil {
			next(s)
		}
	}
}

// watchFolder takes over the folder's definitions when they change, until ctx ends.
func (c *Catalog) watchFolder(ctx context.Context) {
	var taken, seen string
	for ctx.Err() == nil {
		stamp := stampOf(c.cfg.Folder)
		if stamp != taken && (stamp == seen || taken == "") { // half a file may be valid, and lack the freeze at its end
			err := c.takeFolder(ctx)
			if err == nil || errors.Is(err, core.ErrInvalid) {
				taken = stamp
			}
			if !errors.Is(err, core.ErrInvalid) {
				c.trouble(ctx, "cannot take over the folder of the project", err)
			}
		}
		seen = stamp
		core.Pause(ctx, folderPoll, nil)
	}
}

// takeFolder applies what the folder has, unless it was taken over before.
func (c *Catalog) takeFolder(ctx context.Context) error {
	set, err := definitions.Load(ctx, c.cfg.Folder, definitions.Options{Playbooks: c.cfg.Playbooks, Sources: c.knows()})
	if err == nil {
		_, err = compile(set, givenState{})
	}
	c.folderFailed(ctx, err)
	if err != nil {
		return err
	}
	for {
		now, err := c.standing(ctx)
		if err != nil || now.Base.ID == set.Hash() {
			return err
		}
		_, err = c.put(ctx, "folder", set, FromFolder, Base{ID: set.Hash()}, now)
		if errors.Is(err, core.ErrInvalid) { // it will not get better until the folder changes
			c.folderFailed(ctx, err)
		}
		if !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
}

// folderFailed remembers that the folder is not valid, for Status.
func (c *Catalog) folderFailed(ctx context.Context, err error) {
	c.mu.Lock()
	was := c.folderError
	c.folderError = ""
	if err != nil && ctx.Err() == nil {
		c.folderError = err.Error()
	}
	now := c.folderError
	c.mu.Unlock()
	if now != "" && now != was {
		c.report(Event{Kind: ProjectRejected, By: "folder", Err: err})
	}
}

// stampOf changes whenever a file of the folder does.
func stampOf(dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != dir {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintf(&b, "%s %d %d\n", p, info.Size(), info.ModTime().UnixNano())
		}
		return nil // a file that has gone meanwhile shows in the next stamp
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// FilesOf returns the name, in the snapshot of a playbook's run, of the folder with its files;
// FilesDir resolves it.
func (c *Catalog) FilesOf(set *definitions.Set, playbook *playbooks.Playbook) string {
	return set.Revision.Commit + ":" + path.Dir(playbook.File)
}

// FilesDir is the folder with the files of a run's playbook on this machine: of a worker that runs
// in the same process as the catalog. It is "" where they are not here, and steps that send files
// fail.
func (c *Catalog) FilesDir(_, files string) string {
	commit, dir, ok := strings.Cut(files, ":")
	if !ok || !filepath.IsLocal(filepath.FromSlash(dir)) {
		return ""
	}
	switch {
	case c.follower != nil && commit != "":
		checkout, err := c.follower.Use(context.Background(), commit)
		if err != nil {
			return ""
		}
		defer checkout.Release() // it is kept for a day after the branch has moved on
		return below(checkout.Dir, dir)
	case c.cfg.Folder != "" && commit == "":
		return below(c.cfg.Folder, dir)
	}
	return ""
}

// FilesIn is the folder with the files of a run's playbook on a machine that has a copy of the
// project, or of its folder of playbooks, at root.
func FilesIn(root, files string) string {
	if _, dir, ok := strings.Cut(files, ":"); ok && filepath.IsLocal(filepath.FromSlash(dir)) {
		if found := below(root, dir); found != "" {
			return found
		}
	}
	return root
}

// below is a folder of a tree; "" if a link on the way leads out of the tree. The name may come out
// of a queue that others write to.
func below(tree, dir string) string {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(filepath.FromSlash(dir)); err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Join(tree, filepath.FromSlash(dir))
}

// Status is how definitions and schedules are doing on this server.
type Status struct {
	Version  int64                `json:"version"`
	Revision definitions.Revision `json:"revision,omitzero"`
	By       string               `json:"by,omitempty"`
	Source   Source               `json:"source,omitempty"`
	Applied  time.Time            `json:"applied,omitzero"`
	// Rejected is the newest version of the ledger, when this server cannot run by it.
	Rejected *Rejected `json:"rejected,omitempty"`
	// Git is how following the branch goes, with the commit that was refused.
	Git *definitions.Status `json:"git,omitempty"`
	// Folder is why the folder's definitions were not taken over.
	Folder string `json:"folder,omitempty"`
	// Schedules is why the schedules of the definitions cannot be brought into the ledger.
	Schedules string `json:"schedules,omitempty"`
}

// Status returns which definitions this server runs by, and why newer ones were not taken over.
func (c *Catalog) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.current
	s := Status{Version: now.Version, By: now.By, Source: now.Source, Applied: now.Applied, Rejected: c.rejected, Folder: c.folderError, Schedules: c.aligned.failed}
	if now.Set != nil {
		s.Revision = now.Set.Revision
	}
	if c.follower != nil {
		git := c.follower.Status()
		s.Git = &git
	}
	return s
}
