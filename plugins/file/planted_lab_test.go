//go:build labs

package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// stranger owns the folder in which root sets owners and modes.
const stranger = 65534

// The stranger acts before each program that a script starts, or before one of them: what a racing
// loop does once in a thousand times happens each time. The file, directory or link is then
// something else; nothing outside of the folder may change. Control: the lines as they were, which
// used the path twice.
func TestLabFaultS3AttributesFollowNoExchangedPath(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	setpriv, busybox := testparts.Need(t, "setpriv", "util-linux"), testparts.Need(t, "busybox", "busybox")
	base, err := os.MkdirTemp("/tmp", "planted") //nolint:usetesting // the stranger must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	home := base + "/home"
	for name, c := range map[string]struct{ script, good, was string }{
		"file": {
			scripted(attributesScript, "p", home+"/f", "k", "file", "o", "65534:65534", "m", "4755"),
			"4755 65534 f", "chown 65534:65534 " + home + "/f && chmod 4755 " + home + "/f",
		},
		"directory": {
			scripted(attributesScript, "p", home+"/d", "k", "directory", "o", "65534:65534", "m", "0777"),
			"777 65534 d", "chown 65534:65534 " + home + "/d && chmod 0777 " + home + "/d",
		},
		"new directory": {
			scripted(directoryScript, "p", home+"/n", "o", "65534:65534", "m", "0777"),
			"777 65534 n", "mkdir -p " + home + "/n && chown 65534:65534 " + home + "/n && chmod 0777 " + home + "/n",
		},
		"link": {
			scripted(linkScript, "p", home+"/l", "l", "../root/victim", "o", "65534:65534"),
			"777 65534 l", "",
		},
		"kept": {
			scripted(keepScript, "p", home+"/f", "b", "f.bak"),
			"644 65534 f.bak", "ls >/dev/null; mv -f " + home + "/f " + home + "/f.bak",
		},
		"absent": {
			scripted(absentScript, "p", home+"/f", "r", "rm -f"),
			"755 65534 d\n777 0 l\n", "",
		},
		"no tree": {
			scripted(absentScript, "p", home+"/d", "r", "rm -rf"),
			"644 65534 f\n777 0 l\n", "",
		},
	} {
		for _, target := range []string{"victim", "folder"} {
			for _, shell := range []string{"/bin/dash", busybox + " sh"} {
				if target == "folder" && shell != "/bin/dash" { // two shells and two targets, but not all four
					continue
				}
				t.Run(name+" to a "+target+" in "+filepath.Base(shell), func(t *testing.T) {
					n := attacked(t, base, setpriv, shell, target, -1, c.script)
					out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cd "+home+" && stat -c '%a %u %n' *; ls -A").Output()
					if err != nil || !strings.Contains(string(out), c.good) || strings.Contains(string(out), ".turnus") {
						t.Fatalf("without an attack: %s, %v; want %s", out, err, c.good)
					}
					for at := range n + 1 {
						attacked(t, base, setpriv, shell, target, at, c.script)
						if d := damage(t, base); d != "" {
							t.Errorf("an attack before program %d of %d changed what is root's:\n%s", at, n, d)
						}
					}
					harmed := c.was == "" || name == "kept" && target == "victim"
					for at := range 4 {
						if harmed {
							break
						}
						attacked(t, base, setpriv, shell, target, at, c.was)
						harmed = harmed || damage(t, base) != ""
					}
					if !harmed {
						t.Error("negative control: the lines as they were came to no harm")
					}
				})
			}
		}
	}
}

// attacked makes the folders as they were and runs the script, with the attack before its program
// number at (0: before all; -1: before none). It returns how many programs there were.
func attacked(t *testing.T, base, setpriv, shell, target string, at int, script string) (n int) {
	t.Helper()
	reset := fmt.Sprintf(`cd %[1]s && rm -rf home root bin && mkdir home home/d root root/folder bin && echo mine >home/f && chown -R %[2]d:%[2]d home && ln -s f home/l
echo precious >root/victim && chmod 600 root/victim && echo 0 >count && chmod 755 . && cat >attack <<'END'
cd %[1]s/home && for e in f d n l f.bak .turnus-*; do mv -fT "$e" "taken.$$.$e"; ln -sT %[1]s/root/%[3]s "$e"; done
END
for tool in chmod chown cp ln ls mkdir mv rm rmdir; do
cat >bin/$tool <<END
#!/bin/dash
read -r n <%[1]s/count; n=\$((n + 1)); echo \$n >%[1]s/count
[ %[4]d != 0 ] && [ %[4]d != \$n ] || PATH=/usr/bin:/bin %[5]s --reuid %[2]d --regid %[2]d --clear-groups /bin/dash %[1]s/attack >/dev/null 2>&1
exec %[6]s "\$@"
END
done; chmod 755 bin/*`, base, stranger, target, at, setpriv, map[bool]string{true: "/usr/bin/busybox $tool", false: "/bin/$tool"}[strings.HasSuffix(shell, " sh")])
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", reset).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	words := append(strings.Fields(shell), "-c", script)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = []string{"PATH=" + base + "/bin"}
	_, _ = cmd.CombinedOutput() // it may refuse
	if ctx.Err() != nil {
		t.Fatalf("the script hangs: %s", script)
	}
	text, err := os.ReadFile(base + "/count")
	if err == nil {
		_, err = fmt.Sscan(string(text), &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// damage returns what changed outside of the stranger's folder.
func damage(t *testing.T, base string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cd "+base+"/root && find . | sort && stat -c '%a %u %n' . victim folder && cat victim").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) == ".\n./folder\n./victim\n755 0 .\n600 0 victim\n755 0 folder\nprecious\n" {
		return ""
	}
	return string(out)
}
