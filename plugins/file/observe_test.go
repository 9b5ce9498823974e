package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk"
)

// A stranger owns the folder and exchanges the file for a link to one of root's, or has a link to a
// folder of root's on the way: its hash, which the difference shows, is not computed. Control: the
// stranger's own file.
func TestObserveHashesNoPlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root reads", syscall.EPERM)
	}
	base := t.TempDir()
	setup := "cd " + base + " && mkdir user root && echo own >user/f && echo secret >root/f && ln -s ../root user/folder && chown -hR 65534 user"
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", setup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		path, attack string
		hashed       bool
	}{{"user/f", "", true}, {"user/folder/f", "", false}, {"user/f", "ln -sf ../root/f " + base + "/user/f\n", false}} {
		attacked := strings.Replace(script, "ids \"$o\"", c.attack+"ids \"$o\"", 1)
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", sdk.Vars("p", filepath.Join(base, c.path), "o", "0")+attacked).Output()
		e, bad := parse(string(out))
		if err != nil || bad != nil || e.kind != "file" || (e.sha256 != "") != c.hashed {
			t.Errorf("%s %s: %+v, %v, %v", c.path, c.attack, e, err, bad)
		}
	}
}
