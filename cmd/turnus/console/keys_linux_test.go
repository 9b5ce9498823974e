package console

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// helperEnv makes the test program one that reads keys.
const helperEnv = "TURNUS_TEST_KEYS"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		readKeys()
		return
	}
	// Under nohup the programs started here would not know a hang-up.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, unix.SIGHUP)
	code := m.Run()
	signal.Stop(hangUps)
	os.Exit(code)
}

func readKeys() {
	con := New(os.Stdin, os.Stdout, os.Stderr)
	ctx, _, release := con.Signals(context.Background(), "first signal", con.Message, func() {})
	defer release()
	keys, stop := con.Keys()
	defer stop()
	fmt.Println("ready", keys != nil)
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-keys:
			switch key {
			case 'a':
				answered := con.Ask("name? ")
				line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
				answered()
				fmt.Println("asked", strings.TrimSpace(line))
			case 'p':
				panic("as the test asks")
			case 'q':
				return
			default:
				fmt.Println("key", string(rune(key)))
			}
		}
	}
}

// keyProgram runs the program on a terminal of its own.
type keyProgram struct {
	person, terminal *os.File
	cmd              *exec.Cmd
	said             chan string
	all              string
}

func startKeyProgram(t *testing.T) *keyProgram {
	t.Helper()
	return startOnTerminal(t, os.Args[0])
}

func startOnTerminal(t *testing.T, command ...string) *keyProgram {
	t.Helper()
	person, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	p := &keyProgram{person: person, terminal: terminal, cmd: exec.Command(command[0], command[1:]...), said: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), helperEnv+"=1", "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_, _ = person.Close(), terminal.Close()
	})
	go func() { // ends when the test closes the terminal
		defer close(p.said)
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			if err != nil {
				return
			}
			p.said <- string(buf[:n])
		}
	}()
	p.until(t, "ready true")
	return p
}

func (p *keyProgram) until(t *testing.T, want string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(p.all, want) {
		select {
		case text := <-p.said:
			p.all += text
		case <-limit:
			t.Fatalf("no %q within a minute: %q", want, p.all)
		}
	}
}

func (p *keyProgram) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// untilMode waits until the terminal reads lines with echo, or does not.
func (p *keyProgram) untilMode(t *testing.T, lines bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		mode, err := unix.IoctlGetTermios(int(p.terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if now := mode.Lflag & (unix.ECHO | unix.ICANON); lines && now == unix.ECHO|unix.ICANON || !lines && now == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the terminal's mode is %#x", mode.Lflag)
		}
	}
}

func TestTheTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*keyProgram){
		"q":       func(p *keyProgram) { p.press(t, "q") },
		"panic":   func(p *keyProgram) { p.press(t, "p") },
		"Ctrl-C":  func(p *keyProgram) { p.press(t, "\x03") },
		"SIGTERM": func(p *keyProgram) { _ = p.cmd.Process.Signal(unix.SIGTERM) },
		"SIGQUIT": func(p *keyProgram) { _ = p.cmd.Process.Signal(unix.SIGQUIT) },
		"SIGHUP":  func(p *keyProgram) { _ = p.cmd.Process.Signal(unix.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startKeyProgram(t)
			p.untilMode(t, false) // negative control
			p.press(t, "x")
			p.until(t, "key x")
			end(p)
			_ = p.cmd.Wait() // its exit code is of no interest
			p.untilMode(t, true)
		})
	}
}

// A process that nohup started keeps reading keys after a hang-up.
func TestAHangUpUnderNohupIsNoEnd(t *testing.T) {
	t.Parallel()
	p := startOnTerminal(t, "sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	p.untilMode(t, false)
	if !ignoresHangUp(t, p.cmd.Process.Pid) {
		t.Error("the program asked for the signal that it was started to ignore")
	}
	if ignoresHangUp(t, startKeyProgram(t).cmd.Process.Pid) {
		t.Error("the negative control, started without nohup, ignores a hang-up")
	}
	if err := p.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.press(t, "x")
	p.until(t, "key x")
}

func ignoresHangUp(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, ignored, _ := strings.Cut(string(status), "SigIgn:\t")
	mask, err := strconv.ParseUint(ignored[:min(16, len(ignored))], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(unix.SIGHUP-1)) != 0
}

// A question reads a line, which the keys do not take away.
func TestAQuestionReadsALine(t *testing.T) {
	t.Parallel()
	p := startKeyProgram(t)
	p.press(t, "a")
	p.until(t, "name? ")
	p.untilMode(t, true)
	p.press(t, "ada\n")
	p.until(t, "asked ada")
	p.untilMode(t, false)
	p.press(t, "x")
	p.until(t, "key x")
}

// A shell has set the terminal's mode while the process was stopped.
func TestKeysAreReadAgainAfterAStop(t *testing.T) {
	t.Parallel()
	p := startKeyProgram(t)
	p.untilMode(t, false)
	if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fd := int(p.terminal.Fd())
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag |= unix.ECHO | unix.ICANON
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.untilMode(t, false)
	p.press(t, "x")
	p.until(t, "key x")
}
