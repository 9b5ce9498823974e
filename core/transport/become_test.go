package transport

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// elevated is a real server with a login that may become others as these lines allow, and the pool
// that logs in, with the password that sudo is given; "" for none.
func elevated(t *testing.T, sudoers, doasConf, password string, opts ...servers.SSHDOption) (core.Host, *Pool, servers.Login) {
	t.Helper()
	key, public := servers.NewSSHKey(t)
	login, option := servers.UnprivilegedLogin(t, public, sudoers, doasConf)
	s := servers.StartSSHD(t, append(opts, option)...)
	p := newPool(t, func(c *Config) {
		cred := offers(c)
		cred.Name, cred.Identities = "fleet", []string{key}
		if password != "" {
			cred.BecomePassword = func(context.Context, core.Host) (string, error) { return password, nil }
		}
	})
	return s.Host("web1"), p, login
}

const asks, asksNothing = "%s ALL=(ALL) ALL", "%s ALL=(ALL) NOPASSWD: ALL"

// Every way in which sudo and doas let a login become another user: the command gets its own input,
// whole, its secrets and its variables, and nothing of the password; what sudo and the login print
// is not the command's.
func TestBecome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sudoers, doas, password string
		as                      core.Become
		shell                   string
	}{
		"sudo without a password":           {sudoers: asksNothing, as: core.Become{User: "root"}},
		"sudo with a password":              {sudoers: asks, password: "right horse", as: core.Become{User: "root"}},
		"sudo that did not ask":             {sudoers: asksNothing, password: "right horse", as: core.Become{User: "root"}},
		"sudo with a terminal of its own":   {sudoers: "Defaults use_pty\n" + asks, password: "right horse", as: core.Become{User: "root"}},
		"sudo with its lecture":             {sudoers: "Defaults lecture=always\n" + asks, password: "right horse", as: core.Become{User: "root"}},
		"sudo to a user":                    {sudoers: asks, password: "right horse", as: core.Become{User: "app"}},
		"doas":                              {doas: "permit nopass %s", as: core.Become{User: "root", Method: core.BecomeDoas}},
		"the login itself, without sudoers": {as: core.Become{User: "ops"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, _ := elevated(t, c.sudoers, c.doas, c.password)
			fence := Fence{Queue: "queue-" + newExecID(), Count: 1}
			run := func(e Exec) (string, string) {
				t.Helper()
				var out, errs strings.Builder
				e.Become, e.Stdout, e.Stderr, e.Fence = c.as, &out, &errs, fence
				if exit, err := p.Run(testContext(t), h, e); err != nil || exit.Code != 3 {
					t.Fatalf("%+v: %v, stderr %q", exit, err, errs.String())
				}
				return out.String(), errs.String()
			}
			if out, errs := run(Exec{Command: "id -un; cat; echo oops >&2; exit 3"}); out != c.as.User+"\n" || errs != "oops\n" {
				t.Errorf("without input: stdout %q, stderr %q", out, errs)
			}
			in := strings.Repeat("one line\ninput-\n", 1000)
			out, errs := run(Exec{
				Command: "echo \"$WHO $HOW\"; cat; exit 3", Env: map[string]string{"WHO": "it's me"},
				Secrets: map[string]string{"HOW": "quietly"}, Stdin: strings.NewReader(in),
			})
			if out != "it's me quietly\n"+in || errs != "" {
				t.Errorf("with input: %d bytes of stdout beginning %.40q, stderr %q", len(out), out, errs)
			}
		})
	}
}

// If the login may not become the user, for any reason, the command does not begin, nothing is
// asked twice, and the error names the remedy.
func TestBecomeRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sudoers, doas, password string
		as                      core.Become
		says                    []string
	}{
		"wrong password":      {asks, "", "wrong horse", core.Become{User: "root"}, []string{"sudo as root: the password of user ops is wrong", "become_password of credential fleet"}},
		"sudo asks only once": {"Defaults passwd_tries=1\n" + asks, "", "wrong horse", core.Become{User: "root"}, []string{"sudo as root: the password of user ops is wrong", "become_password of credential fleet"}},
		"no password":         {asks, "", "", core.Become{User: "root"}, []string{"sudo as root: sudo: a password is required", "become_password", "NOPASSWD"}},
		"not in sudoers":      {"", "", "right horse", core.Become{User: "root"}, []string{"sudo as root: ", "in sudoers, write: ops ALL=(root) ALL"}},
		"a terminal is asked": {"Defaults requiretty\n" + asks, "", "right horse", core.Become{User: "root"}, []string{"tty", "!requiretty"}},
		"doas with password":  {"", "permit %s", "right horse", core.Become{User: "root", Method: core.BecomeDoas}, []string{"doas as root: ", "permit nopass ops as root"}},
		"no such user":        {asksNothing, "", "", core.Become{User: "nobody-here"}, []string{"unknown user", "--become-user"}},
		"an option as user":   {asksNothing, "", "", core.Become{User: "-V"}, []string{`become user "-V"`}},
		"another program":     {asksNothing, "", "", core.Become{User: "root", Method: "su; id"}, []string{"expected sudo or doas"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, login := elevated(t, c.sudoers, c.doas, c.password)
			for what, stdin := range map[string]string{"without input": "", "with input": "more\nlines\n"} {
				mark := filepath.Join(login.Home, "ran")
				e := Exec{Command: "touch " + mark, Become: c.as, Stdout: &bytes.Buffer{}}
				if stdin != "" {
					e.Stdin = strings.NewReader(stdin)
				}
				_, err := p.Run(testContext(t), h, e)
				var te *Error
				if !errors.As(err, &te) || !te.Before || !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrUnreachable) {
					t.Fatalf("%s: %v", what, err)
				}
				for _, part := range c.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: %v\nlacks %q", what, err, part)
					}
				}
				if wrong := c.password == "wrong horse"; errors.Is(err, ErrWrongPassword) != wrong {
					t.Errorf("%s: %v: a wrong password: %t", what, err, wrong)
				}
				if strings.Contains(err.Error(), "horse") || strings.Contains(err.Error(), "turnus-") {
					t.Errorf("%s: the error shows the password or the prompt: %v", what, err)
				}
				if _, err := os.Stat(mark); err == nil {
					t.Errorf("%s: the command ran", what)
				}
			}
		})
	}
}

// Files are written and read as the user: the login may not.
func TestBecomeFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sudoers, password string }{
		"without a password": {asksNothing, ""},
		"with a password":    {asks, "right horse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, _ := elevated(t, c.sudoers, "", c.password)
			dir := t.TempDir() // root's alone
			file, root := filepath.Join(dir, "conf"), core.Become{User: "root"}
			put := func(as core.Become) error {
				_, err := p.Put(testContext(t), h, Put{Path: file, Mode: 0o640, Size: 4, Become: as}, strings.NewReader("new\n"))
				return err
			}
			if err := put(core.Become{}); err == nil {
				t.Error("control: the login itself wrote it")
			}
			if err := put(root); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(file)
			if err != nil || st.Mode().Perm() != 0o640 {
				t.Errorf("%v: %v", st, err)
			}
			var got bytes.Buffer
			if info, err := p.Get(testContext(t), h, file, root, 100, &got); err != nil || got.String() != "new\n" || info.Mode != 0o640 {
				t.Errorf("%+v: %q: %v", info, got.String(), err)
			}
			if _, err := p.Get(testContext(t), h, file, core.Become{}, 100, &got); err == nil {
				t.Error("control: the login itself read it")
			}
			if _, err := p.Get(testContext(t), h, file+"x", root, 100, &got); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("a missing file: %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*.part.*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// A command that is cancelled ends as a whole, though its processes are root's and the login may
// not signal them.
func TestBecomeEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, c := range becoming() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, _ := elevated(t, c.sudoers, c.doas, c.password)
			ctx, cancel := context.WithCancel(testContext(t))
			ended, processes := linger(ctx, t, h, p, Exec{Become: c.as})
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			for _, pid := range processes {
				if alive(pid) {
					t.Errorf("process %d runs on", pid)
				}
			}
		})
	}
}

// A command that a crashed worker left running as root is ended before the first command of the
// next lease, also where that is the login's own. Where sudo asks the login for a password, such a
// command waits for the end of that one.
func TestBecomeFence(t *testing.T) {
	t.Parallel()
	for name, c := range becoming() {
		for what, as := range map[string]core.Become{"as the user": c.as, "as the login": {}} {
			t.Run(name+", then "+what, func(t *testing.T) {
				t.Parallel()
				h, p, _ := elevated(t, c.sudoers, c.doas, c.password)
				queue := "queue-" + newExecID()
				_, processes := linger(testContext(t), t, h, p, Exec{Become: c.as, Fence: Fence{queue, 1}})
				if c.password != "" && as.User == "" {
					ctx, cancel := context.WithTimeout(testContext(t), 8*time.Second) // more than the end of a group may take
					defer cancel()
					if _, err := p.Run(ctx, h, Exec{Command: "true", Fence: Fence{queue, 2}}); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the login's command did not wait: %v", err)
					}
					return
				}
				if exit, err := p.Run(testContext(t), h, Exec{Command: "true", Become: as, Fence: Fence{queue, 2}}); err != nil || exit.Code != 0 {
					t.Errorf("%+v: %v", exit, err)
				}
				for _, pid := range processes {
					if alive(pid) {
						t.Errorf("process %d runs on", pid)
					}
				}
				if _, err := p.Run(testContext(t), h, Exec{Command: "true", Become: c.as, Fence: Fence{queue, 1}}); !errors.Is(err, ErrStaleFence) {
					t.Errorf("the older lease: %v", err)
				}
			})
		}
	}
}

// linger begins a command that continues for longer than any test, with a child that ignores TERM.
// It returns when both run.
func linger(ctx context.Context, t *testing.T, h core.Host, p *Pool, e Exec) (ended <-chan error, processes []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	e.Command = "(trap '' TERM; sleep 1000; sleep 1000) & echo $$ $! >" + file + ".new; mv " + file + ".new " + file + "; wait"
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := p.Run(ctx, h, e)
		done <- err
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	eventually(t, "the command runs", func() bool {
		text, err := os.ReadFile(file)
		processes = nil
		for f := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				processes = append(processes, pid)
			}
		}
		return err == nil && len(processes) == 2
	})
	t.Cleanup(func() {
		for _, pid := range processes { // the groups: their children ignore TERM, and have no other owner
			if group, err := syscall.Getpgid(pid); err == nil && group > 1 {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
		}
	})
	return done, processes
}

// becoming are the ways in which processes of another user are kept: in the group of the login's,
// or under a terminal of sudo's.
func becoming() map[string]struct {
	sudoers, doas, password string
	as                      core.Become
} {
	return map[string]struct {
		sudoers, doas, password string
		as                      core.Become
	}{
		"sudo":                 {sudoers: asksNothing, as: core.Become{User: "root"}},
		"sudo with use_pty":    {sudoers: "Defaults use_pty\n" + asksNothing, as: core.Become{User: "root"}},
		"sudo with a password": {sudoers: "Defaults use_pty\n" + asks, password: "right horse", as: core.Become{User: "root"}},
		"doas":                 {doas: "permit nopass %s", as: core.Become{User: "root", Method: core.BecomeDoas}},
	}
}

// A host that is no shell may repeat its input, also the password, and so may a sudo of its own.
func TestBecomePasswordInErrors(t *testing.T) {
	t.Parallel()
	falsely := falseSudo(t, "read -r x\necho \"no $x\" >&2\nexit 1\n")
	for name, c := range map[string]struct{ force, says string }{
		"an echo":              {"cat", `said "***`},
		"an echo among errors": {"cat >&2", `said "***`},
		"a false sudo":         {falsely, "sudo as root: no ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p, _ := elevated(t, asks, "", "right horse", servers.SSHDConfig("ForceCommand "+c.force))
			_, err := p.Run(testContext(t), h, Exec{Command: "true", Become: core.Become{User: "root"}})
			if err == nil || strings.Contains(err.Error(), "right horse") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, expected %q", err, c.says)
			}
		})
	}
}

// falseSudo is a ForceCommand that runs what it is given, with this script as sudo.
func falseSudo(t *testing.T, script string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sudo") //nolint:usetesting // the login must reach it, and a test's folder is its user's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\n"+script), 0o755)); err != nil {
		t.Fatal(err)
	}
	return `PATH=` + dir + `:$PATH; export PATH; exec sh -c "$SSH_ORIGINAL_COMMAND"`
}

// A sudo that puts its own words around the prompt still asks (ansible #85837). It takes the
// password, or refuses it and is not given another one.
func TestTrapPromptInOtherWords(t *testing.T) {
	t.Parallel()
	const script = `while [ "$1" != -- ]; do [ "$1" != -p ] || p=$2; shift; done; shift
printf '[sudo: %s] Password: ' "$p" >&2; read -r x
[ "$x" = "right horse" ] || { printf '\nSorry, try again.\n[sudo: %s] Password: ' "$p" >&2; read -r x; exit 1; }
exec "$@"
`
	for _, password := range []string{"right horse", "wrong horse"} {
		t.Run(password, func(t *testing.T) {
			t.Parallel()
			h, p, _ := elevated(t, asks, "", password, servers.SSHDConfig("ForceCommand "+falseSudo(t, script)))
			var out, errs strings.Builder
			_, err := p.Run(testContext(t), h, Exec{Command: "cat; echo oops >&2", Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &errs, Become: core.Become{User: "root"}})
			if password == "wrong horse" {
				if !errors.Is(err, ErrWrongPassword) || strings.Contains(err.Error(), "horse") {
					t.Errorf("%v, expected %v", err, ErrWrongPassword)
				}
			} else if err != nil || out.String() != "input\n" || errs.String() != "oops\n" {
				t.Errorf("stdout %q, stderr %q, %v", out.String(), errs.String(), err)
			}
		})
	}
}

// Without a credential the answer is a flag of turnus run; of several lines of sudo, the reason is
// the one that counts. Control: a credential is named.
func TestBecomeHintsOfRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		credential, password, said string
		asked                      int
		says                       string
	}{
		"no password":               {"", "", "sudo: a password is required", 0, "hint: give its password with -K or --become-password-env, or write in sudoers: ops ALL=(root) NOPASSWD: ALL"},
		"wrong password":            {"", "x", "sudo: 1 incorrect password attempt", 1, "hint: give the right one with -K or --become-password-env; the job tries it once"},
		"no password, a credential": {"fleet", "", "sudo: a password is required", 0, "hint: give credential fleet a become_password, or"},
		"an unknown user":           {"", "", "sudo: unknown user nosuch\nsudo: error initializing audit plugin sudoers_audit\n", 0, "sudo: unknown user nosuch\nhint: correct the user"},
	} {
		up := &elevation{Become: core.Become{User: "root", Method: sudo}, credential: c.credential, password: c.password, prompt: "prompt"}
		if err := up.notElevated(&endpoint{name: "web1", user: "ops"}, c.said, c.asked, Exit{Code: 1}); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\nlacks %q", name, err, c.says)
		}
	}
}
