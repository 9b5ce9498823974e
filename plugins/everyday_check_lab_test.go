//go:build linux && labs

package plugins_test

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/authorizedkey"
	"github.com/turnus/turnus/plugins/block"
	"github.com/turnus/turnus/plugins/copytree"
	"github.com/turnus/turnus/plugins/cron"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/git"
	"github.com/turnus/turnus/plugins/line"
	"github.com/turnus/turnus/plugins/mount"
	"github.com/turnus/turnus/plugins/packages"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/service"
	"github.com/turnus/turnus/plugins/sysctl"
	"github.com/turnus/turnus/plugins/unarchive"
	"github.com/turnus/turnus/plugins/user"
)

// Check mode where the host lacks what a step needs: failed with the reason of the run, and changed
// only behind a step that would change the host.
func TestLabCheckModeWhereTheHostLacksSomething(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "git", "git")
	m := servers.StartMachine(t)
	lab(t, m, "rm -rf /etc/cron.d /srv; mkdir /srv; echo a >/srv/f; rm -rf /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list; rm -rf /var/lib/apt/lists/*; mkdir /srv/repo; touch /srv/repo/a.tar; printf 'Package: x\nVersion: 1\nArchitecture: all\nFilename: x\nSize: 1\n' >/srv/repo/Packages; apt-get -qq update")
	for name, c := range map[string]struct {
		def    sdk.Def
		with   sdk.With
		reason string
	}{
		"a unit":                   {service.Def(), sdk.With{"name": "nosuch", "state": "restarted"}, "has no service nosuch"},
		"a group":                  {user.Def(), sdk.With{"name": "anna", "groups": []string{"nosuch"}}, "has no group nosuch"},
		"a user":                   {authorizedkey.Def(), sdk.With{"user": "nosuch", "keys": []string{publicKey("1")}}, "no such user"},
		"cron":                     {cron.Def(), sdk.With{"name": "backup", "special": "@daily", "command": "true"}, "install cron"},
		"a user of a timer":        {cron.Def(), sdk.With{"name": "backup", "calendar": "daily", "user": "nosuch", "command": "true"}, "has no user nosuch"},
		"a file for a line":        {line.Def(), sdk.With{"path": "/srv/none", "line": "x"}, "/srv/none does not exist"},
		"a folder for a block":     {block.Def(), sdk.With{"path": "/srv/none/f", "name": "x", "content": "x", "create": true}, "folder of /srv/none/f does not exist"},
		"a line beside which":      {line.Def(), sdk.With{"path": "/srv/f", "line": "x", "after": "^none"}, "/srv/f: "},
		"a folder for a file":      {file.Def(), sdk.With{"path": "/srv/none/f", "content": "x"}, "folder of /srv/none/f does not exist"},
		"a folder for a link":      {file.Def(), sdk.With{"path": "/srv/none/f", "state": "link", "target": "x"}, "folder of /srv/none/f does not exist"},
		"an owner":                 {file.Def(), sdk.With{"path": "/srv/d", "state": "directory", "owner": "nosuch"}, "does not know the owner nosuch"},
		"a group that owns":        {file.Def(), sdk.With{"path": "/srv/f", "content": "x", "owner": "root:nosuch"}, "does not know the owner root:nosuch"},
		"an owner of a tree":       {copytree.Def(), sdk.With{"source": "site", "path": "/srv/w", "owner": "nosuch"}, "does not know the owner nosuch"},
		"an archive":               {unarchive.Def(), sdk.With{"archive": "/srv/none.tar", "path": "/srv/app"}, "has no archive /srv/none.tar"},
		"an owner of an archive":   {unarchive.Def(), sdk.With{"archive": "/srv/repo/a.tar", "path": "/srv/app", "owner": "nosuch"}, "does not know the owner nosuch"},
		"a module of the kernel":   {sysctl.Def(), sdk.With{"key": "net.nosuch.x", "value": "1"}, "no setting net.nosuch.x"},
		"a device":                 {mount.Def(), sdk.With{"path": "/srv/m", "source": "/dev/nosuch", "type": "ext4"}, "has no /dev/nosuch"},
		"a repository of git":      {git.Def(), sdk.With{"url": "file:///srv/none", "path": "/srv/g", "version": "main"}, "/srv/none"},
		"a repository of packages": {packages.Def(), sdk.With{"names": []string{"nosuch"}}, "nosuch"},
	} {
		kit := on(t, m, c.def).Artifact("site/x", "x")
		for mode, got := range map[string]*plugintest.Result{"check mode": kit.Check(c.with), "the run": kit.Run(c.with)} {
			if got.Outcome != "failed" || !strings.Contains(got.Reason, c.reason) || got.Effects != "none" && mode == "check mode" {
				t.Errorf("%s, %s: %s (%s), effects %s", name, mode, got.Outcome, got.Reason, got.Effects)
			}
		}
		if got := kit.Run(c.with, plugintest.AfterChange()); got.Outcome != "changed" || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Reason, "an earlier step of this run may bring it") {
			t.Errorf("%s, after a change: %s (%s)", name, got.Outcome, got.Reason)
		}
	}
	if now := lab(t, m, "ls -A /srv; cat /srv/f"); now != "f\nrepo\na" {
		t.Errorf("something was changed: %q", now)
	}
	// A host without lists of packages gets them with the run.
	lab(t, m, "rm -rf /var/lib/apt/lists/*")
	if got := on(t, m, packages.Def()).Check(sdk.With{"names": []string{"x"}}); got.Outcome != "changed" || !strings.Contains(got.Reason, "which the host does not have yet") {
		t.Errorf("without lists: %s (%s)", got.Outcome, got.Reason)
	}
}
