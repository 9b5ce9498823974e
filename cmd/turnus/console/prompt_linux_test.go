package console

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/creack/pty"
)

// A person who is asked may end the program by a signal, which the commands of a server catch.
func TestPromptEndsWithItsContext(t *testing.T) {
	person, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = person.Close(), terminal.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers, err := New(terminal, io.Discard, io.Discard).Prompt(ctx, []Question{{Name: "release", Expected: "text"}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v; expected the end of the context", answers, err)
	}
}
