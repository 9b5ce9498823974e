package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whatever a host, a plugin or a file says, it cannot move the cursor, set a title or clear the screen.
func TestScreenLetsNoOrderPass(t *testing.T) {
	for _, c := range []struct{ name, in, styled, plain string }{
		{"text", "a\tb\nü·\n", "a\tb\nü·\n", "a\tb\nü·\n"},
		{"own colour", "\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", "red"},
		{"title", "a\x1b]0;pwn\x07b", "a·]0;pwn·b", "a·]0;pwn·b"},
		{"clear", "\x1b[2J\x1b[1A\x1b[K", "·[2J·[1A·[K", "·[2J·[1A·[K"},
		{"hidden text", "\x1b[8mx\x1b[1;31mx", "·[8mx·[1;31mx", "·[8mx·[1;31mx"},
		{"return and backspace", "ok\rno\b", "ok·no·", "ok·no·"},
		{"C1", "\u009b2J\x9b2J", "·2J\ufffd2J", "·2J\ufffd2J"},
		{"from right to left", "rm \u202etxt.a\u2066b\u2069", "rm ·txt.a·b·", "rm ·txt.a·b·"},
		{"Hebrew and Arabic", "שלום مرحبا\u200f", "שלום مرحبا\u200f", "שלום مرحبا\u200f"},
		{"escape at the end", "x\x1b", "x·", "x·"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := clean(c.in, true); got != c.styled {
				t.Errorf("styled: %q, want %q", got, c.styled)
			}
			if got := clean(c.in, false); got != c.plain {
				t.Errorf("plain: %q, want %q", got, c.plain)
			}
		})
	}
}

func TestDocumentsAreNotFiltered(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(&b, false, func() {})
	if err := printJSON(s, "\u009bx"); err != nil || b.String() != "\"\u009bx\"\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: w.err}
}

// turnus run --events | head -1: the process does not die in the middle of a job; it drains.
func TestEndOfTheReaderDrains(t *testing.T) {
	a := newApp(strings.NewReader(""), failingWriter{syscall.EPIPE}, new(bytes.Buffer))
	ctx, now, release := a.signals(t.Context(), finishingJobs, func(string) {}, func() {})
	defer release()
	if ctx.Err() != nil {
		t.Fatal("negative control: nothing was written yet")
	}
	newEventWriter(a.out).write(eventLine{Event: "x"})
	newEventWriter(a.out).write(eventLine{Event: "y"})
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the run goes on")
	}
	select {
	case <-now:
		t.Error("running jobs were cancelled")
	default:
	}
}

// A result that could not be written is not a success.
func TestFullOutputIsAnError(t *testing.T) {
	full := failingWriter{syscall.ENOSPC}
	var stderr bytes.Buffer
	for _, args := range [][]string{{"version"}, {"plugins", "ls"}, {"hosts", "-i", "a,b,"}} {
		stderr.Reset()
		if code := Main(args, strings.NewReader(""), full, &stderr); code != exitInternal || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
	if code := Main([]string{"version"}, strings.NewReader(""), new(bytes.Buffer), &stderr); code != exitOK {
		t.Errorf("negative control: exit code %d, %s", code, &stderr)
	}
}

// What people paste into tickets shows no password, and yet the variable counts.
func TestHelpShowsNoPasswordOfTheQueue(t *testing.T) {
	t.Setenv("TURNUS_REDIS", "redis://user:hunter2@127.0.0.1:1/0")
	for _, args := range [][]string{{"run", "--help"}, {"worker", "--help"}, {"worker"}} {
		var out bytes.Buffer
		code := Main(args, strings.NewReader(""), &out, &out)
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("%v prints the password:\n%s", args, out.String())
		}
		if len(args) == 1 && (code != exitInternal || strings.Contains(out.String(), "needs a queue")) {
			t.Errorf("negative control: exit code %d: %s", code, out.String())
		}
	}
}

// The figures must be seen at 40 columns; a bar that pushes them out shows nothing.
func TestLiveLineFitsItsTerminal(t *testing.T) {
	a := newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	p := progress{name: "ntp-everywhere", total: 300, done: 150, running: 9}
	if got, want := a.liveLines(p, 40)[0], "ntp-everywhere 150/300  9 running  0/s"; got != want {
		t.Errorf("40 columns: %q, want %q", got, want)
	}
	bar := strings.Repeat("━", barWidth/2) + strings.Repeat("─", barWidth/2)
	if got, want := a.liveLines(p, 80)[0], "ntp-everywhere "+bar+" 150/300  9 running  0/s"; got != want {
		t.Errorf("80 columns: %q, want %q", got, want)
	}
}

// turnus config show up | head -1: whoever went away knows.
func TestEndOfTheReaderIsNotTold(t *testing.T) {
	for err, told := range map[error]bool{syscall.EPIPE: false, syscall.ENOSPC: true} {
		var stderr bytes.Buffer
		if code := Main([]string{"config", "show", "worker"}, strings.NewReader(""), failingWriter{err}, &stderr); code != exitInternal || stderr.Len() > 0 != told {
			t.Errorf("%v: exit code %d, %q", err, code, &stderr)
		}
	}
}
