package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

func silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestDial(t *testing.T) {
	for name, fn := range map[string]func(ctx context.Context, h *sdk.Host) error{
		"both ways, more than a chunk": func(ctx context.Context, h *sdk.Host) error {
			conn, err := h.Dial(ctx, "echo:7")
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			sent := strings.Repeat("0123456789", 20_000)
			wrote := make(chan error, 1)
			go func() {
				_, err := io.WriteString(conn, sent)
				wrote <- err
			}()
			got := make([]byte, len(sent))
			_, err = io.ReadFull(conn, got)
			if err = errors.Join(err, <-wrote); err == nil && string(got) != sent {
				err = errors.New("other bytes came back")
			}
			return err
		},
		"the far end closes": func(ctx context.Context, h *sdk.Host) error {
			conn, err := h.Dial(ctx, "hello:1")
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			all, err := io.ReadAll(conn)
			if string(all) != "hello" {
				return fmt.Errorf("got %q, %w", all, err)
			}
			return err
		},
		"refused": func(ctx context.Context, h *sdk.Host) error {
			_, err := h.Dial(ctx, "nobody:1")
			if !errors.Is(err, sdk.ErrRefused) {
				return fmt.Errorf("want ErrRefused, got %w", err)
			}
			return nil
		},
		"a deadline": func(ctx context.Context, h *sdk.Host) error {
			conn, err := h.Dial(ctx, "silence:9")
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("want a deadline error, got %w", err)
			}
			return nil
		},
		"closed": func(ctx context.Context, h *sdk.Host) error {
			conn, err := h.Dial(ctx, "silence:9")
			if err != nil {
				return err
			}
			_ = conn.Close()
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("want ErrClosed, got %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error { return fn(ctx, r.Host()) }))
			kit.Host("r1").Listen("echo:7", echo).Listen("silence:9", silence).
				Listen("hello:1", func(c net.Conn) { _, _ = io.WriteString(c, "hello") })
			if got := kit.Run(none); got.Outcome != "unchanged" {
				t.Errorf("got %s (%s)", got.Outcome, got.Reason)
			}
		})
	}
}

// A command may end before its input does, even one that never ends.
func TestExecReturnsBeforeItsInputEnds(t *testing.T) {
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
		_, err := r.Host().Exec(ctx, sdk.Command{Run: "head -n 1", Stdin: reader})
		return err
	}))
	kit.Host("r1").Down(plugintest.Unreachable("r1", true))
	if got := kit.Run(none); got.Outcome != "unreachable" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
	if _, err := writer.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the input was left open: %v", err)
	}
}

// An input that breaks ends the command, which would wait for the rest of it.
func TestInputThatBreaksEndsTheCommand(t *testing.T) {
	kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
		_, err := r.Host().Exec(ctx, sdk.Command{Run: "cat", Stdin: iotest.ErrReader(errors.New("the file is gone"))})
		return err
	}))
	kit.Host("r1").Local()
	if got := kit.Run(none); got.Outcome != "failed" || !strings.Contains(got.Reason, "reading the input of the command: the file is gone") {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}

func TestHeadKeepsTheFirstBytesAndLastLineTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		writes     []string
		text, line string
		limit      int
		truncated  bool
	}{
		"nothing":     {nil, "", "", 4, false},
		"fits":        {[]string{"ab", "cd"}, "abcd", "abcd", 4, false},
		"over":        {[]string{"a c", "def\n", "why\n\n"}, "a ", "why", 4, true},
		"long tail":   {[]string{strings.Repeat("x", 5000) + "\nend"}, "", "end", 4, true},
		"long line":   {[]string{"why ", strings.Repeat("x", 5000), "\n \r\n"}, "why ", "why… (509 bytes more)", 4, true},
		"progress":    {[]string{"10%\r20%\r", "30%\rwhy"}, "10%\r", "why", 4, true},
		"cut in rune": {[]string{"\xc3 é"}, "\uFFFD ", "\uFFFD é", 3, true},
	} {
		h, last := sdk.Head{Limit: tc.limit}, sdk.LastLine{}
		for _, w := range tc.writes {
			if n, err := io.MultiWriter(&h, &last).Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: wrote %d, %v", name, n, err)
			}
		}
		if h.String() != tc.text || last.String() != tc.line || h.Truncated() != tc.truncated {
			t.Errorf("%s: got %q, %q, %v; want %q, %q, %v", name, h.String(), last.String(), h.Truncated(), tc.text, tc.line, tc.truncated)
		}
	}
}
