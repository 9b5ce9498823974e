package copytree

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCompare(t *testing.T) {
	t.Parallel()
	const a, b = "aa", "bb"
	files := []wanted{{name: "x/one", sha256: a}, {name: "two", sha256: b, runs: true}}
	was := func(more ...string) *tree {
		return read(bytes.Lines([]byte("root d\nd ./x\nf ./x/one\nf ./two\ns aa  ./x/one\ns bb  ./two\n" +
			"n 755 0 0 ./x\nn -rw-r----- 7 8 ./x/one\nn 750 0 0 ./two\n" + strings.Join(more, "\n"))))
	}
	for name, c := range map[string]struct {
		p    Params
		now  *tree
		want []string // "!" and a part of an error
	}{
		"same":                 {Params{}, was(), nil},
		"nothing there":        {Params{}, read(bytes.Lines(nil)), []string{"d 0755 ./.", "f - ./two", "d 0755 ./x", "f - ./x/one"}},
		"with owner and modes": {Params{Owner: "app", Mode: "4755", DirMode: "0700"}, read(bytes.Lines([]byte("uid 5\n"))), []string{"d 00700 ./.", "o app ./.", "f app ./two", "m 4755 ./two", "d 00700 ./x", "o app ./x", "f app ./x/one", "m 4755 ./x/one"}},
		"other content":        {Params{}, was("s cc  ./x/one"), []string{"f 7:8 ./x/one"}},
		"a user alone":         {Params{Owner: "app"}, was("s cc  ./x/one", "uid 7", "gid "), []string{"o app ./two", "o app ./x", "f app:8 ./x/one"}},
		"mode only":            {Params{Mode: "0640"}, was(), []string{"m 00640 ./two"}},
		"made executable":      {Params{}, was("n -rw-r--r--+ 0 0 ./two"), []string{"m 00755 ./two"}},
		"private stays so":     {Params{}, was("n 600 0 0 ./two"), []string{"m 00700 ./two"}},
		"deepest first":        {Params{Delete: true}, was("xd ./x", "xf ./two", "xf ./x/one", "xd ./old", "xf ./old/a -> b", "xf ./z"), []string{"x - ./z", "x - ./old/a -> b", "r - ./old"}},
		"a folder in the way":  {Params{}, was("d ./two"), []string{"!two is there, and is no file"}},
		"a link for a folder":  {Params{}, was("l ./x"), []string{"!x is there, and is no folder"}},
		"a link for a file":    {Params{}, was("l ./two"), []string{"f - ./two"}},
		"no folder":            {Params{}, read(bytes.Lines([]byte("root o\n"))), []string{"!it is there, and is no folder"}},
	} {
		got, err := compare(c.p, files, c.now)
		switch {
		case err != nil && (len(c.want) != 1 || !strings.Contains("!"+err.Error(), c.want[0])):
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		case err == nil && !slices.Equal(got.ops, c.want):
			t.Errorf("%s: %q, expected %q", name, got.ops, c.want)
		}
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		more sdk.With
		ok   bool
	}{
		"least":           {nil, true},
		"a slash":         {sdk.With{"path": "/srv/"}, false},
		"the root":        {sdk.With{"path": "/", "delete": true}, false},
		"outside":         {sdk.With{"source": "a/../../b"}, false},
		"absolute":        {sdk.With{"source": "/etc"}, false},
		"stray vars":      {sdk.With{"vars": sdk.With{"a": 1}}, false},
		"a mode of words": {sdk.With{"mode": "u+x"}, false},
	} {
		with := sdk.With{"source": "files", "path": "/srv"}
		maps.Copy(with, c.more)
		if bad := kit.Validate(with); (len(bad) == 0) != c.ok {
			t.Errorf("%s: %q", name, bad)
		}
	}
}

// Secrets of a step make contents that may be guessed: their hashes are not shown.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def()).Artifact("files/a", "hunter2").Secret("PASSWORD", "hunter2")
	kit.Host("r1").Local()
	got := kit.Check(sdk.With{"source": "files", "path": t.TempDir()})
	if got.Outcome != "changed" || len(got.Diffs) != 1 || !strings.Contains(got.Diffs[0].Text, "+a new content") || strings.Contains(got.Diffs[0].Text, "sha256") {
		t.Errorf("%s (%s): %v", got.Outcome, got.Reason, got.Diffs)
	}
}

// A folder in one that the login may not enter is not absent: check mode fails as the run does.
// Control: root sees that it is absent.
func TestAHiddenFolderIsNotAbsent(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder of another user", syscall.EPERM)
	}
	closed := t.TempDir() + "/closed"
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for outcome, as := range map[string]plugintest.Handler{"failed": plugintest.ShellAs(65534, 65534), "changed": plugintest.Shell} {
		kit := plugintest.New(t, Def()).Artifact("files/a", "text")
		kit.Host("r1").Handle(as)
		got := kit.Check(sdk.With{"source": "files", "path": closed + "/new"})
		if got.Outcome != outcome || outcome == "failed" && !strings.Contains(got.Reason, "cannot be entered by this login") {
			t.Errorf("%s (%s), expected %s", got.Outcome, got.Reason, outcome)
		}
	}
}

// A folder gets the mode that is given: a new one, which has setgid of the folder around it, and
// one that is there. Control: without a mode the new folder keeps setgid.
func TestAGivenModeClearsSetgid(t *testing.T) {
	t.Parallel()
	const setgid = fs.ModeSetgid | 0o755
	for mode, want := range map[string]fs.FileMode{"0755": 0o755, "2755": setgid, "": setgid} {
		kit := plugintest.New(t, Def()).Artifact("files/a/b", "text")
		kit.Host("r1").Local()
		base := t.TempDir()
		folder := base + "/new/a"
		chmod := func(path string, mode fs.FileMode) {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		chmod(base, setgid)
		with := sdk.With{"source": "files", "path": base + "/new"}
		if mode != "" {
			with["dir_mode"] = mode
		}
		for i, outcome := range []string{"changed", "unchanged", "changed", "unchanged"} {
			if i == 2 {
				if mode == "" {
					break
				}
				chmod(folder, want^fs.ModeSetgid)
			}
			if got := kit.Run(with); got.Outcome != outcome {
				t.Errorf("mode %q, call %d: %s (%s), expected %s", mode, i, got.Outcome, got.Reason, outcome)
			}
			info, err := os.Stat(folder)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode() &^ fs.ModeDir; got != want {
				t.Errorf("mode %q, call %d: the folder has %v, expected %v", mode, i, got, want)
			}
		}
	}
}

// A signal to the script and its program, as of a host that ends what a killed worker left running,
// leaves no folder behind. Others may write to the folder of the host, so that each file is put in
// place by a folder of its own.
func TestASignalLeavesNoFolder(t *testing.T) {
	path := os.Getenv("PATH")
	for _, c := range []struct{ program, script, want string }{
		{"tar", "kill -TERM $PPID $$", "old"},
		{"mkdir", "PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		{"mkdir", "PROGRAM \"$@\"\ncase $* in *copy) ;; *) kill -TERM $PPID $$ ;; esac", "old"},
		{"mv", "kill -TERM $PPID $$", "old"},
		{"mv", "PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		{"rm", "kill -TERM $PPID $$\nexec PROGRAM \"$@\"", "text"},
	} {
		dir, bin := t.TempDir(), t.TempDir()
		found, err := exec.LookPath(c.program)
		if err := errors.Join(err, os.Chmod(dir, 0o777), os.WriteFile(dir+"/a", []byte("old"), 0o644),
			os.WriteFile(filepath.Join(bin, c.program), []byte("#!/bin/sh\n"+strings.ReplaceAll(c.script, "PROGRAM", found)+"\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+path)
		kit := plugintest.New(t, Def()).Artifact("files/a", "text")
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"source": "files", "path": dir})
		t.Setenv("PATH", path)
		names, err := os.ReadDir(dir)
		if content, _ := os.ReadFile(dir + "/a"); got.Outcome != "failed" || len(names) != 1 || string(content) != c.want || err != nil {
			t.Errorf("%s: %s (%s): the folder has %v, and the file %q, %v", c.program, got.Outcome, got.Reason, names, content, err)
		}
	}
}

// A name with a line break looks like two, and the second may be of any file. Nothing is removed.
// Controls: without delete it is no matter, and a name with a backslash goes.
func TestNoNameWithALineBreakIsRemoved(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"gone\n": true, "\ngone": true, "a\n/b": true, "a\n./b": true, `a\n/b`: false, " b ": false} {
		dir := t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755), os.WriteFile(dir+"/"+name, nil, 0o644), os.WriteFile(dir+"/b", nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		kit := plugintest.New(t, Def()).Artifact("files/a", "text")
		kit.Host("r1").Local()
		with := sdk.With{"source": "files", "path": dir, "delete": true}
		got := kit.Run(with)
		_, err := os.Stat(dir + "/b")
		if refused := got.Outcome == "failed" && got.Effects == "none" && err == nil && strings.Contains(got.Reason, "has a line break: remove it first, or leave out delete: true"); refused != broken {
			t.Errorf("%q: %s (%s), effects %s; another file: %v", name, got.Outcome, got.Reason, got.Effects, err)
		}
		with["delete"] = false
		if again := kit.Run(with); again.Outcome == "failed" {
			t.Errorf("%q, without delete: %s", name, again.Reason)
		}
	}
}
