package catalog_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

// repo is a repository whose branch main servers follow. Its commits are a minute apart, whatever
// the time is.
type repo struct {
	testing.TB
	program, dir string
	at           time.Time // of the last commit
}

func (l *lab) repo() *repo {
	l.Helper()
	r := &repo{TB: l.TB, program: testparts.Need(l, "git", "git"), dir: l.TempDir(), at: time.Date(1999, 6, 1, 0, 0, 0, 0, time.UTC)}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repo) git(args ...string) string {
	r.Helper()
	cmd := exec.Command(r.program, args...)
	stamp := fmt.Sprintf("%d +0000", r.at.Unix())
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann Op", "GIT_AUTHOR_EMAIL=ann@example.org",
		"GIT_COMMITTER_NAME=Ann Op", "GIT_COMMITTER_EMAIL=ann@example.org", "GIT_AUTHOR_DATE=" + stamp, "GIT_COMMITTER_DATE=" + stamp,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit puts definitions whose playbook has the schedule on the branch.
func (r *repo) commit(scheduled string, more ...string) string {
	r.Helper()
	for _, d := range docs(scheduled, more...) {
		p := filepath.Join(r.dir, d.Path)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			r.Fatal(err)
		}
		if err := os.WriteFile(p, d.Data, 0o600); err != nil {
			r.Fatal(err)
		}
	}
	r.at = r.at.Add(time.Minute)
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", "change "+scheduled)
	return r.git("rev-parse", "HEAD")
}

// reset has the branch be at an earlier commit, as a force-push does.
func (r *repo) reset(commit string) { r.Helper(); r.git("reset", "--quiet", "--hard", commit) }

// following makes a server follow the repository from a folder of its own, and look so often.
func following(r *repo, dir string, every time.Duration) func(*catalog.Config) {
	return func(cfg *catalog.Config) {
		cfg.Follow = &definitions.FollowOptions{URL: r.dir, Branch: "main", Dir: dir, Every: every, MinGap: time.Millisecond}
	}
}

// at waits until a server runs by a commit.
func (l *lab) at(c *catalog.Catalog, commit string) {
	l.Helper()
	l.until("the server is at "+commit, func() bool { return c.Status().Revision.Commit == commit })
}

// stays fails the test when the server is elsewhere at any moment of the time.
func (l *lab) stays(c *catalog.Catalog, commit string, d time.Duration) {
	l.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if got := c.Status().Revision.Commit; got != commit {
			l.Fatalf("the server went from %s to %s", commit, got)
		}
		<-time.After(time.Second)
	}
}

const rarely = 4 * time.Minute // between looks of a follower that lags

func TestGitTwoServersOfWhichOneLags(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		first := r.commit("")
		quick, stop := l.server("quick", following(r, t.TempDir(), time.Minute))
		defer stop()
		slow, stopSlow := l.server("slow", following(r, t.TempDir(), rarely))
		defer stopSlow()
		l.at(quick, first)
		l.at(slow, first)
		l.until("the slow server has looked itself, too", func() bool { return slow.Status().Git.Good.Commit == first })
		l.until("it says that it follows", func() bool { return quick.Status().Git.State == definitions.Following })
		if s := quick.Status(); s.Source != catalog.FromGit || s.By != "git: Ann Op <ann@example.org>" {
			t.Errorf("%+v", s)
		}
		second := r.commit("cron: 0 4 * * *")
		l.at(quick, second)
		l.at(slow, second) // by the ledger: it has not looked itself
		if got := slow.Status().Git.Good.Commit; got != first {
			t.Fatalf("the slow server has looked, and is at %s", got)
		}
		version := quick.Current().Version
		l.stays(quick, second, 2*rarely)
		if v := slow.Current().Version; v != version || slow.Status().Git.Good.Commit != second {
			t.Errorf("version %d became %d when the slow one had looked: %+v", version, v, slow.Status().Git)
		}
	})
}

// The branch goes back to an earlier commit: everybody does, also a server that never saw the later
// one, or that saw nothing since.
func TestGitForcePush(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		first := r.commit("")
		dir := t.TempDir()
		quick, stop := l.server("quick", following(r, t.TempDir(), time.Minute))
		defer func() { stop() }()
		other, stopOther := l.server("other", following(r, dir, time.Minute))
		second := r.commit("cron: 0 4 * * *")
		l.at(quick, second)
		l.until("the other has seen it", func() bool { return other.Status().Git.Good.Commit == second })
		stopOther()

		r.reset(first)
		l.at(quick, first)
		if s := quick.Status(); !strings.Contains(s.Git.Notice, "force-push") {
			t.Errorf("%+v", s.Git)
		}
		// The other one comes back with what it knew, which is the later commit, and may not bring that
		// back.
		version := quick.Current().Version
		other, stopOther = l.server("other", following(r, dir, time.Minute))
		l.at(other, first)
		l.until("it has looked", func() bool { return other.Status().Git.Good.Commit == first })
		l.stays(quick, first, 3*time.Minute)
		if v := quick.Current().Version; v != version {
			t.Errorf("version %d became %d", version, v)
		}
		stopOther()

		// A commit is reverted while its only witness dies: the one that never saw it puts the ledger
		// right.
		slow, stopSlow := l.server("slow", following(r, t.TempDir(), rarely))
		defer stopSlow()
		l.until("it has looked", func() bool { return slow.Status().Git.Good.Commit == first })
		third := r.commit("cron: 0 5 * * *")
		l.at(slow, third)
		stop()
		r.reset(first)
		l.within(2*rarely, slow, first)

		// And so does one that was never here before.
		fourth := r.commit("cron: 0 6 * * *")
		stopSlow()
		last, stopLast := l.server("last", following(r, t.TempDir(), time.Minute))
		l.at(last, fourth)
		stopLast()
		r.reset(first)
		fresh, stopFresh := l.server("fresh", following(r, t.TempDir(), time.Minute))
		defer stopFresh()
		l.at(fresh, first)
	})
}

// within is at with more patience.
func (l *lab) within(d time.Duration, c *catalog.Catalog, commit string) {
	l.Helper()
	for end := time.Now().Add(d); c.Status().Revision.Commit != commit; {
		if time.Now().After(end) {
			l.Fatalf("after %v the server is at %s, expected %s: %+v", d, c.Status().Revision.Commit, commit, c.Status().Git)
		}
		<-time.After(time.Second)
	}
}

// A bad commit keeps the last good one, also over a restart and for a server that comes again, and
// status reports that; the next good one heals.
func TestGitBadCommit(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		good := r.commit("")
		dir := t.TempDir()
		c, stop := l.server("s1", following(r, dir, time.Minute))
		l.at(c, good)
		bad := r.commit("cron: nonsense")
		l.until("it is refused", func() bool { return c.Status().Git.State == definitions.BadCommit })
		refused := func(c *catalog.Catalog) {
			t.Helper()
			s := c.Status()
			if s.Revision.Commit != good || s.Git.Tried.Commit != bad || !strings.Contains(s.Git.Error, "playbooks/patch.yaml:") {
				t.Errorf("%+v", s)
			}
		}
		refused(c)
		if n := len(l.said(catalog.ProjectRejected)); n != 1 {
			t.Errorf("it was reported %d times", n)
		}
		stop()
		c, stop = l.server("s1", following(r, dir, time.Minute))
		defer func() { stop() }()
		l.until("it is refused again", func() bool { return c.Status().Git.State == definitions.BadCommit })
		refused(c)
		fresh, stopFresh := l.server("s2", following(r, t.TempDir(), time.Minute))
		defer stopFresh()
		l.until("the new one refuses it", func() bool { return fresh.Status().Git.State == definitions.BadCommit && fresh.Set() != nil })
		refused(fresh)
		healed := r.commit("cron: 0 4 * * *")
		for _, c := range []*catalog.Catalog{c, fresh} {
			l.at(c, healed)
			l.until("status is well", func() bool { s := c.Status().Git; return s.State == definitions.Following && s.Error == "" })
		}
		// Runs carry the revision.
		run, err := c.TriggerSchedule(l.Context(), ledger.AllTenants(), "bob", patch, "k", "")
		if err != nil || run.Revision != healed {
			t.Errorf("%+v, %v", run, err)
		}
	})
}

// The record has what servers reject, for doctor, also while no server runs, until it is corrected.
func TestFaultW16ARejectedCommitIsOnRecord(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		good := r.commit("")
		dir := t.TempDir()
		c, stop := l.server("s1", following(r, dir, time.Minute))
		l.at(c, good)
		record := func() *catalog.Rejection {
			t.Helper()
			got, err := catalog.RejectedProject(l.Context(), l.ledger)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := record(); got != nil {
			t.Errorf("nothing is rejected: %+v", got)
		}
		bad := r.commit("cron: nonsense")
		l.until("it is on record", func() bool { return record() != nil })
		stop()
		if got := record(); got == nil || got.Revision != bad || got.Since.IsZero() || !strings.Contains(got.Error, "playbooks/patch.yaml:") {
			t.Errorf("%+v, expected commit %s with its error", got, bad)
		}
		r.commit("cron: 0 4 * * *")
		_, stop = l.server("s2", following(r, dir, time.Minute))
		defer stop()
		l.until("the correction is on record", func() bool { return record() == nil })
	})
}

// A version that was applied by hand holds until the branch moves, over restarts and on servers
// that come again.
func TestGitAndByHand(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		first := r.commit("")
		c, stop := l.server("s1", following(r, t.TempDir(), time.Minute))
		defer stop()
		l.at(c, first)
		l.apply(c, docs("cron: 0 7 * * *"), catalog.AnyVersion)
		fresh, stopFresh := l.server("s2", following(r, t.TempDir(), time.Minute))
		defer stopFresh()
		<-time.After(4 * time.Minute)
		for _, c := range []*catalog.Catalog{c, fresh} {
			if s := c.Status(); s.Source != catalog.FromApply || s.Version != 2 {
				t.Errorf("%+v", s)
			}
		}
		second := r.commit("cron: 0 4 * * *")
		l.at(c, second)
		l.at(fresh, second)
	})
}

// A commit may be of any time. One of the future does not keep the operator from following another
// branch, whose commit is of today.
func TestGitACommitOfTheFuture(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		r.at = time.Date(2090, 6, 1, 0, 0, 0, 0, time.UTC)
		future := r.commit("")
		c, stop := l.server("s1", following(r, t.TempDir(), time.Minute))
		l.at(c, future)
		stop()
		r.git("checkout", "--quiet", "-b", "release")
		r.at = time.Now().UTC()
		next := r.commit("cron: 0 4 * * *")
		c, stop = l.server("s2", func(cfg *catalog.Config) {
			following(r, t.TempDir(), time.Minute)(cfg)
			cfg.Follow.Branch = "release"
		})
		defer stop()
		l.within(5*time.Minute, c, next)
	})
}

// An operator changes the branch to one whose commit is older than what holds. That is refused, and
// reported with a remedy; servers that follow two branches would put them in turn otherwise.
func TestGitAnOlderBranchIsReported(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		r.commit("")
		r.git("branch", "old")
		late := r.commit("cron: 0 4 * * *")
		c, stop := l.server("s1", following(r, t.TempDir(), time.Minute))
		l.at(c, late)
		stop()
		c, stop = l.server("s2", func(cfg *catalog.Config) {
			following(r, t.TempDir(), time.Minute)(cfg)
			cfg.Follow.Branch = "old"
		})
		defer stop()
		l.until("it is reported", func() bool {
			s := c.Status()
			return s.Git.State == definitions.Refused && strings.Contains(s.Git.Error, "hint: git commit --allow-empty")
		})
		r.git("checkout", "--quiet", "old")
		next := r.commit("cron: 0 5 * * *") // the remedy
		l.within(5*time.Minute, c, next)
	})
}

// A commit that edits only a file that playbooks send has a change, also when the server was
// started again since the commit before.
func TestGitACommitOfAFileThatPlaybooksSend(t *testing.T) {
	fake(t, func(l *lab) {
		r, dir := l.repo(), t.TempDir()
		first := r.commit("", "playbooks/files/motd", "one\n")
		c, stop := l.server("s1", following(r, dir, time.Minute))
		l.at(c, first)
		l.until("it is kept", func() bool { return c.Status().Git.State == definitions.Following })
		stop()
		c, stop = l.server("s1", following(r, dir, time.Minute))
		defer func() { stop() }()
		l.until("it has looked", func() bool { return c.Status().Git.State == definitions.Following })
		second := r.commit("", "playbooks/files/motd", "two\n")
		l.at(c, second)
		if all := c.Current().Changes.Changes; len(all) != 1 || all[0].Kind != definitions.KindFile || all[0].Name != "playbooks/files/motd" {
			t.Errorf("%+v", all)
		}
	})
}
