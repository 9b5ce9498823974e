// Package console owns how a command reads and writes: results on stdout, messages and a part that
// changes in place on stderr, logs, colours, signals, and exit codes. Control characters of hosts and
// plugins do not reach the terminal.
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
)

// Console is where a command reads and writes, and how.
type Console struct {
	In       io.Reader
	Out, Err *Screen
	Terminal bool // err is a terminal, and somebody sits there
	Live     bool // err is a terminal whose cursor can be moved
	color    bool // colour is wanted on err
	Output   string
	gone     chan struct{} // closed when nobody reads stdout or stderr any more

	structured *slog.Logger // takes all messages instead of err; nil: nothing of a log is structured

	mu     sync.Mutex // guards err while things move
	moving *Moving    // nil: nothing moves
}

// New returns the console of a command with these streams.
func New(stdin io.Reader, stdout, stderr io.Writer) *Console {
	c := &Console{In: stdin, gone: make(chan struct{}), Terminal: isTerminal(stderr)}
	c.Live = c.Terminal && os.Getenv("TERM") != "dumb"
	c.color = c.Live && os.Getenv("NO_COLOR") == ""
	gone := sync.OnceFunc(func() { close(c.gone) })
	c.Out, c.Err = newScreen(stdout, c.color && isTerminal(stdout), gone), newScreen(stderr, c.color, gone)
	return c
}

// Quiet returns a console that prints results and no messages.
func (c *Console) Quiet() *Console {
	return &Console{In: c.In, Out: c.Out, Err: newScreen(io.Discard, false, func() {}), Output: c.Output, gone: c.gone}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Message prints a line on stderr, above the moving part where there is one. It is never cut: its end may say what to do.
func (c *Console) Message(text string) {
	if c.structured != nil {
		structuredMessage(c.structured, text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moving != nil {
		c.moving.erase() // it is drawn again below the message, however many lines that takes
	}
	fmt.Fprintln(c.Err, text)
}

// Ask prints a question in place of the moving part, which stands still until answered is called.
func (c *Console) Ask(question string) (answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.moving
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
	}
}

// Logger writes to stderr with -v, and is silent without.
func (c *Console) Logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lineWriter{c}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Warnings prints what a person should know even without -v, a line each.
func (c *Console) Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(lineWriter{c}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return at
	}}))
}

// lineWriter writes log lines to stderr.
type lineWriter struct{ c *Console }

func (w lineWriter) Write(p []byte) (int, error) {
	w.c.Message(Printable(strings.TrimRight(string(p), "\n")))
	return len(p), nil
}

// WarnError prints an error as a warning; nil is none.
func (c *Console) WarnError(err error) {
	if err != nil {
		c.Message(c.Paint(Yellow, "warning: ") + err.Error())
	}
}

// Warn prints warnings, a line each.
func (c *Console) Warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(c.Err, c.Paint(Yellow, "warning: ")+w)
	}
}

// Signals makes the first SIGINT or SIGTERM, or the end of whoever reads the output, end ctx, and the second close now and
// call kill. release stops listening and joins.
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
