package settings_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A second turnus up takes the context of the first one, whose commands would fail once the second
// one ends: a message names the former server. The same server again is the control.
func TestWriteContextNamesTheFormerServer(t *testing.T) {
	t.Setenv("TURNUS_CONFIG", filepath.Join(t.TempDir(), "config.yaml"))
	for _, c := range []struct{ server, message string }{
		{"http://127.0.0.1:8470", ""},
		{"http://127.0.0.1:8470", ""},
		{"http://127.0.0.1:8471", "asked http://127.0.0.1:8470, and asks this server now"},
	} {
		var messages bytes.Buffer
		con := console.New(strings.NewReader(""), io.Discard, &messages)
		if err := settings.WriteContext(con, "local", settings.Context{Server: c.server}); err != nil {
			t.Fatal(err)
		}
		if got := messages.String(); !strings.Contains(got, c.message) || c.message == "" && got != "" {
			t.Errorf("%s: %q, expected %q", c.server, got, c.message)
		}
		contexts, err := settings.LoadContexts()
		if err != nil || contexts.Contexts["local"].Server != c.server || contexts.Current != "local" {
			t.Errorf("%+v, %v", contexts, err)
		}
	}
}
