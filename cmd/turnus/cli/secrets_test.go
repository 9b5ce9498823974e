package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/secrets/vaulttest"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/transport/sshdtest"
)

func writeText(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// What can be sealed is what a step can be given.
func TestTheShortestSecretIsOneForAll(t *testing.T) {
	if secrets.MinValue != redact.MinValue || secrets.MaxValue != redact.MaxValue {
		t.Errorf("a value has %d to %d bytes, and %d to %d can be kept out of text", secrets.MinValue, secrets.MaxValue, redact.MinValue, redact.MaxValue)
	}
}

// Logins by certificates of Vault's SSH engine, through the flags, on a real sshd that knows nothing but the authority.
func TestVaultSignsLoginsAgainstOpenSSH(t *testing.T) {
	vault := vaulttest.Start(t)
	trusted := writeText(t, "ca.pub", string(ssh.MarshalAuthorizedKey(vault.SSHCA)), 0o600)
	server := sshdtest.Start(t, sshdtest.Config("TrustedUserCAKeys "+trusted))
	token := writeText(t, "token", vault.NewToken(0, false, "ssh/sign/turnus", "auth/"), 0o600)
	own := writeText(t, "own.yaml", "vault: {address: \""+vault.URL+"\", ca_file: "+vault.CAFile+", token_file: "+token+"}\n", 0o600)
	for role, works := range map[string]bool{"ssh/turnus": true, "ssh/other": false} {
		f := nodeFlags{ssh: sshFlags{keys: []string{}, agent: "none", knownHosts: []string{"/dev/null"}, connectTimeout: time.Minute, certs: certFlags{vault: role, lifetime: 5 * time.Minute}},
			secrets: secretFlags{file: own}}
		store, err := f.secrets.open(newApp(strings.NewReader(""), os.Stdout, os.Stderr).logger(false))
		if err != nil {
			t.Fatal(err)
		}
		pool, err := f.ssh.pool(t.Context(), func() *inventory.Inventory { return nil }, store)
		if err != nil {
			t.Fatal(err)
		}
		h := server.Host("web1")
		var out strings.Builder
		_, err = pool.Run(t.Context(), h, transport.Exec{Command: "echo in", Stdout: &out})
		if works && (err != nil || out.String() != "in\n") || !works && (err == nil || !strings.Contains(err.Error(), "Vault answers 403")) {
			t.Errorf("%s: got %q, %v", role, out.String(), err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		store.Close()
	}
	if n := vault.Seen("POST ssh/sign/turnus"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// terminal is a pseudo terminal: what a person has, and what a program has.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
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

// turnusProcess is this test's binary as turnus.
func turnusProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "turnus") // testscript.Main tells commands by it
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), name, args...)
}

func TestASecretTypedIsNotSeen(t *testing.T) {
	dir := t.TempDir()
	out, _ := turnus(t, exitOK, "secrets", "keygen", filepath.Join(dir, "id.age"))
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
			s.until(t, "sealed snmp")
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
	turnus(t, exitOK, "secrets", "check", "--file", file, "--secrets-identity", filepath.Join(dir, "id.age"))
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

// What is edited is gone when a signal comes, and the file of secrets is as it was.
func TestEditLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	identity, file, mark := filepath.Join(dir, "id.age"), filepath.Join(dir, "secrets.yaml"), filepath.Join(dir, "mark")
	out, _ := turnus(t, exitOK, "secrets", "keygen", identity)
	seal := turnusProcess(t, "secrets", "encrypt", "snmp", "--file", file, "--recipient", strings.TrimSpace(out))
	seal.Stdin = strings.NewReader("hunter2")
	if text, err := seal.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	editor := writeText(t, "editor", "#!/bin/sh\ncat \"$1\" >"+dir+"/seen\nstat -c %a \"$1\" \"$(dirname \"$1\")\" >"+dir+"/modes\ncp \"$1\" \"$1~\"\necho hunter3 >\"$1\"\necho \"$1\" >"+mark+".new\nmv "+mark+".new "+mark+"\nexec sleep 1000\n", 0o700)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd := turnusProcess(t, "secrets", "edit", "snmp", "--file", file, "--secrets-identity", identity)
		cmd.Env = append(os.Environ(), "VISUAL=", "EDITOR="+editor)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal has it: Ctrl-C goes to the editor, too
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		path := waitFile(t, mark)
		target := cmd.Process.Pid
		if signal == syscall.SIGINT {
			target = -target
		}
		if err := syscall.Kill(target, signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitCancelled {
			t.Errorf("%v: got %v: %s", signal, err, said.String())
		}
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Errorf("%v: %s is still there: %v", signal, filepath.Dir(path), err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%v: the file has changed: %v", signal, err)
		}
		if modes := waitFile(t, filepath.Join(dir, "modes")); modes != "600\n700" {
			t.Errorf("modes %q", modes)
		}
		if seen := waitFile(t, filepath.Join(dir, "seen")); seen != "hunter2" {
			t.Errorf("the editor got %q", seen)
		}
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
	}
}

func waitFile(t *testing.T, path string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s does not come", path)
		}
	}
}
