package core

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("run %q is not in the ledger: %w", "r", ErrNotFound), `run "r" is not in the ledger`},
		{fmt.Errorf("%w: limit web: no host", ErrInvalid), "limit web: no host"},
		{fmt.Errorf("limit web: %w: no host\nhint: turnus hosts", ErrInvalid), "limit web: no host\nhint: turnus hosts"},
		{fmt.Errorf("key ring k.json is there already: %w\nhint: turnus keys add", ErrConflict), "key ring k.json is there already\nhint: turnus keys add"},
		{fmt.Errorf("queue: Redis cannot be reached: %w (dial tcp: refused)", ErrUnavailable), "queue: Redis cannot be reached: dial tcp: refused"},
		{fmt.Errorf("%w: %w", ErrUnavailable, io.EOF), "EOF"},
		{fmt.Errorf("wrapped twice: %w: %w", ErrUnavailable, ErrNotFound), "wrapped twice"},
		{ErrConflict, "conflict"},
		{fmt.Errorf("run %q: %w in the queue", "r", ErrNotFound), `run "r": not found in the queue`},
		{fmt.Errorf("step hello: %w", ErrTimeout), "step hello: timed out"},
		{errors.New("the host says: not found"), "the host says: not found"}, // no sentinel: another's words stay
	} {
		if got := ErrorText(tt.err); got != tt.want {
			t.Errorf("ErrorText(%q) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestFew(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{{nil, ""}, {[]string{"a"}, "a"}, {[]string{"a", "b"}, "a, b"}, {[]string{"a", "b", "c", "d"}, "a, b and 2 more"}} {
		if got := Few(tt.names, 2); got != tt.want {
			t.Errorf("%v: %q, expected %q", tt.names, got, tt.want)
		}
	}
}
