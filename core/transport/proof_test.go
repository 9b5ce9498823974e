package transport

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A device with a command line of its own answers anything with an error text and exit status 0.
// That is no success of a command, and its text is nobody's output.
func TestFaultW2CommandLineOfADeviceIsNoShell(t *testing.T) {
	t.Parallel() // one of the devices has no end: it waits
	for name, c := range map[string]struct {
		answer func(ch ssh.Channel, command string) uint32
		says   string
	}{
		"error text":           {func(ch ssh.Channel, _ string) uint32 { _, _ = io.WriteString(ch, "% Invalid input\n"); return 0 }, "% Invalid input"},
		"error text on stderr": {func(ch ssh.Channel, _ string) uint32 { _, _ = io.WriteString(ch.Stderr(), "bad verb\n"); return 0 }, "bad verb"},
		"nothing":              {func(ssh.Channel, string) uint32 { return 0 }, "exit code 0"},
		"exit code":            {func(ch ssh.Channel, _ string) uint32 { _, _ = io.WriteString(ch, "not available"); return 1 }, "exit code 1"},
		"echo of the text": {func(ch ssh.Channel, command string) uint32 {
			_, _ = io.WriteString(ch, command+"\n% Invalid input\n")
			return 0
		}, "exec /bin/sh"},
		"without end": {func(ch ssh.Channel, _ string) uint32 {
			for {
				if _, err := ch.Write(bytes.Repeat([]byte("x"), 1<<10)); err != nil {
					return 0
				}
			}
		}, "printed more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, nil)
			f := startFake(t, "127.0.0.1", func(f *fake) {
				f.cli = true
				f.onExec = func(ch ssh.Channel, command, _ string) uint32 { return c.answer(ch, command) }
			})
			var out bytes.Buffer
			exit, err := p.Run(testContext(t), f.host("switch"), Exec{Command: "show version", Stdout: &out})
			if !errors.Is(err, errNoShell) || errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%+v, %v: expected that no shell ran, and %q", exit, err, c.says)
			}
			if out.Len() > 0 {
				t.Errorf("the device's words came as output: %q", out.String())
			}
			f.cli = false // negative control: with the proof before it, the same answer is the command's
			if name != "without end" {
				if _, err := p.Run(testContext(t), f.host("switch"), Exec{Command: "x"}); err != nil {
					t.Errorf("negative control: %v", err)
				}
			}
			f.cli = true
			if name == "without end" {
				return
			}
			for _, err := range []error{second(p.Get(testContext(t), f.host("switch"), "/x", core.Become{}, 0, io.Discard)), second(p.Put(testContext(t), f.host("switch"), Put{Path: "/x", Size: 1}, strings.NewReader("x")))} {
				if err == nil || !errors.Is(err, errNoShell) && !strings.Contains(err.Error(), "/x") {
					t.Errorf("a transfer: %v", err)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Text that a login prints before the command is not the command's; the command's output arrives
// byte by byte, in each shell.
func TestProofIsSeenByNobody(t *testing.T) {
	busybox := testparts.Need(t, "busybox", "busybox")
	dir := t.TempDir()
	force := func(shell string) string {
		path := filepath.Join(dir, "force-"+filepath.Base(strings.Fields(shell)[0]))
		text := "#!/bin/sh\necho Welcome; echo turnus:; printf 'no newline'\necho warning >&2\ncase $SSH_ORIGINAL_COMMAND in 'exec /bin/sh -c '*) eval \"exec " + shell + " -c ${SSH_ORIGINAL_COMMAND#exec /bin/sh -c }\";; esac\nexit 99\n"
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, shell := range []string{"/bin/dash", busybox + " sh", "/bin/bash --posix", "/bin/bash"} {
		t.Run(shell, func(t *testing.T) {
			s, p := startSSHD(t, servers.SSHDConfig("ForceCommand "+force(shell)))
			var out, errs bytes.Buffer
			exit, err := p.Run(testContext(t), s.Host("web1"), Exec{
				Command: `printf '\000turnus:\n\377'; printf "%s" "$A$TURNUS_EXEC"; cat; echo bad >&2; exit 3`, Stdin: strings.NewReader("in"),
				Env: map[string]string{"A": "a"}, Secrets: map[string]string{"B": "b"}, Stdout: &out, Stderr: &errs,
			})
			got := out.String()
			if err != nil || exit.Code != 3 || !strings.HasPrefix(got, "\x00turnus:\n\xffa") || !strings.HasSuffix(got, "in") || len(got) != 29 || errs.String() != "warning\nbad\n" {
				t.Errorf("%+v, %v, stdout %q, stderr %q", exit, err, got, errs.String())
			}
			errs.Reset()
			if exit, err := p.Run(testContext(t), s.Host("web1"), Exec{Command: "if [ x", Stderr: &errs}); err != nil || exit.Code == 0 {
				t.Errorf("a syntax error: %+v, %v, %s", exit, err, errs.String())
			}
		})
	}
}

// The line may come in any pieces.
func TestProofInPieces(t *testing.T) {
	const all = "Welcome\nturnus:turnus:12\nturnus:12\nrest" // the id is also found in the middle
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(all), "bytes": iotest.OneByteReader(strings.NewReader(all)), "halves": iotest.HalfReader(strings.NewReader(all))} {
		p := newProof("12", nil)
		var got []byte
		for buf := make([]byte, 16); ; {
			n, err := r.Read(buf)
			b, more := p.pass(buf[:n])
			if got = append(got, b...); !more {
				t.Fatal(name)
			}
			if err != nil {
				break
			}
		}
		if ok, stale := p.given(); string(got) != "turnus:12\nrest" || !ok || stale {
			t.Errorf("%s: %q", name, got)
		}
	}
}
