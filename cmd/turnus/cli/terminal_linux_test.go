package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// terminal is a pseudo terminal: what a person has, and what a program has.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = person.Close(), program.Close() })
	return person, program
}

// said collects what a terminal shows.
type said struct {
	lines chan string
	all   strings.Builder
}

func (s *said) until(t *testing.T, want string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(s.all.String(), want) {
		select {
		case text, ok := <-s.lines:
			if !ok {
				t.Fatalf("the terminal ended without %q: %q", want, s.all.String())
			}
			s.all.WriteString(text)
		case <-limit:
			t.Fatalf("no %q within a minute: %q", want, s.all.String())
		}
	}
}

func watchTerminal(t *testing.T, f *os.File) *said {
	t.Helper()
	s := &said{lines: make(chan string, 1000)}
	go func() { // ends when the test closes the terminal
		defer close(s.lines)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			s.lines <- string(buf[:n])
		}
	}()
	return s
}

func TestASecretTypedIsNotSeen(t *testing.T) {
	dir := t.TempDir()
	out, _ := turnus(t, console.ExitOK, "secrets", "keygen", filepath.Join(dir, "id.age"))
	file := filepath.Join(dir, "secrets.yaml")
	for _, c := range []struct {
		second string
		ok     bool
	}{{"hunter3", false}, {"hunter2", true}} {
		person, program := terminal(t)
		cmd := turnusProcess(t, "secrets", "encrypt", "snmp", "--file", file, "--recipient", strings.TrimSpace(out))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s := watchTerminal(t, person)
		for _, step := range [][2]string{{"value of snmp: ", "hunter2"}, {"once more: ", c.second}} {
			s.until(t, step[0])
			waitNoEcho(t, program)
			if _, err := person.WriteString(step[1] + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		err := cmd.Wait()
		if c.ok {
			s.until(t, "encrypted snmp")
		} else {
			s.until(t, "not the same")
		}
		if (err == nil) != c.ok || strings.Contains(s.all.String(), "hunter") {
			t.Errorf("%v: got %v and %q", c, err, s.all.String())
		}
		state, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err != nil || state.Lflag&unix.ECHO == 0 {
			t.Errorf("the terminal has no echo any more: %v", err)
		}
	}
	turnus(t, console.ExitOK, "secrets", "check", "--file", file, "--secrets-identity", filepath.Join(dir, "id.age"))
}

// A person who sees the run, but whose answer it cannot read, is not asked: the run is refused
// before it contacts a host.
func TestAWaveIsNotApprovedFromNowhere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "site.yaml")
	text := "playbook: site\ntargets: true\nstrategy: {waves: [1, 100%], pause_between: approve}\nsteps: [{name: a, uses: command, with: {run: uptime}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	person, program := terminal(t)
	cmd := turnusProcess(t, "run", file, "-i", "127.0.0.1:1,127.0.0.2:1,", "--no-record")
	cmd.Stdout, cmd.Stderr = program, program // stdin is /dev/null
	s := watchTerminal(t, person)
	err := cmd.Run()
	s.until(t, "not both a terminal")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != console.ExitInvalid || strings.Contains(s.all.String(), "unreachable") {
		t.Errorf("%v: %q", err, s.all.String())
	}
}

// waitNoEcho waits until the program has switched the echo off.
func waitNoEcho(t *testing.T, program *os.File) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		state, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err == nil && state.Lflag&unix.ECHO == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the echo stays on: %v", err)
		}
	}
}
