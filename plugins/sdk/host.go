package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk/shell"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Host is one managed machine, reached through the worker: keys, connections and
// audit are the worker's. Safe for concurrent use. Errors of its methods wrap a [HostError].
type Host struct {
	Name string
	s    *session
}

// Command is one command line on a host.
type Command struct {
	Run            string            // given to /bin/sh
	Env            map[string]string // exported before it
	Secrets        map[string]string // further variables, each with a name of [Run].Secrets; the values go by way of stdin, before Stdin
	Stdin          io.Reader         // nil: empty. Closed when the command ends first, if it is an io.Closer
	Stdout, Stderr io.Writer         // nil: discarded
	ReadOnly       bool              // changes nothing: allowed in check mode
	Fresh          bool              // over a new connection
	Timeout        time.Duration     // 0: only ctx limits it
}

// Exit is how a command ended.
type Exit struct {
	Code     int
	Signal   string // name without SIG, when a signal ended it
	LastLine string // of standard error, in bounds; may be empty
	full     bool   // standard error shows a full disk
}

// Err is nil for exit code 0, and otherwise an [ExitError].
func (e Exit) Err() error {
	if e.Code == 0 && e.Signal == "" {
		return nil
	}
	return &ExitError{Exit: e}
}

// ExitError is a command that did not succeed. It fails a step as one that may succeed when it is
// tried again.
type ExitError struct{ Exit }

func (e *ExitError) Error() string {
	text := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		text = "ended by signal " + e.Signal
	}
	if e.LastLine != "" {
		text += ": " + e.LastLine
	}
	if e.full {
		text += "\nhint: " + shell.FullDiskHint
	}
	return text
}

// Exec runs a command and streams its output. The error is nil with any exit code. It returns after
// the last byte was written and Stdin's pending Read is back.
func (h *Host) Exec(ctx context.Context, c Command) (Exit, error) {
	streamCtx, cancel := context.WithCancel(ctx) // errors are judged by ctx, which we do not cancel
	start := h.start(c)
	start.Stdin = c.Stdin != nil
	stream, err := h.s.hosts.Exec(h.s.withLease(streamCtx), start)
	if err != nil {
		cancel()
		return Exit{}, h.failed(ctx, "exec", err)
	}
	defer release(cancel, stream.CloseResponse)
	var fed <-chan error
	if c.Stdin != nil {
		fed = feed(stream, c.Stdin, cancel)
	}
	exit, err := receiveOutput(stream, c)
	if fed != nil {
		var readErr error
		closed := false
		select {
		case readErr = <-fed:
		default: // the command ended before its input did: a read that fails now fails by this Close
			cancel()
			if closer, ok := c.Stdin.(io.Closer); ok {
				_ = closer.Close()
			}
			closed, readErr = true, <-fed
		}
		if readErr != nil && !closed && ctx.Err() == nil {
			return exit, fmt.Errorf("reading the input of the command: %w", readErr)
		}
	}
	if local := new(writeError); errors.As(err, &local) {
		h.s.touched.Store(true)
		return exit, local.err
	}
	return exit, h.ended(ctx, "exec", c.ReadOnly, err)
}

func (h *Host) start(c Command) *wire.ExecStart {
	return &wire.ExecStart{
		Host: h.Name, Command: c.Run, Env: c.Env, Secrets: c.Secrets, ReadOnly: c.ReadOnly, NewConnection: c.Fresh,
		TimeoutMs: c.Timeout.Milliseconds(),
	}
}

type execStream = *wirerpc.ExecClient

// feed pumps stdin; the channel gives the reader's error, once. After an error it calls end, which
// cancels the stream: without an end of its input the command would wait for more.
func feed(stream execStream, stdin io.Reader, end func()) <-chan error {
	fed := make(chan error, 1)
	go func() {
		var sendErr error
		err := sendChunks(stdin, func(b []byte) error {
			sendErr = stream.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Stdin{Stdin: b}})
			return sendErr
		})
		if err == nil {
			sendErr = stream.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Eof{Eof: true}})
			_ = stream.CloseRequest() // where Send failed, Receive has the reason
		}
		if sendErr != nil {
			err = nil
		}
		fed <- err
		if sendErr == nil && err != nil {
			end()
		}
	}()
	return fed
}

// writeError is the author's own writer that failed.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

func receiveOutput(stream execStream, c Command) (Exit, error) {
	var errs LastLine
	for {
		msg, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return Exit{}, errors.New("the worker ended the stream without an exit status")
		}
		if err != nil {
			return Exit{}, err
		}
		if exit := msg.GetExit(); exit != nil {
			_, _ = stream.Receive() // the end of the stream; without it, it would be reset
			return Exit{Code: int(exit.GetCode()), Signal: exit.GetSignal(), LastLine: errs.String(), full: errs.fullDisk()}, nil
		}
		chunk := msg.GetOutput()
		_, _ = errs.Write(chunk.GetStderr())
		if err := writeTo(c.Stdout, chunk.GetStdout()); err != nil {
			return Exit{}, &writeError{err}
		}
		if err := writeTo(c.Stderr, chunk.GetStderr()); err != nil {
			return Exit{}, &writeError{err}
		}
	}
}

func writeTo(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// Result is a command that ran to its end.
type Result struct {
	Exit
	Stdout, Stderr string
	Truncated      bool // of either, only the first 1 MiB is kept

	err error
}

// Err is nil when the command ran and its exit code was 0.
func (r *Result) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Exit.Err()
}

func lastLine(text string) string {
	text = strings.TrimRight(text, " \r\n\t")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return clean(strings.TrimSpace(text), 300)
}

const maxKept = 1 << 20

// Run runs a command line that may change the host, streams its output to the
// operator, and keeps the first 1 MiB of it.
func (h *Host) Run(ctx context.Context, line string) *Result {
	var stdout, stderr Head
	exit, err := h.Exec(ctx, Command{
		Run:    line,
		Stdout: io.MultiWriter(printer{events: h.s.events}, &stdout),
		Stderr: io.MultiWriter(printer{events: h.s.events, stderr: true}, &stderr),
	})
	return &Result{
		Exit: exit, err: err, Stdout: stdout.String(), Stderr: stderr.String(),
		Truncated: stdout.Truncated() || stderr.Truncated(),
	}
}

// Query runs a command line that changes nothing, in one round trip and without
// showing its output. It is allowed in check mode.
func (h *Host) Query(ctx context.Context, line string) *Result {
	return h.Short(ctx, Command{Run: line, ReadOnly: true})
}

// mostInput bounds the input of Short.
const mostInput = wire.MaxMessage / 2

// Short runs a command in one round trip; Stdin is read to its end first, Stdout and
// Stderr of c are not used. For small input and output: more than 4 MiB of Stdin are ErrTooLarge,
// and the command does not begin.
func (h *Host) Short(ctx context.Context, c Command) *Result {
	req := &wire.CommandRequest{Start: h.start(c)}
	if c.Stdin != nil {
		var err error
		if req.Stdin, err = io.ReadAll(io.LimitReader(c.Stdin, mostInput+1)); err != nil {
			return &Result{err: fmt.Errorf("reading the input of the command: %w", err)}
		}
		if len(req.Stdin) > mostInput {
			return &Result{err: fmt.Errorf("input of the command: %w: it has more than %d bytes; use Exec, or Put it as a file", ErrTooLarge, mostInput)}
		}
	}
	resp, err := h.s.hosts.Command(h.s.withLease(ctx), req)
	if err = h.ended(ctx, "exec", c.ReadOnly, err); err != nil {
		return &Result{err: err}
	}
	r := &Result{
		Exit:   Exit{Code: int(resp.GetExit().GetCode()), Signal: resp.GetExit().GetSignal()},
		Stdout: string(resp.GetStdout()), Stderr: string(resp.GetStderr()), Truncated: resp.GetTruncated(),
	}
	if r.Truncated { // it does not name the stream
		r.Stdout, r.Stderr = withoutLast(r.Stdout), withoutLast(r.Stderr)
	}
	r.LastLine, r.full = lastLine(r.Stderr), shell.FullDisk(r.Stderr)
	return r
}

// Probe proves that a fresh, authenticated connection works, past the pool.
func (h *Host) Probe(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	resp, err := h.s.hosts.Probe(h.s.withLease(ctx), &wire.ProbeRequest{Host: h.Name, TimeoutMs: timeout.Milliseconds()})
	if err != nil {
		return 0, h.failed(ctx, "probe", err)
	}
	return time.Duration(resp.GetTookMs()) * time.Millisecond, nil
}

// ended translates the end of a call, and notes that the host may be touched.
func (h *Host) ended(ctx context.Context, op string, readOnly bool, err error) error {
	err = h.failed(ctx, op, err)
	var fault *HostError
	if !readOnly && (!errors.As(err, &fault) || !fault.Before) {
		h.s.touched.Store(true)
	}
	return err
}

func (h *Host) failed(ctx context.Context, op string, err error) error {
	return hostError(ctx, h.Name, op, err)
}
