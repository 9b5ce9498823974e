//go:build linux

package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// A process of the host writes below the test's folder until the host ends: the folder is
// removed after the host, not under its hands. Red with the folder asked for first in the
// body of the test.
func TestFaultT1FoldersOutliveTheHostsProcesses(t *testing.T) {
	var dir string
	t.Run("host", func(t *testing.T) {
		h := NewHost(t)
		dir = t.TempDir()
		line := `nohup sh -c 'i=0; while :; do i=$((i+1)); : >"$0/f$i"; mkdir "$0/d$i"; done' ` + dir + ` >/dev/null 2>&1 &`
		if _, err := h.Shell(line); err != nil {
			t.Fatal(err)
		}
		for { // ends with the test's time, if the process does not write
			if found, _ := filepath.Glob(filepath.Join(dir, "d*")); len(found) > 20 {
				return
			}
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", dir, err)
	}
}
