package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == ServeVerb { // started by a test as the process of a built-in plugin
		os.Exit(ServePlugin(os.Args[2], os.Args[3:], os.Stderr))
	}
	os.Exit(testparts.Patient{M: m}.Run())
}

func writeText(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}
