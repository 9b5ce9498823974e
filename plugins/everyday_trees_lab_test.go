//go:build linux && labs

package plugins_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/git"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/unarchive"
)

// member is one of an archive.
type member struct {
	name, body string // body is where a link points to
	kind       byte   // of tar; 0 is a file
}

func tarOf(t *testing.T, members ...member) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o755, Typeflag: m.kind, Uid: 1234, Gid: 1234}
		if m.kind == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(m.body))
		} else {
			h.Linkname = m.body
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if m.kind == 0 {
			if _, err := w.Write([]byte(m.body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func gzipOf(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func zipOf(t *testing.T, members ...member) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name}
		h.SetMode(0o644)
		if m.kind == tar.TypeSymlink {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(m.body))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The files of an archive, decided by its digest: not by owners or modes. The old folder stays
// until the new one is whole.
func TestLabUnarchive(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "unzip", "unzip")
	m := servers.StartMachine(t)
	one := []member{{"app/", "", tar.TypeDir}, {"app/bin/", "", tar.TypeDir}, {"app/bin/run", "one\n", 0}, {"app/current", "bin/run", tar.TypeSymlink}, {"app/same", "app/bin/run", tar.TypeLink}}
	two := []member{{"app/", "", tar.TypeDir}, {"app/-it's \"odd\" $x", "two\n", 0}}
	fresh := func(t *testing.T) *plugintest.Kit {
		t.Helper()
		return on(t, m, unarchive.Def()).Artifact("one.tar.gz", gzipOf(t, tarOf(t, one...))).Artifact("two.tar", tarOf(t, two...)).
			Artifact("three.zip", zipOf(t, member{"a", "three\n", 0}, member{"b/c", "../a", tar.TypeSymlink}))
	}
	const state = `ls -A /srv; cd /srv/app 2>/dev/null || exit 0
find . ! -name .turnus-unarchive | sort | while IFS= read -r f; do [ -L "$f" ] && echo "$f -> $(readlink "$f")" && continue; echo "$(stat -c '%A %U' "$f") $f $([ -f "$f" ] && cat "$f")"; done | sed 's/ $//'`
	const first = "app\ndrwxr-xr-x root .\ndrwxr-xr-x root ./bin\n-rwxr-xr-x root ./bin/run one\n./current -> bin/run\n-rwxr-xr-x root ./same one"
	const second = "app\ndrwxr-xr-x root .\n-rwxr-xr-x root ./-it's \"odd\" $x two"
	const third = "app\ndrwxr-xr-x daemon .\n-rw-r--r-- daemon ./a three\ndrwxr-xr-x daemon ./b\n./b/c -> ../a"
	with := func(source string, more sdk.With) sdk.With {
		w := sdk.With{"source": source, "path": "/srv/app", "strip": true}
		maps.Copy(w, more)
		return w
	}
	parts := []part{
		{"rm -rf /srv; mkdir /srv", with("one.tar.gz", nil), "changed", first},
		{"", with("two.tar", nil), "changed", second},
		{"rm -rf /srv/app; mkdir /srv/app", with("one.tar.gz", nil), "changed", first},
		{"", with("three.zip", sdk.With{"strip": false, "owner": "daemon"}), "changed", third},
		{"rm -rf /srv/app; mkdir /srv/app; echo mine >/srv/app/data", with("one.tar.gz", nil), "failed", "app\ndrwxr-xr-x root .\n-rw-r--r-- root ./data mine"},
		{"rm -rf /srv/app; mkdir /srv/real; ln -s real /srv/app", with("one.tar.gz", nil), "failed", "app\nreal\ndrwxr-xr-x root ."},
		{"rm -rf /srv/*", sdk.With{"archive": "/srv/none.tar", "path": "/srv/app"}, "failed", ""},
	}
	tell(t, m, fresh(t), state, parts)
	// Neither an owner nor a mode is a change.
	lab(t, m, "rm -rf /srv/*")
	kit := fresh(t)
	if got := kit.Run(with("one.tar.gz", nil)); got.Outcome != "changed" {
		t.Fatal(got.Reason)
	}
	lab(t, m, "chown -R daemon /srv/app; chmod 700 /srv/app/bin/run")
	if got := kit.Run(with("one.tar.gz", nil)); got.Outcome != "unchanged" {
		t.Errorf("with another owner: %s (%s)", got.Outcome, got.Reason)
	}
	lab(t, m, "tar -C /srv/app -cf /tmp/host.tar bin")
	if got := kit.Run(sdk.With{"archive": "/tmp/host.tar", "path": "/srv/app"}); got.Outcome != "changed" || lab(t, m, "cd /srv/app; find . -type f | sort") != "./.turnus-unarchive\n./bin/run" {
		t.Errorf("an archive of the host: %s (%s)", got.Outcome, got.Reason)
	}
	// The owner of the folder put other things in the place of the mark: root shows none of them.
	for _, plant := range []string{"ln -s /etc/shadow", "cp /etc/shadow"} {
		lab(t, m, "rm -rf /srv/app; mkdir /srv/app; "+plant+" /srv/app/.turnus-unarchive; chown -R daemon /srv/app")
		got := kit.Run(with("one.tar.gz", nil), plugintest.CheckMode())
		if got.Outcome != "failed" || strings.Contains(fmt.Sprint(got), "root:") {
			t.Errorf("%s: %+v", plant, got)
		}
	}
	lab(t, m, "rm -rf /srv/app")
	survive(t, m, fresh, "rm -rf /srv; mkdir -p /srv/app; echo 'sha256:old strip=true owner=' >/srv/app/.turnus-unarchive; touch /srv/app/old", state, with("one.tar.gz", nil), first)
	survive(t, m, fresh, "rm -rf /srv; mkdir -p /srv/app.turnus-old /srv/app.turnus-new", state, with("two.tar", nil), second)

	lab(t, m, "mkdir /opt/bb && busybox --install -s /opt/bb && rm -rf /srv/*")
	box := fresh(t)
	box.Host("m1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		stdout, stderr, code, err := m.Run(ctx, "PATH=/opt/bb exec /usr/bin/busybox sh -c "+sdk.Quote(c.Command), strings.NewReader(c.Stdin))
		return plugintest.Reply{Stdout: stdout, Stderr: stderr, Code: code, Err: err}
	})
	tell(t, m, box, state, parts[:3])
}

// Hostile archives are refused, and nothing of them is left; the old folder stays.
func TestLabUnarchiveRefuses(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "unzip", "unzip")
	m := servers.StartMachine(t)
	file := member{"ok", "ok\n", 0}
	damaged := gzipOf(t, tarOf(t, file, member{"evil", "x", 0}))
	kit := on(t, m, unarchive.Def()).Artifact("good.tar", tarOf(t, file))
	for name, content := range map[string]string{
		"absolute.tar":     tarOf(t, file, member{"/tmp/evil", "x", 0}),
		"dots.tar":         tarOf(t, file, member{"../evil", "x", 0}),
		"inner-dots.tar":   tarOf(t, file, member{"a/../../evil", "x", 0}),
		"link.tar":         tarOf(t, file, member{"l", "/etc", tar.TypeSymlink}),
		"through.tar":      tarOf(t, member{"l", "/tmp", tar.TypeSymlink}, member{"l/evil", "x", 0}),
		"dot-link.tar":     tarOf(t, file, member{"l", "../../etc/passwd", tar.TypeSymlink}),
		"chain.tar":        tarOf(t, member{"x/", "", tar.TypeDir}, member{"x/y", "..", tar.TypeSymlink}, member{"z", "x/y/..", tar.TypeSymlink}),
		"nowhere.tar":      tarOf(t, member{"z", "no/../../../such/file", tar.TypeSymlink}),
		"hard-link.tar":    tarOf(t, file, member{"h", "/etc/passwd", tar.TypeLink}),
		"pipe.tar":         tarOf(t, file, member{"p", "", tar.TypeFifo}),
		"device.tar":       tarOf(t, file, member{"d", "", tar.TypeChar}),
		"newline.tar":      tarOf(t, file, member{"a\nb", "/etc", tar.TypeSymlink}),
		"newline-file.tar": tarOf(t, file, member{"a\n1 -rw-r--r-- 2 0 0 1", "x", 0}),
		"cut.tar.gz":       gzipOf(t, tarOf(t, file, member{"big", strings.Repeat("x", 1<<16), 0}))[:60],
		"sum.tar.gz":       damaged[:len(damaged)-8] + "checksum",
		"none.tar":         "this is no archive",
		"dots.zip":         zipOf(t, file, member{"../evil", "x", 0}),
		"absolute.zip":     zipOf(t, file, member{"/tmp/evil", "x", 0}),
		"link.zip":         zipOf(t, file, member{"l", "/etc", tar.TypeSymlink}),
		"through.zip":      zipOf(t, member{"l", "/tmp", tar.TypeSymlink}, member{"l/evil", "x", 0}),
		"strip-two.tar":    tarOf(t, member{"a/", "", tar.TypeDir}, member{"b", "x", 0}),
		"strip-file.tar":   tarOf(t, file),
		"strip-hidden.tar": tarOf(t, member{"a/", "", tar.TypeDir}, member{".b", "x", 0}),
	} {
		kit.Artifact(name, content)
		lab(t, m, "rm -rf /srv/* /tmp/evil")
		if got := kit.Run(sdk.With{"source": "good.tar", "path": "/srv/app"}); got.Outcome != "changed" {
			t.Fatal(got.Reason)
		}
		got := kit.Run(sdk.With{"source": name, "path": "/srv/app", "strip": strings.HasPrefix(name, "strip")})
		if now := lab(t, m, "ls -A /srv /srv/app; ls /tmp/evil 2>/dev/null; true"); got.Outcome != "failed" || now != "/srv:\napp\n\n/srv/app:\n.turnus-unarchive\nok" {
			t.Errorf("%s: %s (%s), then %q", name, got.Outcome, got.Reason, now)
		}
	}
}

// A disk that is full in the middle: the old folder stays, and with room a retry finishes.
func TestLabUnarchiveToAFullDisk(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	big := strings.Repeat("0123456789abcdef", 1<<15) // 512 KiB
	kit := on(t, m, unarchive.Def()).Artifact("old.tar", tarOf(t, member{"a", "old", 0})).
		Artifact("big.tar.gz", gzipOf(t, tarOf(t, member{"a", big, 0}, member{"b", big, 0}))).Artifact("big.tar", tarOf(t, member{"a", big, 0}, member{"b", big, 0}))
	lab(t, m, "mkdir -p /srv/w && mount -t tmpfs -o size=800k tmpfs /srv/w")
	if got := kit.Run(sdk.With{"source": "old.tar", "path": "/srv/w/app"}); got.Outcome != "changed" {
		t.Fatal(got.Reason)
	}
	for _, source := range []string{"big.tar.gz", "big.tar"} {
		got := kit.Run(sdk.With{"source": source, "path": "/srv/w/app"})
		if now := lab(t, m, "ls -A /srv/w /srv/w/app; cat /srv/w/app/a"); got.Outcome != "failed" || now != "/srv/w:\napp\n\n/srv/w/app:\n.turnus-unarchive\na\nold" {
			t.Errorf("%s: %s (%s), then %q", source, got.Outcome, got.Reason, now)
		}
	}
	lab(t, m, "mount -o remount,size=8m /srv/w")
	if got := kit.Run(sdk.With{"source": "big.tar", "path": "/srv/w/app"}); got.Outcome != "changed" || lab(t, m, "cat /srv/w/app/? | wc -c; ls -A /srv/w") != "1048576\napp" {
		t.Errorf("with room: %s (%s)", got.Outcome, got.Reason)
	}
}

// A clone at a branch, tag or commit; as the folder's owner; and never over local changes.
func TestLabGit(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "git", "git")
	m := servers.StartMachine(t)
	lab(t, m, `set -e
git config --global user.email t@example.net; git config --global user.name t; git config --global init.defaultBranch main
git init -q /srv/up; cd /srv/up
commit() { echo "$1" >f; git add f; git commit -qm "$1"; }
commit one; git tag -am v1 v1; commit two; git checkout -qb dev; commit three; git checkout -q main
git config --system safe.directory /srv/up/.git; chmod -R go+rX /srv/up`)
	id := func(rev string) string { return lab(t, m, "git -C /srv/up rev-parse "+rev) }
	fresh := func(t *testing.T) *plugintest.Kit { t.Helper(); return on(t, m, git.Def()) }
	kit := fresh(t)
	const state = `cd /srv/w 2>/dev/null || exit 0
git() { command git -c safe.directory=/srv/w "$@"; }
[ -d .git ] && git rev-parse -q --verify HEAD; git rev-list --count HEAD 2>/dev/null; git config remote.origin.url; cat f; ls -ld f | cut -d' ' -f3; ls -A; ls .git | grep -E 'lock|turnus'; true`
	with := func(version string, more sdk.With) sdk.With {
		w := sdk.With{"url": "file:///srv/up", "path": "/srv/w", "version": version}
		maps.Copy(w, more)
		return w
	}
	is := func(rev, count, body, owner string, more ...string) string {
		return strings.Join(append([]string{id(rev), count, "file:///srv/up", body, owner, ".git", "f"}, more...), "\n")
	}
	const dirty = "file:///srv/up\nlocal\nroot\n.git\nf\nuntracked"
	tell(t, m, kit, state, []part{
		{"", with("v1", nil), "changed", is("v1^{commit}", "1", "one", "root")},
		{"", with("main", nil), "changed", is("main", "2", "two", "root")},
		{"", with("HEAD", nil), "unchanged", is("main", "2", "two", "root")},
		{"", with(id("dev"), nil), "changed", is("dev", "3", "three", "root")},
		{"git -C /srv/w config remote.origin.url elsewhere", with("dev", nil), "changed", is("dev", "3", "three", "root")},
		{"touch /srv/w/untracked", with("v1", nil), "changed", is("v1^{commit}", "1", "one", "root", "untracked")},
		{"echo local >/srv/w/f", with("main", nil), "failed", id("v1^{commit}") + "\n1\n" + dirty},
		{"", with("v1", nil), "failed", id("v1^{commit}") + "\n1\n" + dirty},
		{"rm -rf /srv/w", with("main", sdk.With{"depth": 1}), "changed", is("main", "1", "two", "root")},
		{"", with("dev", sdk.With{"depth": 1}), "changed", is("dev", "1", "three", "root")},
		{"rm -rf /srv/w; mkdir /srv/w; chown daemon /srv/w", with("main", nil), "changed", is("main", "2", "two", "daemon")},
		{"", with("v1", nil), "changed", is("v1^{commit}", "1", "one", "daemon")},
		{"rm -rf /srv/w; mkdir /srv/w; touch /srv/w/f", with("main", nil), "failed", "root\nf"},
		{"rm -rf /srv/w; git init -q /srv/w; echo mine >/srv/w/f", with("main", nil), "failed", "mine\nroot\n.git\nf"},
		{"git -C /srv/w add f", with("main", nil), "failed", "mine\nroot\n.git\nf"},
		{"rm -rf /srv/w; git init -q /srv/w", with("main", nil), "changed", is("main", "2", "two", "root")},
		{"rm -rf /srv/w", with("nosuch", nil), "failed", ""},
		{"", with("main", sdk.With{"url": "file:///srv/none"}), "failed", ""},
	})
	// A file that git does not track is in the way: it stays.
	lab(t, m, "rm -rf /srv/w; git clone -q file:///srv/up /srv/w; cd /srv/up; git checkout -q dev; echo theirs >g; git add g; git commit -qm four; git checkout -q main; echo mine >/srv/w/g")
	for range 2 {
		if got := kit.Run(with("dev", nil)); got.Outcome != "failed" || lab(t, m, "cat /srv/w/g; git -C /srv/w rev-parse HEAD") != "mine\n"+id("main") {
			t.Errorf("a file in the way: %s (%s)", got.Outcome, got.Reason)
		}
	}
	// A user planted a link to a clone of root's: root does not work there. Control: a link of root's.
	lab(t, m, "mkdir /srv/h; git clone -q file:///srv/up /srv/rootclone; ln -s /srv/rootclone /srv/h/app; ln -s /srv/rootclone /srv/app; chown -h daemon /srv/h /srv/h/app")
	for path, outcome := range map[string]string{"/srv/h/app": "failed", "/srv/h/app/new": "failed", "/srv/app": "changed"} {
		lab(t, m, "git -C /srv/rootclone checkout -q main")
		head := id("v1^{commit}")
		if outcome == "failed" {
			head = id("main")
		}
		got := kit.Run(with("v1", sdk.With{"path": path}))
		if got.Outcome != outcome || lab(t, m, "git -C /srv/rootclone rev-parse HEAD; ls -A /srv/rootclone") != head+"\n.git\nf" {
			t.Errorf("%s: %s (%s)", path, got.Outcome, got.Reason)
		}
	}
	survive(t, m, fresh, "rm -rf /srv/w", state, with("main", nil), is("main", "2", "two", "root"))
	survive(t, m, fresh, "rm -rf /srv/w; git clone -q file:///srv/up /srv/w; git -C /srv/w checkout -q --detach v1", state, with(id("dev~1"), nil), is("dev~1", "3", "three", "root"))
	// Killed in the middle of a checkout: what is half there is no local change.
	lab(t, m, "cd /srv/w && echo half >f && touch .git/index.lock .git/turnus-unfinished")
	tell(t, m, kit, state, []part{{"", with("main", nil), "changed", is("main", "2", "two", "root")}})
}

// A disk that is full in the middle of a clone: with room a retry finishes.
func TestLabGitToAFullDisk(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "git", "git")
	m := servers.StartMachine(t)
	lab(t, m, `set -e
git config --global user.email t@example.net; git config --global user.name t
git init -q /srv/up; cd /srv/up; echo one >f; git add f; git commit -qm one; git tag v1
for n in 1 2 3 4; do head -c 300000 /dev/urandom >big$n; done; git add .; git commit -qm two; git tag v2
mkdir /srv/t; mount -t tmpfs -o size=1600k tmpfs /srv/t`)
	kit := on(t, m, git.Def())
	with := func(version string) sdk.With {
		return sdk.With{"url": "file:///srv/up", "path": "/srv/t/w", "version": version}
	}
	for i, s := range []struct{ version, outcome string }{{"v1", "changed"}, {"v2", "failed"}, {"v2", "failed"}} {
		if got := kit.Run(with(s.version)); got.Outcome != s.outcome || s.outcome == "failed" && !strings.Contains(got.Reason, "See df -h on the host") {
			t.Errorf("%d: %s (%s), expected %s", i, got.Outcome, got.Reason, s.outcome)
		}
	}
	lab(t, m, "mount -o remount,size=16m /srv/t")
	if got := kit.Run(with("v2")); got.Outcome != "changed" || lab(t, m, "cd /srv/t/w && git status --porcelain && cat big? | wc -c") != "1200000" {
		t.Errorf("with room: %s (%s)", got.Outcome, got.Reason)
	}
}
