package file_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names that a careless command line gets wrong.
var names = []string{"with space", "it's", `"q"`, "-rf", "$(touch pwned)", "*", "ends with space ", "ümlaut"}

// worst is all of them in one.
const worst = "-a it's \"q\" $(touch pwned) * new ümlaut "

// step is one call, and what the path is afterwards: "absent", "link TARGET",
// "directory MODE" or "file MODE CONTENT".
type step struct {
	with    sdk.With
	outcome string
	after   string
}

func state(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return "absent"
	case err != nil:
		t.Fatal(err)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		return "link " + target
	case info.IsDir():
		return fmt.Sprintf("directory %04o", info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("file %04o %s", info.Mode().Perm(), content)
}

func TestFileUnderEveryName(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			walk(t, name, []step{
				{sdk.With{"content": "one\n"}, "changed", "file 0644 one\n"},
				{sdk.With{"content": "one\n", "mode": "0600"}, "changed", "file 0600 one\n"},
				{sdk.With{"content": "one\n"}, "unchanged", "file 0600 one\n"},
				{sdk.With{"state": "absent"}, "changed", "absent"},
			})
		})
	}
}

// The old content may hold the secret as it was, and a hash can be tried: neither is shown.
func TestContentOfSecretsIsNotShown(t *testing.T) {
	kit := plugintest.New(t, file.Def()).Secret("PW", "hunter2")
	kit.Host("r1").Local()
	path := filepath.Join(t.TempDir(), "f")
	for i, pw := range []string{"hunter1", "hunter2"} {
		r := kit.Run(sdk.With{"path": path, "content": "pw = " + pw + "\n"})
		text := fmt.Sprintf("%+v", r)
		if r.Outcome != "changed" || strings.Contains(text, "hunter") || r.Outputs["sha256"] != nil || len(r.Diffs) != 2-i || state(t, path) != "file 0600 pw = "+pw+"\n" {
			t.Errorf("%s; %s", text, state(t, path))
		}
	}
}

func TestPathThroughAllItsStates(t *testing.T) {
	for _, name := range []string{"plain", worst} {
		t.Run(name, func(t *testing.T) {
			walk(t, name, []step{
				{sdk.With{"state": "absent"}, "unchanged", "absent"},
				{sdk.With{"content": "one\n"}, "changed", "file 0644 one\n"},
				{sdk.With{"content": "one\n"}, "unchanged", "file 0644 one\n"},
				{sdk.With{"content": "one\n", "mode": "0600"}, "changed", "file 0600 one\n"},
				{sdk.With{"content": "two\n"}, "changed", "file 0600 two\n"},
				{sdk.With{"content": "two\n", "mode": "600"}, "unchanged", "file 0600 two\n"},
				{sdk.With{"mode": "0640"}, "changed", "file 0640 two\n"},
				{sdk.With{"source": "image"}, "changed", "file 0640 bits"},
				{sdk.With{"source": "image"}, "unchanged", "file 0640 bits"},
				{sdk.With{"content": ""}, "changed", "file 0640 "},
				{sdk.With{"state": "directory"}, "failed", "file 0640 "},
				{sdk.With{"state": "link", "target": "x"}, "failed", "file 0640 "},
				{sdk.With{"state": "absent"}, "changed", "absent"},
				{sdk.With{"state": "link", "target": "-odd target's end"}, "changed", "link -odd target's end"},
				{sdk.With{"state": "link", "target": "-odd target's end"}, "unchanged", "link -odd target's end"},
				{sdk.With{"state": "link", "target": "."}, "changed", "link ."},
				{sdk.With{"state": "link", "target": "other"}, "changed", "link other"},
				{sdk.With{"content": "file"}, "changed", "file 0644 file"},
				{sdk.With{"state": "absent"}, "changed", "absent"},
				{sdk.With{"state": "directory", "mode": "0750"}, "changed", "directory 0750"},
				{sdk.With{"state": "directory", "mode": "0750"}, "unchanged", "directory 0750"},
				{sdk.With{"state": "directory"}, "unchanged", "directory 0750"},
				{sdk.With{"content": "x"}, "failed", "directory 0750"},
				{sdk.With{"state": "absent"}, "changed", "absent"},
				{sdk.With{"mode": "0600"}, "failed", "absent"},
			})
		})
	}
}

func walk(t *testing.T, name string, steps []step) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	kit := plugintest.New(t, file.Def())
	kit.Artifact("image", "bits").Host("r1").Local()
	for i, s := range steps {
		s.with["path"] = path
		got := kit.Run(s.with)
		if got.Outcome != s.outcome {
			t.Errorf("step %d, %v: got %s (%s), want %s", i, s.with, got.Outcome, got.Reason, s.outcome)
		}
		if after := state(t, path); after != s.after {
			t.Errorf("step %d, %v: the path is %q, want %q", i, s.with, after, s.after)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCheckModeChangesNothingAndShowsTheDifference(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	for name, tc := range map[string]struct {
		with sdk.With
		diff []string
	}{
		"content":   {sdk.With{"path": old, "content": "a\nc\n"}, []string{" a\n-b\n+c\n"}},
		"mode":      {sdk.With{"path": old, "content": "a\nb\n", "mode": "0600"}, []string{"-mode 0644\n+mode 0600\n"}},
		"new":       {sdk.With{"path": old + "2", "content": "x\n"}, []string{"+x\n", "+mode 0644\n"}},
		"binary":    {sdk.With{"path": old, "source": "bin"}, []string{"+ binary, 3 bytes"}},
		"absent":    {sdk.With{"path": old, "state": "absent"}, []string{"-file\n"}},
		"directory": {sdk.With{"path": old + "3", "state": "directory"}, []string{"+directory\n+mode 0755\n"}},
		"link":      {sdk.With{"path": old + "4", "state": "link", "target": "t"}, []string{"+link to t\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(old, []byte("a\nb\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			kit := plugintest.New(t, file.Def())
			kit.Artifact("bin", "\x00\x01\x02").Host("r1").Local()
			got := kit.Check(tc.with)
			if got.Outcome != "changed" {
				t.Errorf("got %s (%s), want changed", got.Outcome, got.Reason)
			}
			var text strings.Builder
			for _, d := range got.Diffs {
				text.WriteString(d.Text)
			}
			for _, want := range tc.diff {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the diff lacks %q:\n%s", want, text.String())
				}
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 || state(t, old) != "file 0644 a\nb\n" {
				t.Errorf("check mode changed something: %v, %s", entries, state(t, old))
			}
			if again := kit.Run(tc.with); again.Outcome != "changed" {
				t.Errorf("control: without check mode: got %s (%s)", again.Outcome, again.Reason)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestBackupKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conf")
	kit := plugintest.New(t, file.Def())
	kit.Host("r1").Local()
	kit.Run(sdk.With{"path": path, "content": "one", "backup": ".orig"})
	if got := state(t, path+".orig"); got != "absent" {
		t.Errorf("a backup of nothing: %s", got)
	}
	got := kit.Run(sdk.With{"path": path, "content": "two", "backup": ".orig"})
	if got.Outputs["backup"] != path+".orig" || !strings.HasSuffix(state(t, path+".orig"), " one") {
		t.Errorf("got %v, %s", got.Outputs, state(t, path+".orig"))
	}
	kit.Run(sdk.With{"path": path, "state": "absent", "backup": ".gone"})
	if !strings.HasSuffix(state(t, path+".gone"), " two") || state(t, path) != "absent" {
		t.Errorf("absent with backup: %s, %s", state(t, path), state(t, path+".gone"))
	}
}

func TestDirectoryIsRemovedWithItsContentOnlyOnRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	kit := plugintest.New(t, file.Def())
	kit.Host("r1").Local()
	if got := kit.Run(sdk.With{"path": path, "state": "absent"}); got.Outcome != "failed" || state(t, path) != "directory 0755" {
		t.Errorf("got %s (%s), %s", got.Outcome, got.Reason, state(t, path))
	}
	if got := kit.Run(sdk.With{"path": path, "state": "absent", "recurse": true}); got.Outcome != "changed" || state(t, path) != "absent" {
		t.Errorf("recurse: got %s (%s), %s", got.Outcome, got.Reason, state(t, path))
	}
}

func TestTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		text, outcome, want string
	}{
		"everything": {
			`{{.Host}} {{.Labels.role}} {{.Vars.site.name}} {{join "," .Vars.list}} {{.Vars.n | printf "%.0f"}} {{upper "x"}} {{quote "a b"}} {{default "d" .Vars.empty}}`,
			"changed", "r1 edge x 1,b 3 X 'a b' d",
		},
		"a field of a text":          {"{{.Host.name}}", "failed", `template t.tmpl:1:7: <.Host.name>: the value before .name has no fields`},
		"a name that is missing":     {"{{.Vars.nope}}", "failed", `template t.tmpl:1:7: <.Vars.nope>: there is no "nope"`},
		"a name that may be missing": {`{{default "d" (index .Vars "nope")}}`, "changed", "d"},
		"a syntax error":             {"{{if}}", "failed", "template t.tmpl:1: missing value for if"},
		"a loop without end":         {`{{define "x"}}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{template "x"}}{{end}}{{template "x"}}`, "failed", "template t.tmpl"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			kit := plugintest.New(t, file.Def())
			kit.Artifact("t.tmpl", tc.text).Host("r1").Local()
			got := kit.Run(sdk.With{
				"path": path, "template": "t.tmpl",
				"vars": sdk.With{"site": sdk.With{"name": "x"}, "list": []any{1, "b"}, "n": 3, "empty": ""},
			}, plugintest.Labels(map[string]string{"role": "edge"}))
			if got.Outcome != tc.outcome {
				t.Fatalf("got %s (%s), want %s", got.Outcome, got.Reason, tc.outcome)
			}
			if tc.outcome == "failed" {
				if !strings.Contains(got.Reason, tc.want) || got.Effects != "none" {
					t.Errorf("reason %q, effects %s", got.Reason, got.Effects)
				}
				return
			}
			if text := state(t, path); text != "file 0644 "+tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

func TestParametersAreChecked(t *testing.T) {
	kit := plugintest.New(t, file.Def())
	for name, tc := range map[string]struct {
		with sdk.With
		want string
	}{
		"relative":        {sdk.With{"path": "a", "content": ""}, `/path: "a" does not match ^/`},
		"root":            {sdk.With{"path": "/", "state": "absent"}, "/path: "},
		"dots":            {sdk.With{"path": "/a/../b", "content": ""}, "/path: "},
		"nothing to do":   {sdk.With{"path": "/a"}, ": expected one of content, template and source"},
		"two contents":    {sdk.With{"path": "/a", "content": "", "source": "x"}, ": expected only one of"},
		"a bad state":     {sdk.With{"path": "/a", "state": "gone"}, "/state: expected one of file, absent, directory, link, found \"gone\""},
		"a link to what":  {sdk.With{"path": "/a", "state": "link"}, "/target: state link and target go together"},
		"mode as number":  {sdk.With{"path": "/a", "mode": 420}, "/mode: expected text, found the number 420"},
		"mode in decimal": {sdk.With{"path": "/a", "mode": "0899"}, "/mode: "},
		"owner injection": {sdk.With{"path": "/a", "owner": "root; rm"}, "/owner: "},
		"owner, option":   {sdk.With{"path": "/a", "owner": "-R"}, "/owner: "},
		"two lines":       {sdk.With{"path": "/a\nb", "content": "x"}, "/path: expected a path without control characters"},
		"link, two lines": {sdk.With{"path": "/a", "state": "link", "target": "b\nc"}, "/target: expected a path without control characters"},
		"backup path":     {sdk.With{"path": "/a", "content": "", "backup": "/../x"}, "/backup: "},
		"recurse alone":   {sdk.With{"path": "/a", "content": "", "recurse": true}, "/recurse: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := kit.Validate(tc.with)
			if len(got) == 0 || !strings.HasPrefix(got[0], tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Others may write to the folder, and what is made in it gets its group and setgid: also the folder
// in which the scripts work.
func TestASharedFolderWithSetgid(t *testing.T) {
	kit := plugintest.New(t, file.Def())
	kit.Host("r1").Local()
	base := t.TempDir()
	if err := os.Chmod(base, fs.ModeSetgid|0o777); err != nil {
		t.Fatal(err)
	}
	for _, outcome := range []string{"changed", "unchanged"} {
		got := kit.Run(sdk.With{"path": filepath.Join(base, "l"), "state": "link", "target": "x"})
		if got.Outcome != outcome || state(t, filepath.Join(base, "l")) != "link x" {
			t.Errorf("%s (%s), expected %s", got.Outcome, got.Reason, outcome)
		}
	}
}

// A directory gets the mode that is given: a new one, which has setgid of the folder around it, and
// one that is there. Control: without a mode the new directory keeps setgid.
func TestAGivenModeClearsSetgid(t *testing.T) {
	const setgid = fs.ModeSetgid | 0o755
	for mode, want := range map[string]fs.FileMode{"0755": 0o755, "2755": setgid, "": setgid} {
		kit := plugintest.New(t, file.Def())
		kit.Host("r1").Local()
		base := t.TempDir()
		path := filepath.Join(base, "d")
		chmod := func(path string, mode fs.FileMode) {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		chmod(base, setgid)
		with := sdk.With{"path": path, "state": "directory"}
		if mode != "" {
			with["mode"] = mode
		}
		for i, outcome := range []string{"changed", "unchanged", "changed", "unchanged"} {
			if i == 2 {
				if mode == "" {
					break
				}
				chmod(path, want^fs.ModeSetgid)
			}
			if got := kit.Run(with); got.Outcome != outcome {
				t.Errorf("mode %q, call %d: %s (%s), expected %s", mode, i, got.Outcome, got.Reason, outcome)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode() &^ fs.ModeDir; got != want {
				t.Errorf("mode %q, call %d: the directory has %v, expected %v", mode, i, got, want)
			}
		}
	}
}

// A change of owner keeps setuid, which chown clears.
func TestAChangeOfOwnerKeepsSetuid(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a file for another user", syscall.EPERM)
	}
	kit := plugintest.New(t, file.Def())
	kit.Host("r1").Local()
	path := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, fs.ModeSetuid|0o755)); err != nil {
		t.Fatal(err)
	}
	for _, outcome := range []string{"changed", "unchanged"} {
		got := kit.Run(sdk.With{"path": path, "owner": "65534"})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Outcome != outcome || info.Mode() != fs.ModeSetuid|0o755 {
			t.Errorf("%s (%s), then %v; expected %s", got.Outcome, got.Reason, info.Mode(), outcome)
		}
	}
}

// A file in a folder that the login may not enter is not absent. Controls: root sees it, and the
// login sees that another one is not there.
func TestAHiddenFileIsNotAbsent(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder of another user", syscall.EPERM)
	}
	base, err := os.MkdirTemp("/tmp", "hidden") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	closed := base + "/closed"
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(closed, 0o700), os.WriteFile(closed+"/f", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	asNobody := plugintest.ShellAs(65534, 65534)
	for _, c := range []struct {
		as            plugintest.Handler
		path, outcome string
	}{
		{asNobody, closed + "/f", "failed"},
		{asNobody, closed + "/nosuch/f", "failed"},
		{asNobody, base + "/nosuch", "unchanged"},
		{plugintest.Shell, closed + "/nosuch/f", "unchanged"},
		{plugintest.Shell, closed + "/f", "changed"},
	} {
		kit := plugintest.New(t, file.Def())
		kit.Host("r1").Handle(c.as)
		got := kit.Run(sdk.With{"path": c.path, "state": "absent"})
		if got.Outcome != c.outcome || c.outcome == "failed" && !strings.Contains(got.Reason, closed+" cannot be entered by this login") {
			t.Errorf("%s: %s (%s), expected %s", c.path, got.Outcome, got.Reason, c.outcome)
		}
	}
}
