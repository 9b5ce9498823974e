package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// server.HTTP has the bounds of what a peer may cost. A server made elsewhere had none: connections
// that idle stayed for ever.
func TestEveryWebServerIsTheBoundedOne(t *testing.T) {
	t.Parallel()
	const home = "../../../core/server/server.go"
	const apart = "../../../core/telemetry/listen.go" // must not know core/server; TestListen* hold its bounds
	found := 0
	for _, dir := range []string{"../..", "../../../core"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "http.Server{") {
				return err
			}
			found++
			if clean := filepath.Clean(path); clean != filepath.Clean(home) && clean != filepath.Clean(apart) {
				t.Errorf("%s makes an http.Server: server.HTTP makes one with bounds", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Fatalf("%s makes no http.Server any more: this test looks for nothing", home)
	}
}
