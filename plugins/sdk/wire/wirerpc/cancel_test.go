package wirerpc

import (
	"errors"
	"testing"
)

// A stream that the other end ended is a call that was cancelled, not a host that cannot be
// reached. The texts are those of HTTP/2 in net/http, with and without its cause.
func TestAStreamThatTheOtherEndGaveUp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Code{
		"stream error: stream ID 101; CANCEL; received from peer": CodeCanceled,
		"stream error: stream ID 101; CANCEL":                     CodeCanceled,
		"connection refused":                                      CodeUnavailable,
	} {
		if got := CodeOf(failed(t.Context(), CodeUnavailable, errors.New(text))); got != want {
			t.Errorf("%q is %v, expected %v", text, got, want)
		}
	}
}
