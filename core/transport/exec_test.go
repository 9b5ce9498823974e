package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// newPool makes a pool that knows nothing of the machine's own SSH files.
func newPool(tb testing.TB, change func(*Config)) *Pool {
	tb.Helper()
	cfg := Config{Credential: Always(&Credential{Keys: NewKeys(nil)}), KnownHosts: []string{"/dev/null"}, ConnectTimeout: time.Minute}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// offers returns what a pool made by newPool offers to every host.
func offers(c *Config) *Credential {
	cred, _ := c.Credential(core.Host{})
	return cred
}

// named offers each host the credential of its name, and nothing to others.
func named(creds map[string]*Credential) func(*Config) {
	return func(c *Config) {
		c.Credential = func(h core.Host) (*Credential, error) {
			if cred := creds[h.Name]; cred != nil {
				return cred, nil
			}
			return &Credential{}, nil
		}
	}
}

// startSSHD runs a real server and a pool that may log in.
func startSSHD(tb testing.TB, opts ...servers.SSHDOption) (*servers.SSHD, *Pool) {
	tb.Helper()
	key, public := servers.NewSSHKey(tb)
	s := servers.StartSSHD(tb, append(opts, servers.Authorize(public))...)
	return s, newPool(tb, func(c *Config) { offers(c).Identities = []string{key} })
}

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func TestRunAgainstOpenSSH(t *testing.T) {
	s, p := startSSHD(t)
	h := s.Host("web1")
	tests := []struct {
		name   string
		exec   Exec
		stdout string
		stderr string
		exit   Exit
	}{
		{"output", Exec{Command: "echo out; echo err >&2"}, "out\n", "err\n", Exit{}},
		{"exit code", Exec{Command: "exit 7"}, "", "", Exit{Code: 7}},
		{"signal", Exec{Command: "kill -KILL $$"}, "", "", Exit{Code: 137, Signal: "KILL"}},
		{"stdin", Exec{Command: "cat", Stdin: strings.NewReader("hello")}, "hello", "", Exit{}},
		{"no stdin", Exec{Command: "cat; echo end"}, "end\n", "", Exit{}},
		{"quotes", Exec{Command: `echo 'it'"'"'s' "$HOME" | tr -d '/' | wc -l; printf '%s' '$x \ !'`}, "1\n$x \\ !", "", Exit{}},
		{"environment", Exec{Command: `printf '%s|%s' "$A" "$B"`, Env: map[string]string{"A": "it's", "B": "two\nlines $A"}}, "it's|two\nlines $A", "", Exit{}},
		{"several lines", Exec{Command: "if true; then\n  echo yes\nfi"}, "yes\n", "", Exit{}},
		{"binary", Exec{Command: `printf '\000\377\001'`}, "\x00\xff\x01", "", Exit{}},
		{"a prompt ends by itself", Exec{Command: "(read answer </dev/tty) 2>/dev/null || echo no terminal; read answer || echo no input"}, "no terminal\nno input\n", "", Exit{}},
		{"secrets", Exec{Command: `printf '%s|%s|%s|' "$A" "$B" "$IFS"; cat; env | grep -c turnus_`, Env: map[string]string{"A": "overruled"}, Stdin: strings.NewReader("  its own\ninput\\\n"),
			Secrets: map[string]string{"A": "it's \\ $HOME `x`", "B": " two\n\n lines\xff\n"}}, "it's \\ $HOME `x`| two\n\n lines\xff\n| \t\n|  its own\ninput\\\n0\n", "", Exit{Code: 1}},
		{"secrets without input", Exec{Command: `printf %s "$A"; cat`, Secrets: map[string]string{"A": "x"}}, "x", "", Exit{}},
		{"fresh connection", Exec{Command: "echo new", Fresh: true}, "new\n", "", Exit{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			tt.exec.Stdout, tt.exec.Stderr = &out, &errs
			exit, err := p.Run(testContext(t), h, tt.exec)
			if err != nil {
				t.Fatal(err)
			}
			if exit != tt.exit || out.String() != tt.stdout || errs.String() != tt.stderr {
				t.Errorf("got %+v, stdout %q, stderr %q; expected %+v, %q, %q", exit, out.String(), errs.String(), tt.exit, tt.stdout, tt.stderr)
			}
		})
	}
	if st := p.Stats(); st.Dials != 2 || st.Open != 1 { // one pooled, one fresh
		t.Errorf("stats %+v: expected 2 dials and 1 open connection", st)
	}
}

func TestRunRefusesWhatCannotBeSent(t *testing.T) {
	p := newPool(t, nil)
	for _, e := range []Exec{
		{Command: "echo \x00"},
		{Command: "true", Env: map[string]string{"A-B": "x"}},
		{Command: "true", Env: map[string]string{"": "x"}},
		{Command: strings.Repeat("x", maxCommand)},
		{Command: "true", Secrets: map[string]string{"A-B": "geheim"}},
		{Command: "true", Secrets: map[string]string{"A": "geheim\x00"}},
		{Command: "true", Secrets: map[string]string{"A": strings.Repeat("geheim", maxSecret)}},
	} {
		if _, err := p.Run(testContext(t), core.Host{Name: "h", Address: "127.0.0.1"}, e); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%.20q %v: got %v, expected core.ErrInvalid", e.Command, e.Env, err)
		} else if strings.Contains(err.Error(), "geheim") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// A secret is in no process's arguments: the command reads those of all processes, itself included.
// The control is a variable that is none.
func TestSecretsAreInNoProcessList(t *testing.T) {
	s, p := startSSHD(t)
	const check = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; printf %s \"$A\" | wc -c"
	for _, secret := range []bool{true, false} {
		e := Exec{Command: check}
		value := map[string]string{"A": "in-no-list-" + newExecID()}
		if e.Env = value; secret {
			e.Env, e.Secrets = nil, value
		}
		var out bytes.Buffer
		e.Stdout = &out
		if _, err := p.Run(testContext(t), s.Host("web1"), e); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), value["A"]) == secret || !strings.HasSuffix(strings.TrimSpace(out.String()), strconv.Itoa(len(value["A"]))) {
			t.Errorf("secret %v: %s", secret, out.String())
		}
	}
}

// firstWrite shows when a command has begun to write.
type firstWrite struct{ began chan struct{} }

func (w *firstWrite) Write(b []byte) (int, error) {
	select {
	case <-w.began:
	default:
		close(w.began)
	}
	return len(b), nil
}

func TestRunEndsRemoteProcessGroupWhenContextEnds(t *testing.T) {
	s, p := startSSHD(t)
	for _, command := range []string{
		"echo $$; sleep 1000",
		"trap '' TERM; echo $$; while :; do sleep 0.1; done", // needs KILL
	} {
		ctx, cancel := context.WithCancel(testContext(t))
		var out bytes.Buffer
		began := &firstWrite{make(chan struct{})}
		go func() {
			<-began.began
			cancel()
		}()
		_, err := p.Run(ctx, s.Host("web1"), Exec{Command: command, Stdout: io.MultiWriter(&out, began)})
		var e *Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Before || errors.Is(err, core.ErrUnreachable) {
			t.Errorf("%s: got %v, expected an *Error with context.Canceled that is not Before", command, err)
		}
		pid := strings.TrimSpace(out.String())
		exit, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "i=0; while kill -0 " + pid + " 2>/dev/null && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done; ! kill -0 " + pid + " 2>/dev/null"})
		if err != nil || exit.Code != 0 {
			t.Errorf("%s: process %s still runs (%v %v)", command, pid, exit, err)
		}
	}
}

// A command whose shell ends immediately, and whose children end only after a while: Run returns
// when the whole group has ended, so that nothing else begins on the host before. Red where the
// shell's end will do.
func TestRunWaitsForTheWholeProcessGroupWhenContextEnds(t *testing.T) {
	s, p := startSSHD(t)
	for name, c := range map[string]struct {
		trap string // of the child, upon TERM
	}{
		"it takes a moment to end": {"sleep 0.7; exit"},
		"it has to be killed":      {""},
	} {
		ctx, cancel := context.WithCancel(testContext(t))
		var out bytes.Buffer
		began := &firstWrite{make(chan struct{})}
		go func() {
			<-began.began
			cancel()
		}()
		command := "sh -c 'trap \"" + c.trap + "\" TERM; echo $PPID; while :; do sleep 0.1; done'; true"
		if _, err := p.Run(ctx, s.Host("web1"), Exec{Command: command, Stdout: io.MultiWriter(&out, began)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		group := strings.TrimSpace(out.String())
		var left strings.Builder
		exit, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "sed -n 's/.*) [^ZX] [0-9]* " + group + " .*/&/p' /proc/[0-9]*/stat 2>/dev/null", Stdout: &left})
		if err != nil || left.Len() > 0 {
			t.Errorf("%s: of group %s is left %q; %+v, %v", name, group, left.String(), exit, err)
		}
	}
}

// A process in a call of the kernel may outlive KILL: the script must not report its end. A signal
// without effect stands for that call.
func TestKillScriptFailsWhereAProcessOutlivesKill(t *testing.T) {
	t.Parallel()
	sshd := filepath.Join(t.TempDir(), "sshd")
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sh, sshd); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	parent := exec.CommandContext(testContext(t), sshd, "-c", "setsid sh -c 'echo begun; while :; do sleep 1; done' & wait") // #nosec G204 // the program is a link to sh
	parent.Env = append(os.Environ(), "TURNUS_EXEC=0123456789abcdef")
	parent.Stdout = &firstWrite{began}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	<-began
	for _, c := range []struct {
		kill string
		exit int
	}{
		{`kill() { [ "$1" != -0 ] || command kill "$@"; }` + "\n", 1},
		{"", 0},
	} {
		script := exec.CommandContext(testContext(t), "/bin/sh", "-c", c.kill+killScript, "turnus", "01234567", "89abcdef") // #nosec G204 // the script is the product's
		_ = script.Run()
		if got := script.ProcessState.ExitCode(); got != c.exit {
			t.Errorf("with %q: exit %d, expected %d", c.kill, got, c.exit)
		}
	}
	_ = parent.Wait()
}

func TestTrapBackgroundChildHoldsStdout(t *testing.T) { // reference ssh 8
	s, p := startSSHD(t)
	var out bytes.Buffer
	began := time.Now()
	exit, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "sleep 100 & echo started", Stdout: &out})
	if err != nil || exit.Code != 0 || out.String() != "started\n" {
		t.Fatalf("got %v %v %q", exit, err, out.String())
	}
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("took %v, as long as the child", took)
	}
}

func TestRunStreamsLargeOutputInFlatMemory(t *testing.T) {
	s, p := startSSHD(t)
	const size = 64 << 20
	var n int64
	exit, err := p.Run(testContext(t), s.Host("web1"), Exec{
		Command: "head -c 67108864 /dev/zero", Stdout: writerFunc(func(b []byte) (int, error) { n += int64(len(b)); return len(b), nil }),
	})
	if err != nil || exit.Code != 0 || n != size {
		t.Errorf("got %d bytes, %v, %v; expected %d", n, exit, err, size)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRunStopsWhenTheWriterFails(t *testing.T) {
	s, p := startSSHD(t)
	full := errors.New("disk full")
	_, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "yes", Stdout: writerFunc(func([]byte) (int, error) { return 0, full })})
	if !errors.Is(err, full) || errors.Is(err, core.ErrUnreachable) {
		t.Errorf("got %v, expected the writer's error", err)
	}
}

func TestConnectionLostMidCommandIsNotBefore(t *testing.T) {
	s, p := startSSHD(t)
	began := &firstWrite{make(chan struct{})}
	go func() {
		<-began.began
		s.Stop()
	}()
	_, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "echo go; sleep 1000", Stdout: began})
	var e *Error
	if !errors.As(err, &e) || e.Before || !errors.Is(err, core.ErrUnreachable) || !errors.Is(err, core.ErrUnknown) {
		t.Errorf("got %v, expected a lost connection with Before unset", err)
	}
}
