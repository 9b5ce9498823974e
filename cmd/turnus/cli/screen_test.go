package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
)

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: w.err}
}

// turnus run --events | head -1: the process does not die in the middle of a job; it drains.
func TestEndOfTheReaderDrains(t *testing.T) {
	a := newApp(strings.NewReader(""), failingWriter{syscall.EPIPE}, new(bytes.Buffer))
	ctx, now, release := a.Signals(t.Context(), "stopping", func(string) {}, func() {})
	defer release()
	if ctx.Err() != nil {
		t.Fatal("negative control: nothing was written yet")
	}
	_, _ = a.Out.Write([]byte("x"))
	_, _ = a.Out.Write([]byte("y"))
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the run continues")
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
	for _, args := range [][]string{{"version"}, {"plugins", "ls"}, {"hosts", "ls", "-i", "a,b,"}, {"--help"}, {"run", "--help"}, {"runs"}, {"--version"}} {
		stderr.Reset()
		if code := Main(args, strings.NewReader(""), full, &stderr); code != console.ExitInternal || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
	if code := Main([]string{"version"}, strings.NewReader(""), new(bytes.Buffer), &stderr); code != console.ExitOK {
		t.Errorf("negative control: exit code %d, %s", code, &stderr)
	}
}

// Text that people paste into tickets shows no password, and yet the variable counts.
func TestHelpShowsNoPasswordOfTheQueue(t *testing.T) {
	t.Setenv("TURNUS_REDIS", "redis://user:hunter2@127.0.0.1:1/0")
	for _, args := range [][]string{{"run", "--help"}, {"worker", "--help"}, {"worker"}} {
		var out bytes.Buffer
		code := Main(args, strings.NewReader(""), &out, &out)
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("%v prints the password:\n%s", args, out.String())
		}
		if len(args) == 1 && (code != console.ExitInternal || strings.Contains(out.String(), "needs a queue")) {
			t.Errorf("negative control: exit code %d: %s", code, out.String())
		}
	}
}

// turnus admin settings show up | head -1: the reader that went away knows.
func TestEndOfTheReaderIsNotReported(t *testing.T) {
	for err, reported := range map[error]bool{syscall.EPIPE: false, syscall.ENOSPC: true} {
		var stderr bytes.Buffer
		if code := Main([]string{"admin", "settings", "show", "worker"}, strings.NewReader(""), failingWriter{err}, &stderr); code != console.ExitInternal || stderr.Len() > 0 != reported {
			t.Errorf("%v: exit code %d, %q", err, code, &stderr)
		}
	}
}
