package console

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Of a signal that comes to the editor and to turnus, the editor's end may be seen first: it is
// reported as the signal nevertheless.
func TestEditorThatASignalEnds(t *testing.T) {
	c := New(strings.NewReader(""), io.Discard, io.Discard)
	// A job that a shell runs in the background ignores SIGINT, and with it the editor.
	for script, cancelled := range map[string]bool{"kill -TERM $$": true, "exit 130": true, "exit 1": false, "kill -SEGV $$": false, "exit 255": false} {
		t.Setenv("VISUAL", "sh -c '"+script+"' sh")
		err := c.Edit(t.Context(), "file", nil)
		if ended, ok := errors.AsType[*Exit](err); err == nil || ok != cancelled || ok && ended.Code != ExitCancelled {
			t.Errorf("%s: %v", script, err)
		}
	}
}
