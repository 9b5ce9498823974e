package definitions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
)

// watch is a follower that runs, and its reports.
type watch struct {
	*Follower
	t       *testing.T
	updates chan Update
	states  chan Status
	refuse  atomic.Pointer[error]
	stop    func()
}

func follow(t *testing.T, url string, change func(o *FollowOptions)) *watch {
	t.Helper()
	w := &watch{t: t, updates: make(chan Update, 100), states: make(chan Status, 1000)}
	o := FollowOptions{URL: url, Branch: "main", Dir: filepath.Join(t.TempDir(), "follow"), Every: time.Hour, MinGap: time.Millisecond, Timeout: patience,
		OnStatus: func(s Status) { w.states <- s },
		Apply: func(_ context.Context, u Update) error {
			if err := w.refuse.Load(); err != nil {
				return *err
			}
			w.updates <- u
			return nil
		}}
	if change != nil {
		change(&o)
	}
	f, err := NewFollower(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Follower = f
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = removeTree(f.trees.dir) // read-only: the test's own removal would fail
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watch) update() Update {
	w.t.Helper()
	select {
	case u := <-w.updates:
		return u
	case <-time.After(patience):
		w.t.Fatalf("no update came: %+v", w.Status())
		return Update{}
	}
}

// state waits for the news that the state is this one.
func (w *watch) state(want State) Status {
	w.t.Helper()
	return w.until(string(want), func(s Status) bool { return s.State == want })
}

func (w *watch) until(what string, ok func(Status) bool) Status {
	w.t.Helper()
	late := time.After(patience)
	for {
		select {
		case s := <-w.states:
			if ok(s) {
				return s
			}
		case <-late:
			w.t.Fatalf("never %s: %+v", what, w.Status())
			return Status{}
		}
	}
}

func TestFollowTakesGoodCommitsAndKeepsThemOverBadOnes(t *testing.T) {
	r := newRepo(t, good())
	first := r.git("rev-parse", "HEAD")
	w := follow(t, r.dir, nil)
	u := w.update()
	if u.Before != nil || u.Set.Revision.Commit != first || u.Set.Revision.Author != "Ann Op <ann@example.org>" || u.Set.Revision.Subject != "first" ||
		!u.Set.Revision.CommittedAt.Equal(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("update %+v", u.Set.Revision)
	}
	if data, err := os.ReadFile(filepath.Join(u.Dir, "files/motd")); err != nil || string(data) != "hello\n" {
		t.Errorf("motd: %q, %v", data, err)
	}
	if info, err := os.Stat(filepath.Join(u.Dir, "files/motd")); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("motd may be written: %v", info.Mode())
	}
	if info, err := os.Stat(w.o.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is open: %v", info.Mode())
	}
	w.state(Following)

	bad := r.commit("bad", edited(good(), "playbooks/patch.yaml", "targets:", "tragets:"))
	w.Notify()
	s := w.state(BadCommit)
	if s.Good.Commit != first || s.Tried.Commit != bad || s.Tried.Subject != "bad" || !strings.Contains(s.Error, "playbooks/patch.yaml:2:1") || s.Since.IsZero() {
		t.Errorf("status %+v", s)
	}
	if w.Set() != u.Set || len(w.updates) > 0 {
		t.Error("a bad commit took something away")
	}

	third := r.commit("third", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 6"))
	w.Notify()
	if next := w.update(); next.Set.Revision.Commit != third || next.Before != u.Set || next.Rewritten {
		t.Errorf("update %+v", next)
	}
	if s := w.state(Following); s.Good.Commit != third || s.Error != "" {
		t.Errorf("status %+v", s)
	}
}

func TestFollowReportsForcePush(t *testing.T) {
	r := newRepo(t, good())
	first := r.git("rev-parse", "HEAD")
	r.commit("second", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 6"))
	w := follow(t, r.dir, nil)
	w.update()
	w.state(Following)
	r.git("reset", "--quiet", "--hard", first)
	other := r.commit("rewritten", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 7"))
	w.Notify()
	if u := w.update(); !u.Rewritten || u.Set.Revision.Commit != other {
		t.Errorf("update %+v", u)
	}
	if s := w.state(Following); !strings.Contains(s.Notice, "force-push") {
		t.Errorf("status %+v", s)
	}
	// Back to an older commit is also a rewriting.
	r.git("reset", "--quiet", "--hard", first)
	w.Notify()
	if u := w.update(); !u.Rewritten || u.Set.Revision.Commit != first {
		t.Errorf("update %+v", u)
	}
	// The negative control: what continues the branch is none.
	w.state(Following)
	r.commit("on", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 8"))
	w.Notify()
	if u := w.update(); u.Rewritten {
		t.Errorf("update %+v", u)
	}
	if s := w.state(Following); s.Notice != "" {
		t.Errorf("status %+v", s)
	}
}

func TestFollowKeepsWhatHoldsWhenTheBranchOrTheRemoteGoes(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.Every, o.MaxBackoff = 20*time.Millisecond, 20*time.Millisecond })
	u := w.update()
	w.state(Following)
	r.git("branch", "-m", "main", "trunk")
	if s := w.state(BranchGone); !strings.Contains(s.Error, "no branch main") || s.Good != u.Set.Revision {
		t.Errorf("status %+v", s)
	}
	r.git("branch", "-m", "trunk", "main")
	w.state(Following)
	if err := os.Rename(r.dir, r.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if s := w.state(Unreachable); s.Good != u.Set.Revision || s.Error == "" {
		t.Errorf("status %+v", s)
	}
	if err := os.Rename(r.dir+".away", r.dir); err != nil {
		t.Fatal(err)
	}
	if s := w.state(Following); s.Failures != 0 || w.Set() != u.Set || len(w.updates) != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestFollowOffersAgainWhatApplyRefused(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.Every = 10 * time.Millisecond })
	w.update()
	w.state(Following)
	no := errors.New("the ledger is away")
	w.refuse.Store(&no)
	second := r.commit("second", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 6"))
	if s := w.state(Refused); s.Error != "the ledger is away" || s.Tried.Commit != second || s.Good.Commit == second {
		t.Errorf("status %+v", s)
	}
	w.refuse.Store(nil)
	if u := w.update(); u.Set.Revision.Commit != second {
		t.Errorf("update %+v", u)
	}
}

// After a restart the last good revision holds, though the tip is bad or the remote away.
func TestFollowRemembersOverARestart(t *testing.T) {
	r := newRepo(t, good())
	dir := filepath.Join(t.TempDir(), "f")
	there := func(o *FollowOptions) { o.Dir = dir }
	w := follow(t, r.dir, there)
	first := w.update().Set.Revision
	w.state(Following)
	r.commit("bad", edited(good(), "playbooks/patch.yaml", "targets:", "tragets:"))
	w.Notify()
	w.state(BadCommit)
	w.stop()

	if _, err := NewFollower(FollowOptions{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	w = follow(t, r.dir, there)
	if u := w.update(); u.Set.Revision != first {
		t.Errorf("restored %+v", u.Set.Revision)
	}
	w.state(BadCommit)
	w.stop()

	if err := os.Rename(r.dir, r.dir+".away"); err != nil {
		t.Fatal(err)
	}
	w = follow(t, r.dir, there)
	if u := w.update(); u.Set.Revision != first {
		t.Errorf("restored %+v", u.Set.Revision)
	}
	w.state(Unreachable)
	w.stop()

	// Another branch of the same folder begins again: what held was of the other.
	if err := os.Rename(r.dir+".away", r.dir); err != nil {
		t.Fatal(err)
	}
	w = follow(t, r.dir, func(o *FollowOptions) { o.Dir, o.Branch = dir, "gone" })
	if w.state(BranchGone); w.Set() != nil {
		t.Error("another branch got the revision of main")
	}
}

func TestFollowIsAloneInItsFolder(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, nil)
	w.update()
	other, err := NewFollower(w.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, core.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// A storm of notifies becomes few looks: one that runs, one after it.
func TestNotifiesAreCoalesced(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.MinGap = 300 * time.Millisecond })
	w.update()
	w.state(Following)
	before := w.Status().Polls
	began := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 500 {
				w.Notify()
				_ = w.Status()
			}
		})
	}
	all.Wait()
	r.commit("second", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 6"))
	w.Notify()
	w.update()
	if polls, most := w.Status().Polls-before, int(time.Since(began)/(300*time.Millisecond))+2; polls < 1 || polls > most {
		t.Errorf("%d polls after 10000 notifications in %v, expected at most %d", polls, time.Since(began), most)
	}
}

func TestCheckoutsGoWhenNobodyUsesThem(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.Keep, o.KeepFor = 1, time.Nanosecond })
	first := w.update()
	held, err := w.Use(t.Context(), first.Set.Revision.Commit)
	if err != nil || held.Dir != first.Dir {
		t.Fatal(err)
	}
	w.state(Following)
	next := func(n string) {
		r.commit(n, edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: "+n))
		w.Notify()
		w.update()
		w.state(Following)
	}
	left := func() int {
		entries, err := os.ReadDir(w.trees.dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for _, n := range []string{"11", "12", "13"} {
		next(n)
	}
	if _, err := os.Stat(filepath.Join(first.Dir, "files/motd")); err != nil || left() != 3 {
		t.Errorf("%d checkouts are left; one in use: %v", left(), err)
	}
	held.Release()
	held.Release() // does nothing
	next("14")
	if _, err := os.Stat(first.Dir); err == nil || left() != 2 {
		t.Errorf("%d checkouts are left: one that nobody uses stays", left())
	}
	// A run that comes back to an old revision gets it again while the mirror has it.
	again, err := w.Use(t.Context(), first.Set.Revision.Commit)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(again.Dir, "files/motd")); err != nil || string(data) != "hello\n" {
		t.Errorf("motd: %q, %v", data, err)
	}
	again.Release()
	for _, wrong := range []string{strings.Repeat("0", 40), "../..", "main"} {
		if _, err := w.Use(t.Context(), wrong); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// A checkout that was the current one for long is kept for its time after the branch moved on: runs
// of that commit may still send its files.
func TestCheckoutIsKeptAfterTheBranchMovedOn(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.Keep = 1 })
	first := w.update()
	w.state(Following)
	old := time.Now().Add(-2 * w.o.KeepFor)
	if err := os.Chtimes(first.Dir, old, old); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"11", "12"} {
		r.commit(n, edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: "+n))
		w.Notify()
		w.update()
		w.state(Following)
	}
	if _, err := os.Stat(first.Dir); err != nil {
		t.Errorf("its files are gone: %v", err)
	}
}

// Many large commits on one day do not fill the disk, however young their checkouts are.
func TestYoungCheckoutsAreBounded(t *testing.T) {
	const commits = 14
	for most, want := range map[int64]int{64 << 10: 1 + maxTrees, 1 << 20: commits} { // the second is the negative control
		r := newRepo(t, good())
		w := follow(t, r.dir, func(o *FollowOptions) { o.Keep, o.MaxTree = 1, most })
		w.update()
		w.state(Following)
		for i := 1; i < commits; i++ {
			tree := edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", fmt.Sprint("max_in_flight: ", i+5))
			tree["files/large"] = strings.Repeat("0", 60<<10)
			r.commit("large", tree)
			w.Notify()
			w.update()
			w.state(Following)
		}
		entries, err := os.ReadDir(w.trees.dir)
		if err != nil || len(entries) != want {
			t.Errorf("trees of %d bytes at most: %d of %d checkouts are left, expected %d: %v", most, len(entries), commits, want, err)
		}
	}
}

// gitServer serves repositories over HTTP with git's own program, to clients that have the token.
func gitServer(t *testing.T, dir, user, password string) *httptest.Server {
	t.Helper()
	program := testparts.Need(t, "git", "git")
	h := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if u, p, ok := q.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "no: "+q.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, q)
	}))
	t.Cleanup(s.Close)
	return s
}

// The token of a URL authorizes, and is in no status, error, argument or file.
func TestTokensOfURLsAreNeverShown(t *testing.T) {
	const token = "glpat-S3cr%2Ft"
	r := newRepo(t, good())
	s := gitServer(t, r.dir, "bot", "glpat-S3cr/t")
	at := func(user string) string {
		return strings.Replace(s.URL, "http://", "http://"+user+"@", 1) + "/" + filepath.Base(r.dir) + "/.git"
	}
	// A git that writes down its arguments.
	log := filepath.Join(t.TempDir(), "args")
	spy := filepath.Join(t.TempDir(), "git")
	script := "#!/bin/sh\necho \"$@\" >>" + log + "\nexec git \"$@\"\n"
	if err := os.WriteFile(spy, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w := follow(t, at("bot:"+token), func(o *FollowOptions) { o.Git = spy })
	w.update()
	w.state(Following)
	args, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(args), "fetch") {
		t.Fatalf("the spy saw nothing: %v", err)
	}
	wrong := follow(t, at("bot:wrong-S3cr"), nil)
	st := wrong.state(Unreachable)
	if st.Error == "" {
		t.Error("a wrong token is no error")
	}
	_, bad := NewFollower(FollowOptions{URL: "gopher://bot:" + token + "@h/x", Branch: "main"})
	_, worse := NewFollower(FollowOptions{URL: "https://bot:" + token + "@h:port/x?private_token=" + token, Branch: "main"})
	var files strings.Builder
	_ = filepath.WalkDir(w.o.Dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(p, "objects") {
			data, _ := os.ReadFile(p)
			files.Write(data)
		}
		return nil
	})
	for what, text := range map[string]string{"arguments": string(args), "status": w.Status().Repository + w.Status().Error, "wrong token": st.Error + st.Repository, "files": files.String(), "bad URL": bad.Error(), "worse URL": worse.Error()} {
		for _, secret := range []string{"S3cr", "Ym90Omds", "bot:"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s hold %q: %s", what, secret, text)
			}
		}
	}
}
