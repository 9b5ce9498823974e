package core

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
)

func TestHeadKeepsTheFirstBytes(t *testing.T) {
	full := 0
	h := &Head{Most: 5, Full: func() { full++ }}
	for _, part := range []string{"abc", "de", "f", "ghi"} {
		if n, err := h.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("write %q: %d, %v", part, n, err)
		}
		if h.Over() != (part > "de") {
			t.Errorf("after %q: over is %v", part, h.Over())
		}
	}
	if h.String() != "abcde" || !bytes.Equal(h.Bytes(), []byte("abcde")) || full != 2 {
		t.Errorf("kept %q, full %d times", h, full)
	}
}

// A program that prints more than the limit meets it also by io.Copy, which os/exec uses. The
// control is a writer that embeds its buffer: it keeps all.
func TestHeadIsBoundedForAProgram(t *testing.T) {
	prints := func(out io.Writer) {
		cmd := exec.CommandContext(context.Background(), "head", "-c", "100000", "/dev/zero")
		cmd.Stdout = out
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	h := &Head{Most: 10}
	prints(h)
	if len(h.Bytes()) != 10 || !h.Over() {
		t.Errorf("%d bytes kept, over is %v", len(h.Bytes()), h.Over())
	}
	unsafe := &embeds{}
	prints(unsafe)
	if unsafe.Len() != 100000 {
		t.Errorf("the control kept %d bytes", unsafe.Len())
	}
	if _, is := any(h).(io.ReaderFrom); is {
		t.Error("Head has ReadFrom")
	}
	_, _ = io.Copy(h, strings.NewReader("x"))
}

type embeds struct{ bytes.Buffer }

func (e *embeds) Write(p []byte) (int, error) { return e.Buffer.Write(p[:min(10, len(p))]) }
