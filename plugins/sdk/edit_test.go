package sdk_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

type editParams struct {
	Path string `json:"path"`
}

// shout is a job type that edits a file: it adds an exclamation mark.
func shout(between func()) sdk.Def {
	return sdk.Job("test.shout", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
		was, err := r.Host().ReadText(ctx, r.Params.Path)
		if err != nil {
			return err
		}
		between()
		r.Changed()
		return r.Host().ReplaceText(ctx, was, was.Content+"!", 0o640)
	})
}

func TestReplaceText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  string // "" for no file
		mode    os.FileMode
		link    bool
		between string // content that another writer gives it; "-" for the file's removal
		want    string // content in the end
		reason  string // "" for success
	}{
		"kept mode":                  {before: "a\n", mode: 0o604, want: "a\n!"},
		"a read-only file":           {before: "a\n", mode: 0o444, want: "a\n!"},
		"a new file":                 {want: "!", mode: 0o640},
		"another writer":             {before: "a", mode: 0o600, between: "b", want: "b", reason: "another writer changed the file"},
		"another writer was earlier": {between: "b", mode: 0o644, want: "b", reason: "another writer changed the file"},
		"another writer removed it":  {before: "a", mode: 0o600, between: "-", reason: "another writer changed the file"},
		"a link":                     {before: "a", mode: 0o600, link: true, want: "a", reason: "it is a link to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "it's -a file")
			write := func(text string, mode os.FileMode) {
				if err := os.WriteFile(path, []byte(text), mode); err != nil {
					t.Error(err)
				}
			}
			if c.before != "" {
				write(c.before, c.mode)
				if err := os.Chmod(path, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			given := path
			if c.link {
				given = filepath.Join(dir, "link")
				if err := os.Symlink(path, given); err != nil {
					t.Fatal(err)
				}
			}
			kit := plugintest.New(t, shout(func() {
				switch c.between {
				case "":
				case "-":
					_ = os.Remove(path)
				default:
					write(c.between, 0o644)
				}
			}))
			kit.Host("r1").Local()
			got := kit.Run(sdk.With{"path": given})
			if (got.Outcome == "changed") != (c.reason == "") || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("%s (%s), expected %q", got.Outcome, got.Reason, c.reason)
			}
			content, _ := os.ReadFile(path)
			if string(content) != c.want {
				t.Errorf("the file is %q, expected %q", content, c.want)
			}
			if info, err := os.Stat(path); c.want != "" && (err != nil || info.Mode().Perm() != c.mode) {
				t.Errorf("mode %v, expected %v, %v", info.Mode(), c.mode, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// validated is a job type that edits a file as shout does, if the command accepts the new one.
func validated(command string) sdk.Def {
	return sdk.Job("test.valid", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
		return r.EditText(ctx, sdk.TextEdit{
			Path: r.Params.Path, Create: true, Validate: command,
			Edit: func(text string) (string, error) { return text + "!", nil },
		})
	})
}

// A command checks the new file before it replaces the old one. Control: one that accepts.
func TestEditTextThatIsValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, validate, outcome, want string
	}{
		"accepted":           {"a\n", "grep -q '!' %s && test -f %s", "changed", "a\n!"},
		"a new one accepted": {"", "grep -q '!' '%s' && test -f \"%s\"", "changed", "!"},
		"refused":            {"a\n", "echo line 7 is wrong >&2; grep -q nothing %s", "failed", "a\n"},
		"a new one refused":  {"", "echo line 7 is wrong; echo, as it seems; false %s", "failed", ""},
		"leaves a folder":    {"a\n", "cd \"$(dirname '%s')\" && mkdir __pycache__ && echo >__pycache__/.x.pyc", "changed", "a\n!"},
		"changed":            {"a\n", "echo line 7 is wrong >>%s", "failed", "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "it's a folder")
			path := filepath.Join(dir, "f")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.before != "" {
				if err := os.WriteFile(path, []byte(c.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			kit := plugintest.New(t, validated(c.validate))
			kit.Host("r1").Local()
			got := kit.Run(sdk.With{"path": path})
			if got.Outcome != c.outcome || (c.outcome == "failed") != (strings.Contains(got.Reason, "line 7 is wrong") || strings.Contains(got.Reason, "changed the new file")) {
				t.Errorf("%s (%s), expected %s", got.Outcome, got.Reason, c.outcome)
			}
			if content, _ := os.ReadFile(path); string(content) != c.want {
				t.Errorf("the file is %q, expected %q", content, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A mount may refuse chmod. The command also checks a new file there. Control: one that accepts.
func TestEditTextIsValidatedWithoutChmod(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "chmod"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for validate, want := range map[string]string{"true %s": "!", "false %s": ""} {
		path := filepath.Join(t.TempDir(), "f")
		kit := plugintest.New(t, validated(validate))
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"path": path})
		if content, _ := os.ReadFile(path); string(content) != want || (got.Outcome == "changed") != (want != "") {
			t.Errorf("%s: %s (%s), the file is %q, expected %q", validate, got.Outcome, got.Reason, content, want)
		}
	}
}

// The owner of the folder around the file may exchange the folder of the new file for another one
// of this login: the files in that one stay.
func TestReplaceTextTouchesNoOtherFolder(t *testing.T) {
	path := os.Getenv("PATH")
	for name, swap := range map[string]string{
		"link":   `ln -s "$OTHER" "$folder"`,
		"folder": `mv "$OTHER" "$folder"`,
	} {
		bin, dir := t.TempDir(), t.TempDir()
		other, file := filepath.Join(dir, "other"), filepath.Join(dir, "f")
		script := "#!/bin/sh\nOTHER=" + other + "\nfor folder; do :; done\n/bin/mkdir \"$@\" && mv \"$folder\" \"$OTHER.moved\" && " + swap + "\n"
		if err := errors.Join(os.WriteFile(filepath.Join(bin, "mkdir"), []byte(script), 0o755), os.Mkdir(other, 0o700),
			os.WriteFile(filepath.Join(other, "x"), []byte("precious"), 0o600), os.WriteFile(file, []byte("a"), 0o600)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+path)
		kit := plugintest.New(t, shout(func() {}))
		kit.Host("r1").Local()
		got := kit.Run(sdk.With{"path": file})
		kept, err := filepath.Glob(filepath.Join(dir, "*", "x"))
		hidden, _ := filepath.Glob(filepath.Join(dir, ".*", "x"))
		kept = append(kept, hidden...)
		if err != nil || len(kept) == 0 || !strings.Contains(got.Reason, "replaced by another user") {
			t.Errorf("%s: %s (%s): the other folder has lost its file, or was used: %q, %v", name, got.Outcome, got.Reason, kept, err)
			continue
		}
		if content, err := os.ReadFile(kept[0]); string(content) != "precious" {
			t.Errorf("%s: the other folder's file has %q, %v", name, content, err)
		}
	}
}

// able ends a test that needs more than the machine has. In CI that is a failure, elsewhere a skip
// with the reason.
func able(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s: %v (in CI this is a failure)", what, err)
	default:
		t.Skipf("SKIPPED, NOT TESTED: %s: %v", what, err)
	}
}

// A stranger owns the folder of a text file, and exchanges the file, or a folder on the way, for a
// link to one of root's: nothing of that is read. Red where the file is read by its path after the
// test. Control: his own file is read.
func TestReadTextFollowsNoPlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		able(t, "a folder that a stranger owns and root reads", syscall.EPERM)
	}
	base := t.TempDir()
	setup := "cd " + base + " && rm -rf * && mkdir user root && echo own >user/f && echo secret >root/f && ln -s ../root user/folder && chown -hR 65534 user"
	for name, c := range map[string]struct{ path, attack, want string }{
		"own":    {path: "user/f", want: "own\n"},
		"folder": {path: "user/folder/f"},
		"file":   {path: "user/f", attack: "ln -sf ../root/f f; "},
	} {
		if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", setup).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got sdk.TextFile
		kit := plugintest.New(t, sdk.Job("test.read", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) (err error) {
			got, err = r.Host().ReadText(ctx, r.Params.Path)
			return err
		}))
		kit.Host("r1").OnFunc("*", func(ctx context.Context, call plugintest.Call) plugintest.Reply {
			call.Command = strings.Replace(call.Command, "  pin ", "  "+c.attack+"pin ", 1)
			return unread(ctx, call)
		})
		out := kit.Run(sdk.With{"path": filepath.Join(base, c.path)})
		if got.Content != c.want || (c.want == "") != (out.Outcome == "failed") {
			t.Errorf("%s: %q, %s (%s)", name, got.Content, out.Outcome, out.Reason)
		}
	}
}

// A step fails if its host lacks something. In check mode that is a change behind a step that would
// change the host, and only there.
func TestLacks(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, sdk.Job("test.lacks", func(_ context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
		return r.Lacks("the host has no %s", r.Params.Path)
	}, sdk.Check()))
	kit.Host("h")
	with := sdk.With{"path": "/x"}
	for name, c := range map[string]struct {
		opts            []plugintest.Option
		outcome, reason string
	}{
		"run":                   {nil, "failed", "the host has no /x"},
		"check":                 {[]plugintest.Option{plugintest.CheckMode()}, "failed", "the host has no /x"},
		"check, after a change": {[]plugintest.Option{plugintest.AfterChange()}, "changed", "the host has no /x; an earlier step of this run may bring it"},
	} {
		if got := kit.Run(with, c.opts...); got.Outcome != c.outcome || got.Reason != c.reason || got.Outcome == "failed" && got.Effects != "none" {
			t.Errorf("%s: %s (%s), effects %s; expected %s (%s)", name, got.Outcome, got.Reason, got.Effects, c.outcome, c.reason)
		}
	}
}

// unread runs a command here whose standard error nobody reads, as after the death of a worker.
func unread(ctx context.Context, c plugintest.Call) plugintest.Reply {
	r, w, err := os.Pipe()
	if err != nil {
		return plugintest.Reply{Err: err}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Command)
	cmd.Stdin, cmd.Stderr = strings.NewReader(c.Stdin), w
	_ = r.Close()
	out, err := cmd.Output()
	_ = w.Close()
	return plugintest.Reply{Stdout: string(out), Code: cmd.ProcessState.ExitCode(), Err: second(err)}
}

// second passes an error on unless it is of a command that ended.
func second(err error) error {
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return nil
	}
	return err
}

// A signal to the script and its program, as of a host that ends what a killed worker left running,
// leaves no folder behind: neither while the folder is made, nor while it is removed.
func TestReplaceTextLeavesNothingAfterASignal(t *testing.T) {
	path := os.Getenv("PATH")
	for program, want := range map[string]string{"mkdir": "a", "cat": "a", "rm": "a!"} {
		bin, dir := t.TempDir(), t.TempDir()
		file := filepath.Join(dir, "f")
		text := "#!/bin/sh\n/bin/mkdir \"$@\"\nkill -TERM $PPID $$\n"
		if program == "rm" {
			text = "#!/bin/sh\nkill -TERM $PPID $$\nexec /bin/rm \"$@\"\n"
		}
		for name, c := range map[string]struct {
			text string
			mode os.FileMode
		}{filepath.Join(bin, program): {text, 0o755}, file: {"a", 0o644}} {
			if err := os.WriteFile(name, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin+":"+path)
		if program == "cat" { // the query also starts one
			script := strings.Replace(text, "/bin/mkdir \"$@\"\n", "[ $# = 0 ] || exec /bin/cat \"$@\"\n", 1)
			if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		kit := plugintest.New(t, shout(func() {}))
		kit.Host("r1").Handle(unread)
		got := kit.Run(sdk.With{"path": file})
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 1 {
			t.Errorf("%s: %s (%s): the folder has %v, %v", program, got.Outcome, got.Reason, names, err)
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != want {
			t.Errorf("%s: the file has %q, %v", program, content, err)
		}
	}
}

func TestInsertText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, after, before, want string }{
		"at the end":       {"a\n", "", "", "a\nx\n"},
		"an empty text":    {"", "", "", "x\n"},
		"no line end":      {"a\r\nb", "b", "", "a\r\nb\r\nx\n"},
		"after":            {"a\nb\n", "^a$", "", "a\nx\nb\n"},
		"before":           {"a\nb\n", "", "^b$", "a\nx\nb\n"},
		"before the first": {"a\n", "", "a", "x\na\n"},
		"none":             {"a\n", "", "c", "error: before: no line matches \"c\", expected one"},
		"several":          {"a\nb\na\n", "a", "", "error: after: several lines match \"a\", expected one: lines 1 and 3"},
		"no expression":    {"a\n", "(", "", "error: after: not an RE2 expression: error parsing regexp: missing closing ): `(`"},
	} {
		got, err := sdk.InsertText(c.text, c.after, c.before, "x\n")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
