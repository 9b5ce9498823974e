package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// altered runs a command as Run does, with another command line.
func altered(ctx context.Context, p *Pool, h core.Host, e Exec, alter func(line, id string, up *elevation) string) error {
	r, err := p.resolve(h)
	if err != nil {
		return err
	}
	s, err := p.session(ctx, r, e.Fresh)
	if err != nil {
		return err
	}
	defer s.end()
	id := newExecID()
	up, err := s.c.e.elevate(ctx, e.Become, id)
	if err != nil {
		return err
	}
	line, err := commandLine("", e.Command, e.Env, id, up, e.Stdin != nil)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, alter(line, id, up), id, e, up)
	return err
}

// undrained runs a command as Run does, without the lines that drop a password from its input.
func undrained(ctx context.Context, t *testing.T, p *Pool, h core.Host, e Exec) error {
	t.Helper()
	return altered(ctx, p, h, e, func(line, id string, up *elevation) string {
		drain := up.input(id, true)
		if strings.Count(line, drain) != 1 {
			t.Errorf("the command line %q does not have %q", line, drain)
		}
		return strings.Replace(line, drain, "", 1)
	})
}

// Without the lines that drop it, a password that sudo did not ask for is in the command's input,
// and so in the file that is written. Control: Run drops it.
func TestBecomeWithoutDrainShowsThePassword(t *testing.T) {
	t.Parallel()
	const password = "right horse"
	h, p, _ := elevated(t, asksNothing, "", password)
	for name, drains := range map[string]bool{"without the drain": false, "control": true} {
		var out strings.Builder
		e := Exec{Command: "cat", Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: io.Discard, Become: core.Become{User: "root"}}
		var err error
		if drains {
			_, err = p.Run(testContext(t), h, e)
		} else {
			err = undrained(testContext(t), t, p, h, e)
		}
		if err != nil || strings.Contains(out.String(), password) == drains || !strings.HasSuffix(out.String(), "input\n") {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// unnamed runs a command as Run does, but the elevated shell does not export the id of the
// execution: sudo drops that of the login.
func unnamed(ctx context.Context, p *Pool, h core.Host, e Exec) error {
	return altered(ctx, p, h, e, func(line, id string, _ *elevation) string {
		inner := strings.LastIndex(line, "export "+execIDVar+"="+id+"\n")
		return line[:inner] + strings.TrimPrefix(line[inner:], "export ")
	})
}

// A cancelled command of another user is found by the id in its environment, and ended. Without it
// the command continues if its program became the command and kept no environment, as doas does
// without PAM. Other programs wait, with the id in their command line. Control: Run exports the id.
func TestBecomeWithoutItsIDRunsOn(t *testing.T) {
	t.Parallel()
	direct := falseSudo(t, `while [ "$1" != -- ]; do shift; done; shift
exec /usr/bin/sudo -n -- /usr/bin/env -i PATH="$PATH" "$@"
`)
	h, p, _ := elevated(t, "Defaults !use_pty, !pam_session, !pam_setcred\n"+asksNothing, "", "", servers.SSHDConfig("ForceCommand "+direct))
	for name, c := range map[string]struct {
		run  func(context.Context, Exec) error
		ends bool
	}{
		"without the export": {func(ctx context.Context, e Exec) error { return unnamed(ctx, p, h, e) }, false},
		"control":            {func(ctx context.Context, e Exec) error { _, err := p.Run(ctx, h, e); return err }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(testContext(t))
			done := make(chan error, 1)
			go func() {
				done <- c.run(ctx, Exec{Command: "trap '' TERM HUP; echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000", Become: core.Become{User: "root"}})
			}()
			var pid int
			eventually(t, "the command runs", func() bool {
				text, err := os.ReadFile(file)
				if err == nil {
					pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
				}
				return err == nil
			})
			eventually(t, "it is no shell any more", func() bool {
				text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
				return err == nil && strings.TrimSpace(string(text)) == "sleep"
			})
			cancel()
			err := <-done
			if ended := !alive(pid); ended != c.ends || errors.Is(err, ErrMayRun) == c.ends {
				t.Errorf("ended %v, %v", ended, err)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
	}
}
