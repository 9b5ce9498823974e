package unarchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWith(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		more sdk.With
		ok   bool
	}{
		"tar":      {sdk.With{"source": "a.tar"}, true},
		"tar.gz":   {sdk.With{"source": "a-1.4.tar.gz"}, true},
		"zip":      {sdk.With{"archive": "/var/a.zip"}, true},
		"both":     {sdk.With{"source": "a.tar", "archive": "/var/a.zip"}, false},
		"none":     {nil, false},
		"rar":      {sdk.With{"source": "a.rar"}, false},
		"relative": {sdk.With{"archive": "a.tar"}, false},
		"the root": {sdk.With{"source": "a.tar", "path": "/"}, false},
		"dots":     {sdk.With{"source": "a.tar", "path": "/srv/../etc"}, false},
	} {
		with := sdk.With{"path": "/srv/a"}
		maps.Copy(with, c.more)
		if bad := kit.Validate(with); (len(bad) == 0) != c.ok {
			t.Errorf("%s: %q", name, bad)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for answer, refused := range map[string]bool{
		"": false, "kind full\nmark sha256:x\n": false, "leftover\n": false,
		"kind full\n": true, "kind other\n": true, "noarchive\n": true, "planted\nkind full\n": true, "nounzip\n": true,
	} {
		if why := refusal(Params{Path: "/srv/a"}, sdk.ReadAnswer(answer)); (why != "") != refused {
			t.Errorf("%q: %q", answer, why)
		}
	}
}

// Root unpacks beside the path by names, which the owner of a folder above could exchange for
// links. There it refuses, and touches nothing. Control: the same folder of root's, also below one
// in which nobody removes the files of others.
func TestFaultS2RootUnpacksInNoFolderOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	archive := packed(t, tar.Header{Name: "a"})
	for name, c := range map[string]struct {
		owner int
		mode  os.FileMode
		below string
		ok    bool
	}{
		"root's":            {0, 0o755, "app", true},
		"sticky":            {0, 0o777 | os.ModeSticky, "app", true},
		"a user's":          {65534, 0o755, "app", false},
		"of all":            {0, 0o777, "app", false},
		"of a group":        {0, 0o775, "app", false},
		"above it a user's": {65534, 0o755, "more/app", false},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Chown(dir, c.owner, c.owner), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		kit := plugintest.New(t, Def()).Artifact("a.tar", archive)
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"source": "a.tar", "path": filepath.Join(dir, c.below)})
		left, err := os.ReadDir(dir)
		if refused := strings.Contains(got.Reason, "others may write to "+dir) && got.Effects == "none" && len(left) == 0; (got.Outcome == "changed") != c.ok || refused == c.ok || err != nil {
			t.Errorf("%s: %s (%s), effects %s; it holds %v, %v", name, got.Outcome, got.Reason, got.Effects, left, err)
		}
	}
}

// Root's own link leads into a folder of a user, who can exchange what is in it, also a folder of
// root's. Nothing is unpacked there, nor behind a link of that user. Control: a link to a folder of
// root's.
func TestFaultS2RootUnpacksInNoFolderOfOthersBehindALink(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	for _, c := range []struct {
		link   string
		reason string // "" for an archive that is unpacked
	}{{"good", ""}, {"user", "others may write to "}, {"below", "others may write to "}, {"user/evil", "is a link to a folder of another user"}} {
		dir := t.TempDir()
		if err := errors.Join(os.MkdirAll(dir+"/home/roots", 0o755), os.Mkdir(dir+"/root", 0o755), os.Symlink("root", dir+"/good"), os.Symlink("home", dir+"/user"),
			os.Symlink("home/roots", dir+"/below"), os.Symlink("../root", dir+"/home/evil"), os.Chown(dir+"/home", 65534, 65534), os.Lchown(dir+"/home/evil", 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		kit := plugintest.New(t, Def()).Artifact("a.tar", packed(t, tar.Header{Name: "a"}))
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"source": "a.tar", "path": dir + "/" + c.link + "/app"})
		_, missing := os.Stat(dir + "/" + c.link + "/app/a")
		if (got.Outcome == "changed") != (c.reason == "") || !strings.Contains(got.Reason, c.reason) || (missing == nil) != (c.reason == "") {
			t.Errorf("%s: %s (%s); the file: %v", c.link, got.Outcome, got.Reason, missing)
		}
	}
}

// packed is an archive; a file has its name as its content.
func packed(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range entries {
		if h.Mode = 0o644; h.Linkname == "" {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(h.Name[:h.Size])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.String()
}

// shim puts a program before the others of PATH, which does more than the one of its name.
func shim(t *testing.T, program, script string) {
	t.Helper()
	found, err := exec.LookPath(program)
	bin := t.TempDir()
	if err := errors.Join(err, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "PROGRAM", found)+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// A signal to the script and its program, as of a host that ends what a killed worker left running,
// leaves the old folder at its place or the new one, and nothing beside it. The result shows which:
// once the new one is whole, a signal changes nothing.
func TestASignalLeavesAWholeFolder(t *testing.T) {
	for program, c := range map[string]struct{ script, want string }{
		"tar":   {"PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		"mv":    {"PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		"rm":    {"case $* in *.turnus-old) [ ! -d \"$2\" ] || kill -TERM $PPID $$ ;; esac\nexec PROGRAM \"$@\"", "new"},
		"chmod": {"kill -TERM $PPID $$", "old"},
	} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			outcome := ""
			for _, name := range []string{"old", "new"} {
				if name == "new" {
					shim(t, program, c.script)
				}
				kit := plugintest.New(t, Def()).Artifact("a.tar", packed(t, tar.Header{Name: name}))
				kit.Host("r1").Local()
				got := kit.Run(sdk.With{"source": "a.tar", "path": dir + "/app"})
				t.Logf("%s: %s (%s)", name, got.Outcome, got.Reason)
				outcome = got.Outcome
			}
			beside, err := os.ReadDir(dir)
			if _, missing := os.Stat(dir + "/app/" + c.want); err != nil || missing != nil || len(beside) != 1 || (outcome == "changed") != (c.want == "new") {
				t.Errorf("%s: the folder holds %v, %v, %v", outcome, beside, err, missing)
			}
		})
	}
}

// A damaged archive fails the step, also where tar finds it whole: gzip checks its sum at the end.
// Where tar fails, the reason has what it printed, and names a link as a cause. Control: the same
// archive as it was.
func TestTheReasonNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(packed(t, tar.Header{Name: "a"}))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := zipped.String()
	const link = "the archive has a link out of its folder or is damaged, or the disk is full"
	for name, c := range map[string]struct {
		source, archive string
		reasons         []string // nil for an archive that is unpacked
	}{
		"whole":              {"a.tgz", whole, nil},
		"a sum that differs": {"a.tgz", whole[:len(whole)-8] + "checksum", []string{"the archive cannot be read"}},
		"without its sum":    {"a.tgz", whole[:len(whole)-8], []string{"the archive cannot be read"}},
		"through a link": {"a.tar", packed(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/nosuch"}, tar.Header{Name: "l/evil"}, tar.Header{Name: "m"}),
			[]string{"it was not unpacked: tar: ", link}},
		"a hard link": {"a.tar", packed(t, tar.Header{Name: "a"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/nosuch/file"}),
			[]string{"it was not unpacked: tar: ", "nosuch/file", link}},
	} {
		dir := t.TempDir()
		kit := plugintest.New(t, Def()).Artifact(c.source, c.archive)
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"source": c.source, "path": dir + "/app"})
		left, err := os.ReadDir(dir)
		if (got.Outcome == "changed") != (c.reasons == nil) || err != nil || len(left) > 0 != (c.reasons == nil) {
			t.Errorf("%s: %s (%s); the folder above holds %v, %v", name, got.Outcome, got.Reason, left, err)
		}
		for _, want := range c.reasons {
			if !strings.Contains(got.Reason, want) {
				t.Errorf("%s: %s, expected %q in it", name, got.Reason, want)
			}
		}
	}
}

// An owner whom the host does not know fails before anything is unpacked, as in check mode. Behind
// a step that would change the host, check mode counts it as a change. Control: a number.
func TestAnOwnerWhomTheHostDoesNotKnow(t *testing.T) {
	t.Parallel()
	for owner, known := range map[string]bool{"nosuch-user": false, "root:nosuch-group": false, "root:root": true, "4242:4242": true} {
		kit := plugintest.New(t, Def()).Artifact("a.tar", packed(t, tar.Header{Name: "a"}))
		kit.Host("r1").Local()
		with := sdk.With{"source": "a.tar", "path": t.TempDir() + "/app", "owner": owner}
		const unknown = "the host does not know the owner "
		checked := kit.Check(with)
		if refused := checked.Outcome == "failed" && checked.Effects == "none" && strings.Contains(checked.Reason, unknown+owner); refused == known {
			t.Errorf("%s, check mode: %s (%s), effects %s", owner, checked.Outcome, checked.Reason, checked.Effects)
		}
		if behind := kit.Run(with, plugintest.AfterChange()); behind.Outcome != "changed" || strings.Contains(behind.Reason, unknown+owner) == known {
			t.Errorf("%s, after a change: %s (%s)", owner, behind.Outcome, behind.Reason)
		}
		if known {
			continue
		}
		if got := kit.Run(with); got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, unknown+owner) {
			t.Errorf("%s: %s (%s), effects %s", owner, got.Outcome, got.Reason, got.Effects)
		}
	}
}

// The next step removes the leftovers of a killed one, and sends no archive for it: the script ends
// before it has read a large one, which would fail the step. Control: the first step sends it.
func TestLeftoversGoWithoutTheArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive := packed(t, tar.Header{Name: "a"})
	kit := plugintest.New(t, Def()).Artifact("a.tar", archive)
	host := kit.Host("r1").Local()
	with := sdk.With{"source": "a.tar", "path": dir + "/app"}
	for _, c := range []struct{ outcome, sent string }{{"changed", archive}, {"unchanged", ""}} {
		got := kit.Run(with)
		left, err := os.ReadDir(dir)
		calls := host.Calls()
		if sent := calls[len(calls)-1].Stdin; got.Outcome != c.outcome || sent != c.sent || len(calls)%2 != 0 || err != nil || len(left) != 1 {
			t.Errorf("%s (%s) with an input of %d bytes; the folder above holds %v, %v", got.Outcome, got.Reason, len(sent), left, err)
		}
		if err := os.MkdirAll(dir+"/app.turnus-new/x", 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
