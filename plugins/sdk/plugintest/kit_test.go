package plugintest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type params struct {
	Run string `json:"run"`
}

func kit(t *testing.T) *plugintest.Kit {
	t.Helper()
	return plugintest.New(t, sdk.Job("test.run", func(ctx context.Context, r *sdk.Run[params, sdk.NoState]) error {
		return r.Host().Run(ctx, r.Params.Run).Err()
	}, sdk.Check()))
}

func TestRulesAnswerInOrder(t *testing.T) {
	k := kit(t)
	k.Host("r1").
		On("uptime", plugintest.Reply{Stdout: "exact"}).
		On("systemctl * nginx", plugintest.Reply{Stdout: "glob"}).
		On("up*", plugintest.Reply{Stdout: "second"})
	for command, want := range map[string]string{
		"uptime": "exact", "uptime -p": "second", "systemctl restart -q nginx": "glob", "systemctl nginx": "", "x": "",
	} {
		got := k.Run(params{Run: command})
		if got.Stdout != want {
			t.Errorf("%q: got %q, want %q", command, got.Stdout, want)
		}
		if want == "" && (got.Outcome != "failed" || !strings.Contains(got.Stderr, "no rule for this command: "+command)) {
			t.Errorf("%q: got %s, %q", command, got.Outcome, got.Stderr)
		}
	}
	if calls := k.Host("r1").Calls(); len(calls) != 5 {
		t.Errorf("%d calls, want 5", len(calls))
	}
}

func TestTheFirstHostIsTheJobsOwn(t *testing.T) {
	k := kit(t)
	k.Host("a").On("*", plugintest.Reply{Stdout: "from a"})
	k.Host("b").On("*", plugintest.Reply{Stdout: "from b"})
	if got := k.Run(params{Run: "x"}); got.Stdout != "from a" {
		t.Errorf("got %q", got.Stdout)
	}
}

// A command checks the new file before it replaces the old one, which else stays, without a backup.
// On a scripted host rules answer the command; on a local one it runs, and nothing stays of what it
// leaves beside the new file. Control: a command that accepts.
func TestAnUploadIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		validate, fails string
		reply           *plugintest.Reply // nil: a local host
	}{
		"accepted by a rule":          {"visudo -cf '%s'", "", &plugintest.Reply{}},
		"refused by a rule":           {"visudo -cf %s", "nothing was written: line 7 is wrong", &plugintest.Reply{Stderr: "line 7\nis wrong\n", Code: 1}},
		"no rule":                     {"sshd -tf %s", "no rule for this command: sshd -tf", &plugintest.Reply{}},
		"several lines":               {"visudo -cf %s\n", "expected one line", &plugintest.Reply{}},
		"unreachable":                 {"visudo -cf %s", "connection refused", &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}},
		"accepted by a local host":    {"grep -q new %s && [ $(stat -c %a '%s')$PWD = 640/ ]", "", nil},
		"refused by a local host":     {"echo line 7; grep -q other %s", "nothing was written: line 7", nil},
		"leaves files":                {"cp %s %s.bak", "", nil},
		"changes the new file":        {"echo more >>%s", "verification failed", nil},
		"removes the file, on a host": {"rm %s", "verification failed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, backup := filepath.Join(dir, "f"), filepath.Join(dir, "f.old")
			k := plugintest.New(t, sdk.Job("test.put", func(ctx context.Context, r *sdk.Run[params, sdk.NoState]) error {
				_, err := r.Host().Put(ctx, sdk.PutFile{Path: path, Mode: 0o640, Backup: ".old", Validate: r.Params.Run}, strings.NewReader("new"))
				return err
			}))
			h := k.Host("r1").Put(path, plugintest.File{Content: "old"})
			if c.reply == nil {
				h.Local()
				if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			checked := ""
			h.OnFunc("visudo -cf \"$f\"", func(_ context.Context, call plugintest.Call) plugintest.Reply {
				file, _ := h.File(call.Env["f"])
				checked = file.Content
				return *c.reply
			})
			got := k.Run(params{Run: c.validate})
			if (got.Outcome == "unchanged") != (c.fails == "") || !strings.Contains(got.Reason, c.fails) {
				t.Errorf("%s (%s)", got.Outcome, got.Reason)
			}
			if asked := len(h.Calls()) > 0 && strings.HasPrefix(c.validate, "visudo"); (checked == "new") != asked {
				t.Errorf("the command saw %q", checked)
			}
			content := func(path string) string {
				if c.reply != nil {
					file, _ := h.File(path)
					return file.Content
				}
				file, _ := os.ReadFile(path)
				return string(file)
			}
			want := [2]string{"new", "old"}
			if c.fails != "" {
				want = [2]string{"old", ""}
			}
			if now := [2]string{content(path), content(backup)}; now != want {
				t.Errorf("the file and its backup have %q, expected %q", now, want)
			}
			left, err := filepath.Glob(filepath.Join(dir, ".*"))
			if _, there := h.File(path + ".part"); len(left) > 0 || err != nil || there {
				t.Errorf("left behind: %q, %v, a part: %t", left, err, there)
			}
		})
	}
}

func TestABrokenConnectionIsAFault(t *testing.T) {
	k := kit(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	k.Host("r1").OnFunc("*", func(ctx context.Context, _ plugintest.Call) plugintest.Reply {
		close(started)
		<-ctx.Done()
		return plugintest.Reply{Err: ctx.Err()}
	})
	running := k.Start(params{Run: "x"}, plugintest.Context(ctx))
	<-started
	cancel()
	if result, err := running.Try(); err == nil {
		t.Errorf("got %+v, want a fault", result)
	}
}

func TestOptionsReachTheJobType(t *testing.T) {
	k := plugintest.New(t,
		sdk.Job("test.none", func(context.Context, *sdk.Run[params, sdk.NoState]) error { return errors.New("the wrong type") }),
		sdk.Job("test.options", func(_ context.Context, r *sdk.Run[params, sdk.NoState]) error {
			if r.Attempt != 3 || r.Labels["role"] != "edge" || r.Key == "" || r.Fence == 0 || r.Step == "" || r.Job == "" ||
				r.Deadline.IsZero() || r.Check || !r.Diff || r.Host().Name != "r1" {
				t.Errorf("got %+v", r)
			}
			return nil
		}))
	got := k.Run(params{}, plugintest.Type("test.options"), plugintest.Attempt(3),
		plugintest.Labels(map[string]string{"role": "edge"}), plugintest.Deadline(time.Hour))
	if got.Outcome != "unchanged" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}
