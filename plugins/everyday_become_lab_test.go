//go:build linux && labs

package plugins_test

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk"
)

// Every everyday job type whose work needs root, with a login that is not root and without become:
// the step fails, changes nothing, and its reason names become. It gives no reason that is false,
// such as a lock or a missing program. Control: with become the steps succeed, see
// TestLabEverydayJobTypes.
func TestLabWithoutBecome(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"git", "sudo", "dpkg-scanpackages"} {
		testparts.Need(t, pkg, pkg)
	}
	l := newEverydayLab(t)
	l.root = l.ops
	fstab := "printf '# static\n' >/etc/fstab; "
	for _, s := range append(everydaySteps(), everyday{uses: "mount", before: fstab, with: sdk.With{"path": "/srv/m", "source": "tmpfs", "type": "tmpfs", "state": "present"}, state: "cat /etc/fstab"}) {
		lab(t, l.m, s.before)
		was := lab(t, l.m, s.state)
		got, _ := l.call(t, s, false, false)
		t.Logf("%s: %s", s.uses, got.Reason)
		if !got.Failed || !strings.Contains(got.Reason, "become: true") || strings.Count(got.Reason, "\nhint: ") > 1 {
			t.Errorf("%s %v: %+v", s.uses, s.with, got)
		}
		for _, no := range []string{"useradd nor", "groupadd nor", "another process", "try again later", "Authentication failure", "df -h"} {
			if strings.Contains(got.Reason, no) {
				t.Errorf("%s: the reason is false: %s", s.uses, got.Reason)
			}
		}
		if now := lab(t, l.m, s.state); now != was {
			t.Errorf("%s: %q became %q", s.uses, was, now)
		}
	}
}

// A login that is not root fetches from a folder of a stranger, who planted a link to a file that
// only the login may read. Red where SFTP, which follows it, came first. Control: the stranger's
// own file.
func TestLabFetchAsALoginFollowsNoPlantedLink(t *testing.T) {
	t.Parallel()
	l := newEverydayLab(t)
	l.root = l.ops
	lab(t, l.m, "mkdir /srv/bert; cd /srv/bert; echo own >own; ln -s /home/ops/key evil; chown -hR bert .; echo secret >/home/ops/key; chown ops /home/ops/key; chmod 600 /home/ops/key")
	for name, failed := range map[string]bool{"own": false, "evil": true} {
		got, _ := l.call(t, everyday{uses: "fetch", with: sdk.With{"path": "/srv/bert/" + name}}, false, false)
		if got.Failed != failed || failed && !strings.Contains(got.Reason, "is a link to a file of another user") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
