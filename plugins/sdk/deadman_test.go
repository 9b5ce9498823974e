//go:build linux

package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// switched is a device whose commands run here, by a shell, and one arming on it.
type switched struct {
	t    *testing.T
	kit  *plugintest.Kit
	dead sdk.DeadMan
	do   func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error
}

func newSwitched(t *testing.T, shell ...string) *switched {
	t.Helper()
	s := &switched{t: t, dead: sdk.DeadMan{
		Folder: filepath.Join(t.TempDir(), "a folder's"), ID: "change-1", Key: "key", Job: "run/0", Name: "test",
		Within: 30 * time.Second, Revert: "cp old ../live",
	}}
	s.kit = plugintest.New(t, job(func(ctx context.Context, r *plain) error { return s.do(ctx, r.Host(), s.dead) }))
	s.kit.Host("r1").OnFunc("*", func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		args := append(shell, "/bin/sh", "-c", c.Command)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdin = strings.NewReader(c.Stdin)
		var out, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		reply := plugintest.Reply{Stdout: out.String(), Stderr: stderr.String()}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			reply.Code = exit.ExitCode()
		} else if err != nil {
			reply.Err = err
		}
		return reply
	})
	t.Cleanup(func() { s.kill() })
	return s
}

// run calls the job type with do.
func (s *switched) run(do func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error) *plugintest.Result {
	s.t.Helper()
	s.do = do
	return s.kit.Run(none)
}

func (s *switched) must(do func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error) {
	s.t.Helper()
	if got := s.run(do); got.Outcome != "unchanged" {
		s.t.Fatalf("got %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
}

// change arms, and applies "new" over "old".
func (s *switched) change() {
	s.t.Helper()
	s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
		if err := d.Arm(ctx, h, "[ -e ../live ] || echo old >../live; cp ../live old; cat >new", strings.NewReader("new\n")); err != nil {
			return err
		}
		return d.Apply(ctx, h, "cp new ../live")
	})
	s.lives("new")
}

// look expects a state.
func (s *switched) look(want string) (got sdk.DeadManState) {
	s.t.Helper()
	s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) (err error) {
		got, err = d.Look(ctx, h)
		return err
	})
	if got.State != want {
		s.t.Errorf("state %+v, expected %q", got, want)
	}
	return got
}

func (s *switched) live() string {
	raw, err := os.ReadFile(filepath.Join(s.dead.Folder, "live"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw))
}

func (s *switched) lives(want string) {
	s.t.Helper()
	if got := s.live(); got != want {
		s.t.Fatalf("%q is live, expected %q", got, want)
	}
}

func (s *switched) file(name string) string { return filepath.Join(s.dead.Folder, s.dead.ID, name) }

// kill ends the timers with what they started, and returns how many there were. Each leads a
// session and so a group of its own, whose last command may outlive the shell.
func (s *switched) kill() (n int) {
	files, _ := filepath.Glob(filepath.Join(s.dead.Folder, "*", "ticking"))
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil || !s.ticks(pid) {
			continue
		}
		if syscall.Kill(-pid, syscall.SIGKILL) == nil {
			n++
			eventually(s.t, "the end of a timer that was killed", func() bool { return !running(pid) })
		}
	}
	return n
}

// ticks reports whether a process is a timer of the device.
func (s *switched) ticks(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), s.dead.Folder)
}

// running reports whether a process of the group still runs; one that nobody has waited for yet
// does not.
func running(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	return slices.ContainsFunc(stats, func(path string) bool {
		raw, err := os.ReadFile(path)
		_, after, found := strings.Cut(string(raw), ") ")
		fields := strings.Fields(after) // state, parent, group
		return err == nil && found && len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z"
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("no sign of %s", what)
		}
	}
}

func TestDeadManIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	s.look("")
	s.change()
	if at := s.look(sdk.StateArmed); at.Key != "key" || at.Job != "run/0" || at.ID != s.dead.ID || at.Left <= 0 || at.Left > s.dead.Within || at.Rebooted {
		t.Errorf("armed: %+v", at)
	}
	for range 2 { // twice is the same as once
		s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
			at, err := d.Confirm(ctx, h)
			if at.State != sdk.StateConfirmed {
				t.Errorf("confirmed: %+v", at)
			}
			return err
		})
	}
	eventually(t, "the end of the timer", func() bool { return s.kill() == 0 })
	s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
		at, err := d.Rollback(ctx, h) // too late
		if at.State != sdk.StateConfirmed {
			t.Errorf("rolled back: %+v", at)
		}
		return err
	})
	s.look(sdk.StateConfirmed)
	s.lives("new")
	s.dead.ID, s.dead.Key = "change-2", "another"
	s.change() // the next one has the folder to itself
	if _, err := os.Stat(filepath.Join(s.dead.Folder, "change-1")); err == nil {
		t.Error("the folder of the arming before was kept")
	}
}

// Nobody confirms: the device reverts. The control kills the timer: the change stays for ever.
func TestDeadManReverts(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]bool{"by itself": true, "not without its timer (control)": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSwitched(t)
			s.dead.Within = 12 * time.Second // a busy machine needs seconds to arm it
			s.change()
			if alive {
				eventually(t, "the old state", func() bool { return s.live() == "old" })
				eventually(t, "the end of the lock", func() bool {
					_, err := os.Lstat(filepath.Join(s.dead.Folder, "lock"))
					return err != nil
				})
				s.look(sdk.StateReverted)
				s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
					at, err := d.Confirm(ctx, h) // too late
					if at.State != sdk.StateReverted {
						t.Errorf("confirmed: %+v", at)
					}
					return err
				})
				s.lives("old")
				return
			}
			eventually(t, "the timer", func() bool { return s.kill() > 0 })
			eventually(t, "the deadline", func() bool { return s.look(sdk.StateArmed).Left < -1*time.Second })
			s.lives("new")
			if got := s.run(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error { return d.Apply(ctx, h, "cp new ../live") }); !strings.Contains(got.Reason, "the timer is not running") || got.Effects != "none" {
				t.Errorf("without a timer: %s (%s)", got.Outcome, got.Reason)
			}
		})
	}
}

// The next attempt of a step has the same key, and so the same ID, as the one that was reverted.
// While that is armed, it is kept.
func TestDeadManIsArmedAgainByTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	rollback := func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
		_, err := d.Rollback(ctx, h)
		return err
	}
	s.change()
	s.must(rollback)
	s.lives("old")
	s.change()
	if got := s.run(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error { return d.Arm(ctx, h, "false", nil) }); got.Outcome != "failed" {
		t.Errorf("armed while it is armed: %s (%s)", got.Outcome, got.Reason)
	}
	s.look(sdk.StateArmed)
	if err := os.WriteFile(s.file("boot"), []byte("another\n"), 0o600); err != nil { // the device was booted
		t.Fatal(err)
	}
	s.kill()
	s.change()
	s.must(rollback)
	s.dead.Key = "another" // of a step whose key begins alike
	if got := s.run(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error { return d.Arm(ctx, h, "true", nil) }); got.Outcome != "failed" {
		t.Errorf("another step took the folder: %s (%s)", got.Outcome, got.Reason)
	}
	s.look(sdk.StateReverted)
}

// A full disk or a signal ends Take between the folder and its key: the next attempt arms.
func TestDeadManIsArmedAfterATakeThatWasCut(t *testing.T) {
	t.Parallel()
	for _, files := range [][]string{nil, {"key"}} {
		s := newSwitched(t)
		if err := os.MkdirAll(s.file(""), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := os.WriteFile(s.file(name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.change()
		s.look(sdk.StateArmed)
	}
}

func TestDeadManRollback(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	s.dead.Revert = "[ -e ../allowed ] || { echo 'not yet' >&2; exit 3; }\ncp old ../live"
	s.change()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
			at, err := d.Rollback(ctx, h)
			if at.State != sdk.StateReverted {
				t.Errorf("rolled back: %+v", at)
			}
			return err
		})
	}()
	eventually(t, "the first try", func() bool { raw, _ := os.ReadFile(s.file("failed")); return strings.Contains(string(raw), "not yet") })
	s.lives("new")
	if err := os.WriteFile(filepath.Join(s.dead.Folder, "allowed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-done
	s.lives("old")
}

// The first to rename decides; the other learns it. Many times, at the same time.
func TestTrapConfirmAndTimerRace(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	outcomes := map[string]int{}
	for i := range 12 {
		s.dead.ID = fmt.Sprintf("change-%d", i)
		s.change()
		states := make([]string, 2)
		s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
			var both sync.WaitGroup
			var errs [2]error
			for n, decide := range []func(context.Context, *sdk.Host) (sdk.DeadManState, error){d.Confirm, d.Rollback} {
				both.Go(func() {
					var at sdk.DeadManState
					at, errs[n] = decide(ctx, h)
					states[n] = at.State
				})
			}
			both.Wait()
			return errors.Join(errs[:]...)
		})
		want := map[string]string{sdk.StateConfirmed: "new", sdk.StateReverted: "old"}[states[1]]
		if states[0] == sdk.StateConfirmed != (states[1] == sdk.StateConfirmed) || s.live() != want {
			t.Fatalf("confirm reports %s, rollback %s, and %q is live", states[0], states[1], s.live())
		}
		outcomes[states[1]]++
		if err := os.WriteFile(filepath.Join(s.dead.Folder, "live"), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("decided %v", outcomes)
}

func TestDeadManIsOneAtATime(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	s.change()
	s.dead.ID, s.dead.Job = "change-2", "run/1"
	arm := func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
		return d.Arm(ctx, h, "cp ../live old", nil)
	}
	if got := s.run(arm); got.Outcome != "failed" || !strings.Contains(got.Reason, "another job, run/0, has armed") || got.Effects != "none" || !got.Retryable {
		t.Errorf("while another is armed: %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	s.dead.ID = "change-1"
	s.look(sdk.StateArmed)
	for _, what := range []string{"boot", "deadline"} { // the device was booted since; or its timer died before it was armed
		if what == "boot" {
			if err := os.WriteFile(s.file("boot"), []byte("another\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if at := s.look(sdk.StateArmed); !at.Rebooted {
				t.Errorf("after a reboot: %+v", at)
			}
			s.kill()
		} else if err := errors.Join(os.Remove(s.file("armed")), os.WriteFile(s.file("deadline"), []byte("-100\n"), 0o600)); err != nil {
			t.Fatal(err)
		} else {
			s.kill()
		}
		s.dead.ID += "-next"
		s.must(arm)
		s.look(sdk.StateArmed)
	}
}

func TestDeadManRefuses(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	got := s.run(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
		return d.Arm(ctx, h, "echo there is no room >&2; false", nil)
	})
	if got.Outcome != "failed" || !strings.Contains(got.Reason, "there is no room") || got.Effects != "none" {
		t.Errorf("staging that fails: %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	s.look("")
	if left, err := os.ReadDir(s.dead.Folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for name, spoil := range map[string]func(*sdk.DeadMan){
		"a relative folder": func(d *sdk.DeadMan) { d.Folder = "x" },
		"the root":          func(d *sdk.DeadMan) { d.Folder = "/" },
		"an id with a path": func(d *sdk.DeadMan) { d.ID = "a/../b" },
		"the lock's":        func(d *sdk.DeadMan) { d.ID = "lock" },
		"no name":           func(d *sdk.DeadMan) { d.Name = "" },
		"no time":           func(d *sdk.DeadMan) { d.Within = 0 },
		"no way back":       func(d *sdk.DeadMan) { d.Revert = " \n" },
		"the end of a text": func(d *sdk.DeadMan) { d.Revert = "x\nTURNUS_GUARD_END\nrm -rf /" },
	} {
		d := s.dead
		spoil(&d)
		if err := d.Validate(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := s.dead.Validate(); err != nil {
		t.Error(err)
	}
}

// A user who may write to the folder chooses what the timer runs, as root: nothing is armed in a
// folder of others.
func TestDeadManRefusesAFolderOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, folder string) error
		want  string // in the reason; empty: it is armed
	}{
		"its own":             {func(_ *testing.T, folder string) error { return os.Mkdir(folder, 0o700) }, ""},
		"below one like /tmp": {func(_ *testing.T, folder string) error { return os.Chmod(filepath.Dir(folder), 0o777|os.ModeSticky) }, ""},
		"everybody may write": {func(_ *testing.T, folder string) error {
			return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777))
		}, "may write to it"},
		"everybody, and sticky": {func(_ *testing.T, folder string) error {
			return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777|os.ModeSticky))
		}, "may write to it"},
		"a group may write": {func(_ *testing.T, folder string) error {
			return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o770))
		}, "may write to it"},
		"the one above": {func(_ *testing.T, folder string) error { return os.Chmod(filepath.Dir(folder), 0o777) }, "the folder above"},
		"a link":        {func(t *testing.T, folder string) error { return os.Symlink(t.TempDir(), folder) }, "is a link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSwitched(t)
			if err := c.spoil(t, s.dead.Folder); err != nil {
				t.Fatal(err)
			}
			got := s.run(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error {
				return d.Arm(ctx, h, "echo old >old", nil)
			})
			if armed := got.Outcome == "unchanged"; armed != (c.want == "") || !strings.Contains(got.Reason, c.want) || !armed && got.Effects != "none" {
				t.Errorf("%s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
			}
			if left, err := os.ReadDir(s.dead.Folder); err != nil || c.want != "" && len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A device that lost power while a job took the lock from an ended one, as the new boot's first job
// does, is not locked for good.
func TestDeadManOutlivesAPowerCutWhileTheLockIsTaken(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	for _, dir := range []string{"dead", ".takeover.another-boot", "takeover"} {
		if err := os.MkdirAll(filepath.Join(s.dead.Folder, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dead", filepath.Join(s.dead.Folder, "lock")); err != nil {
		t.Fatal(err)
	}
	s.change()
	s.look(sdk.StateArmed)
}

// The shell of small devices: all of it, also the timer, runs under busybox, which takes the place
// of /bin/sh in a mount namespace.
func TestDeadManUnderBusybox(t *testing.T) {
	t.Parallel()
	box, err := exec.LookPath("busybox")
	able(t, "busybox (apt-get install busybox)", err)
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), box, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out) + " busybox") { // which not every build lists
		if err := os.Symlink(box, filepath.Join(bin, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	prefix := []string{"unshare", "-m", box, "sh", "-c", `mount --bind "$1" "$2" && shift 2 && PATH=$1 && shift && exec "$@"`, "sh", box, shell, bin}
	probe := append(slices.Clip(prefix), "/bin/sh", "-c", "busybox | head -n 1")
	said, err := exec.CommandContext(t.Context(), probe[0], probe[1:]...).CombinedOutput()
	able(t, "a mount namespace of its own: "+string(said), err)
	if !strings.Contains(string(said), "BusyBox") {
		t.Fatalf("it is not busybox: %s", said)
	}
	for name, confirms := range map[string]bool{"confirmed": true, "reverts by itself": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSwitched(t, prefix...)
			s.dead.Within = 12 * time.Second // a busy machine needs seconds to arm it
			s.change()
			s.look(sdk.StateArmed)
			if confirms {
				s.must(func(ctx context.Context, h *sdk.Host, d sdk.DeadMan) error { _, err := d.Confirm(ctx, h); return err })
				s.look(sdk.StateConfirmed)
				s.lives("new")
				return
			}
			eventually(t, "the old state", func() bool { return s.live() == "old" })
		})
	}
}

// The timer's environment, session and descriptors are its own: a worker that tidies up does not
// take it along.
func TestTrapTheTimerIsOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSwitched(t, "env", "TURNUS_EXEC=0123456789abcdef")
	s.change()
	raw, err := os.ReadFile(s.file("ticking"))
	if err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strings.TrimSpace(string(raw))
	if environ, err := os.ReadFile(proc + "/environ"); err != nil || strings.Contains(string(environ), "TURNUS") {
		t.Errorf("environment %q, %v", environ, err)
	}
	for _, fd := range []string{"0", "1", "2"} {
		if to, err := os.Readlink(proc + "/fd/" + fd); err != nil || to != "/dev/null" {
			t.Errorf("descriptor %s is %s, %v", fd, to, err)
		}
	}
}
