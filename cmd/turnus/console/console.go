// Package console owns how a command reads and writes: results on stdout, messages and a part that
// changes in place on stderr, logs, colours, signals, and exit codes. Control characters of hosts
// and plugins do not reach the terminal.
//
// It must not know what is printed.
package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/turnus/turnus/core"
)

// Console is where a command reads and writes, and how.
type Console struct {
	In       io.Reader
	Out, Err *Screen
	Terminal bool // err is a terminal, and somebody sits there
	Live     bool // err is a terminal whose cursor can be moved
	File     bool // err is a file
	color    bool // colour is wanted on err
	quiet    bool // no messages
	Output   string
	gone     chan struct{} // closed when nobody reads stdout or stderr any more

	structured *slog.Logger // takes all messages instead of err; nil: nothing of a log is structured

	mu     sync.Mutex // guards err while things move
	moving *Moving    // nil: nothing moves
	keys   *keyReader // nil: keys are not read
}

// New returns the console of a command with these streams.
func New(stdin io.Reader, stdout, stderr io.Writer) *Console {
	c := &Console{In: stdin, gone: make(chan struct{}), Terminal: isTerminal(stderr)}
	c.Live, c.File = c.Terminal && os.Getenv("TERM") != "dumb", isFile(stderr)
	c.color = c.Live && os.Getenv("NO_COLOR") == ""
	gone := sync.OnceFunc(func() { close(c.gone) })
	c.Out, c.Err = newScreen(stdout, c.color && isTerminal(stdout), gone), newScreen(stderr, c.color, gone)
	return c
}

// Attended reports whether somebody reads questions on stderr and can answer them on stdin.
func (c *Console) Attended() bool {
	in, ok := c.In.(*os.File)
	return ok && c.Terminal && isTerminal(in)
}

// Quiet returns a console that prints results and no messages.
func (c *Console) Quiet() *Console {
	return &Console{In: c.In, Out: c.Out, Err: newScreen(io.Discard, false, func() {}), Output: c.Output, gone: c.gone}
}

// Silence stops progress and messages. Warnings and errors are still printed.
func (c *Console) Silence() { c.quiet, c.Live, c.File = true, false, true }

// Colored switches colours on or off for both streams, on a terminal and elsewhere.
func (c *Console) Colored(on bool) { c.color, c.Out.styled, c.Err.styled = on, on, on }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func isFile(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// Message prints a line on stderr, unless the console is silent.
func (c *Console) Message(text string) {
	if !c.quiet {
		c.Report(text)
	}
}

// Report prints a warning or an error on stderr, above the moving part where there is one. It is
// never cut: its end may have the next command.
func (c *Console) Report(text string) {
	if c.structured != nil {
		structuredMessage(c.structured, text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moving != nil && c.moving.above(text) {
		return
	}
	fmt.Fprintln(c.Err, text)
}

// Ask prints a question in place of the moving part, which stands still until answered is called.
// Meanwhile no keys are read, and the terminal reads lines.
func (c *Console) Ask(question string) (answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, k := c.moving, c.keys
	k.pause()
	if m != nil {
		m.erase()
		m.held = true
	}
	fmt.Fprint(c.Err, question)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m != nil {
			m.held = false
		}
		k.resume()
	}
}

// Logger writes to stderr with -v, and is silent without.
func (c *Console) Logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lineWriter{c}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: plainErrors}))
}

// Warnings prints what a person should know even without -v, a line each.
func (c *Console) Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(lineWriter{c}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, at slog.Attr) slog.Attr {
		if at.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return plainErrors(groups, at)
	}}))
}

// lineWriter writes log lines to stderr.
type lineWriter struct{ c *Console }

func (w lineWriter) Write(p []byte) (int, error) {
	w.c.Report(Printable(strings.TrimRight(string(p), "\n")))
	return len(p), nil
}

// WarnError prints an error as a warning; nil is none.
func (c *Console) WarnError(err error) {
	if err != nil {
		c.Report(c.Paint(Yellow, "warning: ") + core.ErrorText(err))
	}
}

// Warn prints warnings, a line each.
func (c *Console) Warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(c.Err, c.Paint(Yellow, "warning: ")+w)
	}
}

// Signals returns a context that the first SIGINT or SIGTERM ends, or the end of the reader of the
// output. The second signal closes now and calls kill. release stops listening and joins.
func (c *Console) Signals(parent context.Context, first string, print func(string), kill func()) (ctx context.Context, now <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(parent)
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	atOnce, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-got:
			print(first)
			cancel()
		case <-c.gone:
			cancel()
		case <-end:
			return
		}
		select {
		case <-got:
			print("cancelling what runs")
			close(atOnce)
			kill()
		case <-end:
		}
	})
	return ctx, atOnce, func() {
		signal.Stop(got)
		close(end)
		wg.Wait()
		cancel()
	}
}

// Interruptible ends with the first signal, and when nobody reads the output any more.
func (c *Console) Interruptible(parent context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-c.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel(); wg.Wait() }
}
