package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// refused follows a repository whose tip is hostile, and returns the error in the status. The
// commit before it is good, and must keep holding.
func refused(t *testing.T, r *repo, change func(o *FollowOptions)) string {
	t.Helper()
	first := r.git("rev-parse", "HEAD~1")
	tip := r.git("rev-parse", "HEAD")
	r.git("update-ref", "refs/heads/main", first)
	w := follow(t, r.dir, change)
	w.update()
	w.state(Following)
	r.git("update-ref", "refs/heads/main", tip)
	w.Notify()
	s := w.until("judged", func(s Status) bool { return s.State == BadCommit || s.Good.Commit == tip })
	if s.State != BadCommit {
		t.Fatalf("the hostile commit is in use: %+v", s)
	}
	if s.Good.Commit != first || len(w.updates) != 0 {
		t.Errorf("status %+v", s)
	}
	entries, err := os.ReadDir(w.trees.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("checkouts left: %v, %v", entries, err)
	}
	return s.Error
}

func (r *repo) link(path, target string) {
	r.t.Helper()
	file := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		r.t.Fatal(err)
	}
}

func TestHostileLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		links [][2]string
		want  string
	}{
		"a playbook":         {[][2]string{{"playbooks/leak.yaml", "/etc/passwd"}}, "playbooks/leak.yaml: the file is a symbolic link"},
		"absolute":           {[][2]string{{"files/leak", "/etc/passwd"}}, "files/leak: the symbolic link to \"/etc/passwd\" leads out of the tree"},
		"upwards":            {[][2]string{{"files/leak", "../../../../../../../../etc/passwd"}}, "leads out of the tree"},
		"by another link":    {[][2]string{{"files/up", ".."}, {"files/leak", "up/../../../lock"}}, "leads out of the tree"}, // each target alone stays inside
		"nowhere":            {[][2]string{{"files/leak", "nothing"}}, "leads out of the tree, or nowhere"},
		"in a circle":        {[][2]string{{"files/x", "y"}, {"files/y", "x"}}, "leads out of the tree, or nowhere"},
		"to what is removed": {[][2]string{{"files/leak", "../../.new-1"}}, "leads out of the tree"},
		"the whole folder":   {[][2]string{{"windows", "/etc"}}, "windows: the file is a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, good())
			if name == "the whole folder" {
				r.git("rm", "-rq", "windows")
			}
			for _, l := range tc.links {
				r.link(l[0], l[1])
			}
			r.commitAll("hostile")
			if got := refused(t, r, nil); !strings.Contains(got, tc.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// The negative control: links within the tree are fine, and lead there.
func TestLinksWithinTheTreeStay(t *testing.T) {
	r := newRepo(t, good())
	r.link("files/current", "motd")
	r.link("files/more/up", "../motd")
	commit := r.commitAll("links")
	w := follow(t, r.dir, nil)
	u := w.update()
	for _, p := range []string{"files/current", "files/more/up"} {
		if data, err := os.ReadFile(filepath.Join(u.Dir, p)); err != nil || string(data) != "hello\n" || u.Set.Revision.Commit != commit {
			t.Errorf("%s: %q, %v", p, data, err)
		}
	}
}

// Settings of a repository for its files are not obeyed: the checkout holds what was committed.
func TestAttributesFiltersAndHooksDoNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	tree := with(good(),
		".gitattributes", "* text eol=crlf\nfiles/id ident export-subst\nfiles/gone export-ignore\nfiles/motd filter=evil\n",
		"files/id", "$Id$ $Format:%H$\n", "files/gone", "here\n", ".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% "+marker+"\n",
		"hooks/post-checkout", "#!/bin/sh\ntouch "+marker+"\n", ".lfsconfig", "[lfs]\n\turl = file:///etc\n", "config", "[core]\n\tfsmonitor = touch "+marker+"\n")
	r := newRepo(t, nil)
	r.git("config", "core.autocrlf", "false")
	r.git("config", "filter.evil.clean", "cat")
	r.git("config", "filter.evil.smudge", "touch "+marker)
	for _, hook := range []string{"post-checkout", "post-update", "reference-transaction", "pre-receive", "update"} {
		file := filepath.Join(r.dir, ".git", "hooks", hook)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if hook == "reference-transaction" || hook == "post-checkout" {
			continue // the test's own commits would run them
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.commit("hostile", tree)
	w := follow(t, r.dir, nil)
	u := w.update()
	for p, want := range map[string]string{"files/id": "$Id$ $Format:%H$\n", "files/gone": "here\n", "files/motd": "hello\n"} {
		if data, err := os.ReadFile(filepath.Join(u.Dir, p)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", p, data, err)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something of the repository was run")
	}
}

func TestHostileTrees(t *testing.T) {
	blob := func(r *repo) string {
		file := filepath.Join(r.t.TempDir(), "blob")
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			r.t.Fatal(err)
		}
		return r.git("hash-object", "-w", file)
	}
	for name, tc := range map[string]struct {
		make   func(r *repo)
		change func(o *FollowOptions)
		want   string
	}{
		"submodule for playbooks": {func(r *repo) {
			r.git("update-index", "--add", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",playbooks/sub.yaml")
			r.git("commit", "--quiet", "-m", "module")
		}, nil, "playbooks/sub.yaml: a submodule stands here"},
		"huge definition": {func(r *repo) {
			writeTree(r.t, r.dir, map[string]string{"inventory/huge": strings.Repeat("#", MaxFileSize+1)})
			r.commitAll("huge")
		}, nil, "inventory/huge: the file is larger than 10 MiB"},
		"huge artifact": {func(r *repo) {
			writeTree(r.t, r.dir, map[string]string{"files/huge": strings.Repeat("0", 3<<20)})
			r.commitAll("huge")
		}, func(o *FollowOptions) { o.MaxTree = 2 << 20 }, "files/huge: the tree is larger than 2 MiB"},
		"deep folders": {func(r *repo) {
			r.git("update-index", "--add", "--cacheinfo", "100644,"+blob(r)+","+strings.Repeat("d/", 40)+"f")
			r.git("commit", "--quiet", "-m", "deep")
		}, nil, "lies more than 32 folders deep"},
		"long name": {func(r *repo) {
			r.git("update-index", "--add", "--cacheinfo", "100644,"+blob(r)+","+strings.Repeat("d", 1200))
			r.git("commit", "--quiet", "-m", "long")
		}, nil, "is longer than 1024 bytes"},
		"name that steers a terminal": {func(r *repo) {
			r.git("update-index", "--add", "--cacheinfo", "100644,"+blob(r)+",files/\x1b[2Jx")
			r.git("commit", "--quiet", "-m", "esc")
		}, nil, `"files/\x1b[2Jx": the file has characters that file names here may not have`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, good())
			tc.make(r)
			if got := refused(t, r, tc.change); !strings.Contains(got, tc.want) || strings.Contains(got, "\x1b") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Git takes a time that is in the year 10000 in UTC, which JSON cannot hold. The definitions and
// the status are written nevertheless.
func TestACommitOfTheYear10000(t *testing.T) {
	r := newRepo(t, good())
	file := filepath.Join(t.TempDir(), "commit")
	text := "tree " + r.git("rev-parse", "HEAD^{tree}") + "\nparent " + r.git("rev-parse", "HEAD") +
		"\nauthor A <a@example.org> 0 +0000\ncommitter A <a@example.org> 253402343999 -1200\n\nlate\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tip := r.git("hash-object", "-w", "-t", "commit", file)
	r.git("update-ref", "refs/heads/main", tip)
	if when := r.git("log", "-1", "--format=%cI", tip); when != "9999-12-31T23:59:59-12:00" {
		t.Fatalf("negative control: the commit is of %s", when)
	}
	w := follow(t, r.dir, nil)
	if _, err := w.update().Set.Encode(); err != nil {
		t.Error(err)
	}
	if _, err := json.Marshal(w.state(Following)); err != nil {
		t.Error(err)
	}
}

// A tree object may hold names that no index takes: ls-tree's lines are all that is believed.
func TestTreeEntriesAreChecked(t *testing.T) {
	h := strings.Repeat("a", 40)
	for line, want := range map[string]string{
		"100644 blob " + h + "      5\t../x":        "is no path below the root",
		"100644 blob " + h + "      5\ta/../../x":   "is no path below the root",
		"100644 blob " + h + "      5\t/etc/x":      "is no path below the root",
		"100644 blob " + h + "      5\ta/.git/conf": "a repository's own folder",
		"100644 blob " + h + "      5\t.Git/config": "a repository's own folder",
		"100644 blob " + h + "      -\ta":           "missing in the repository",
		"100644 blob x      5\ta":                   "unexpected line",
		"nonsense":                                  "unexpected line",
	} {
		if _, err := parseEntry(line); err == nil || !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if e, err := parseEntry("100755 blob " + h + "      5\ta/b"); err != nil || e.kind != program || e.size != 5 || e.path != "a/b" {
		t.Errorf("%+v, %v", e, err)
	}
}

// Somebody who may push anything but the branch cannot keep it from being followed, by many refs
// whose names end as its own.
func TestRefsThatEndAsTheBranchDoNotHideIt(t *testing.T) {
	r := newRepo(t, good())
	tip := r.git("rev-parse", "HEAD")
	var refs strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&refs, "%s refs/heads/%05d/refs/heads/main\n", tip, i)
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".git", "packed-refs"), []byte(refs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(r.git("ls-remote", ".", "refs/heads/main")); n <= maxOutput {
		t.Fatalf("negative control: git lists %d bytes", n)
	}
	if u := follow(t, r.dir, nil).update(); u.Set.Revision.Commit != tip {
		t.Errorf("the branch is at %s", u.Set.Revision.Commit)
	}
}

func TestHostileBranchNames(t *testing.T) {
	r := newRepo(t, good())
	r.git("update-ref", "refs/heads/--upload-pack=touch", "HEAD")
	w := follow(t, r.dir, func(o *FollowOptions) { o.Branch = "--upload-pack=touch" }) // a legal name, which is no option
	w.update()
	for _, name := range []string{"", "a..b", "a b", "a~1", "main^{}", "@{-1}", "@", "/x", "x/", "x.lock", "a/.b", "*", "a:b", "a\nb", "a\\b"} {
		if _, err := NewFollower(FollowOptions{URL: r.dir, Branch: name, Dir: "x", Apply: w.o.Apply}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHostileAddresses(t *testing.T) {
	for _, text := range []string{"", "-x", "--upload-pack=x", "ext::sh -c x", "git::ext::x", "http://example.org/x", "git://example.org/x", "ftp://h/x", "https://-oProxyCommand=x/y",
		"ssh://-oProxyCommand=x/y", "ssh://u:p@h/x", "https://h/x?token=1", "https://h\n/x", "fd::7"} {
		if r, err := parseRemote(text); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	for text, want := range map[string]string{"https://u:p@h.example/x.git": "https://h.example/x.git", "git@h.example:o/x.git": "git@h.example:o/x.git", "ssh://git@h:2222/x": "ssh://git@h:2222/x",
		"http://127.0.0.1:1/x": "http://127.0.0.1:1/x", "http://localhost/x": "http://localhost/x", "file:///srv/x": "file:///srv/x", "/srv/x": "/srv/x"} {
		if r, err := parseRemote(text); err != nil || r.address != want {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func incompressible(size int) []byte {
	noise := make([]byte, size)
	seed := uint64(1)
	for i := range noise {
		seed = seed*6364136223846793005 + 1442695040888963407
		noise[i] = byte(seed >> 56)
	}
	return noise
}

// A repository that grows larger than it may be is refused, does not fill the disk, and does not
// take away what holds, not even over a restart.
func TestMirrorIsBounded(t *testing.T) {
	r := newRepo(t, good())
	dir := filepath.Join(t.TempDir(), "f")
	small := func(o *FollowOptions) { o.Dir, o.MaxMirror = dir, 1<<20 }
	w := follow(t, r.dir, small)
	first := w.update().Set.Revision
	w.state(Following)
	r.commit("large", with(good(), "files/noise", string(incompressible(4<<20))))
	w.Notify()
	s := w.state(Unreachable)
	if !strings.Contains(s.Error, "the repository is too large: over 1 MiB") || s.Good != first {
		t.Errorf("status %+v", s)
	}
	w.stop()
	if n := sizeOf(w.g.dir); n > 1<<20 {
		t.Errorf("%d bytes are left", n)
	}
	if w = follow(t, r.dir, small); w.update().Set.Revision != first {
		t.Error("the good revision went with the large one")
	}
}

// TestMirrorDropsWhatAKilledFetchKept shows the one moment of TestMirrorIsBounded that it meets
// only on a busy machine: git has written the pack and the .keep file beside it, and is killed
// before it removes the .keep file. gc then removes nothing.
func TestMirrorDropsWhatAKilledFetchKept(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, func(o *FollowOptions) { o.MaxMirror = 1 << 20 })
	first := w.update().Set.Revision
	w.state(Following)
	w.stop()
	r.commit("large", with(good(), "files/noise", string(incompressible(4<<20))))
	if _, err := w.g.run(t.Context(), patience, "fetch", "--quiet", "--", r.dir, "+refs/heads/main:"+tipRef); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(w.g.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs %v, %v", packs, err)
	}
	for _, p := range packs {
		if err := os.WriteFile(strings.TrimSuffix(p, ".pack")+".keep", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range [][]string{{"update-ref", "-d", tipRef}, {"gc", "--quiet", "--prune=now"}} {
		if _, err := w.g.run(t.Context(), patience, call...); err != nil {
			t.Fatal(err)
		}
	}
	if n := sizeOf(w.g.dir); n < 4<<20 {
		t.Fatalf("the control shows nothing: gc alone leaves %d bytes", n)
	}
	if err := w.mend(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if n := sizeOf(w.g.dir); n > 1<<19 {
		t.Errorf("%d bytes are left", n)
	}
	if commit, err := w.g.resolve(t.Context(), goodRef); commit != first.Commit {
		t.Errorf("the good revision is %q, %v", commit, err)
	}
}

// A stop in the middle of mending leaves the good revision where it was.
func TestMirrorOutlivesAStopWhileItIsMended(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, nil)
	first := w.update().Set.Revision
	w.state(Following)
	w.stop()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := w.mend(stopped, true); !errors.Is(err, context.Canceled) {
		t.Errorf("mend: %v", err)
	}
	if commit, err := w.g.resolve(t.Context(), goodRef); commit != first.Commit {
		t.Errorf("the good revision is %q, %v", commit, err)
	}
}

// Remains of killed programs, and a damaged mirror, do not stop the following.
func TestMirrorIsMended(t *testing.T) {
	r := newRepo(t, good())
	dir := filepath.Join(t.TempDir(), "f")
	o := func(o *FollowOptions) {
		o.Dir, o.Every, o.MaxBackoff = dir, 10*time.Millisecond, 10*time.Millisecond
	}
	w := follow(t, r.dir, o)
	w.update()
	w.state(Following)
	w.stop()
	for _, left := range []string{"shallow.lock", "packed-refs.lock", "refs/turnus/tip.lock", "gc.pid"} {
		if err := os.WriteFile(filepath.Join(w.g.dir, left), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := r.commit("second", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 6"))
	w = follow(t, r.dir, o)
	w.update() // restored
	if u := w.update(); u.Set.Revision.Commit != second {
		t.Errorf("update %+v", u.Set.Revision)
	}
	w.stop()
	packs, err := filepath.Glob(filepath.Join(w.g.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs %v, %v", packs, err)
	}
	for _, p := range packs {
		if err := errors.Join(os.Remove(p), os.WriteFile(p, []byte("PACK"), 0o600)); err != nil { // it is read-only
			t.Fatal(err)
		}
	}
	third := r.commit("third", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 7"))
	w = follow(t, r.dir, o)
	if u := w.update(); u.Set.Revision.Commit != third {
		t.Errorf("update %+v", u.Set.Revision)
	}
}

// A remote that accepts and sends nothing is abandoned in time, and asked again. Nothing here has
// to be done within that time: the request hangs from the first.
func TestHangingRemoteIsGivenUp(t *testing.T) {
	r := newRepo(t, good())
	asked := make(chan (<-chan struct{}), 100) // of each request, what ends when git has let go of it
	front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // only then does the server see that the client went
		select {
		case asked <- q.Context().Done():
		default:
		}
		<-q.Context().Done()
	}))
	t.Cleanup(front.Close)
	w := follow(t, front.URL+"/"+filepath.Base(r.dir)+"/.git", func(o *FollowOptions) {
		o.Timeout, o.Every, o.MaxBackoff = 2*time.Second, 10*time.Millisecond, 10*time.Millisecond
	})
	if s := w.state(Unreachable); !strings.Contains(s.Error, "not done within 2s") {
		t.Errorf("status %+v", s)
	}
	for range 2 {
		select {
		case gone := <-asked:
			<-gone
		case <-time.After(patience):
			t.Fatal("it is not asked again")
		}
	}
}

func TestManyCommitsKeepTheMirrorSmall(t *testing.T) {
	r := newRepo(t, good())
	w := follow(t, r.dir, nil)
	w.update()
	w.state(Following)
	for i := range maxPacks + 3 {
		r.commit("more", edited(good(), "playbooks/patch.yaml", "max_in_flight: 5", fmt.Sprintf("max_in_flight: %d", i+10)))
		w.Notify()
		w.update()
		w.state(Following)
	}
	packs, err := filepath.Glob(filepath.Join(w.g.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) > maxPacks {
		t.Errorf("%d packs, %v", len(packs), err)
	}
}
