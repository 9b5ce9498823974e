//go:build labs

package transport

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// stranger is the user who owns the folder that root writes to.
const stranger = 65534

// quick is a stranger who acts before each program of a script starts, or before one of them only.
// It does what a racing loop does once in a thousand times, each time, with the stranger's rights.
type quick struct {
	dir   string // the stranger's folder, with the file f
	safe  string // root's folder, where nothing may change
	tools string // the PATH of the script
	empty bool   // no part file is there yet
}

func newQuick(t *testing.T, plant string, tools map[string]string) *quick {
	t.Helper()
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	setpriv := testparts.Need(t, "setpriv", "util-linux")
	base, err := os.MkdirTemp("/tmp", "planted") //nolint:usetesting // the stranger must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	q := &quick{dir: base + "/home", safe: base + "/root", tools: base + "/bin"}
	for _, dir := range []string{q.dir, q.safe, q.safe + "/folder", q.tools} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	attack := "cd " + q.dir + " && " + strings.ReplaceAll(plant, "SAFE", q.safe)
	if err := os.WriteFile(base+"/attack", []byte(attack), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, real := range tools {
		shim := fmt.Sprintf("#!/bin/dash\nread -r n <%[1]s/count; n=$((n + 1)); echo $n >%[1]s/count; read -r at <%[1]s/at\n"+
			"[ $at != 0 ] && [ $at != $n ] || PATH=/usr/bin:/bin %[2]s --reuid %[3]d --regid %[3]d --clear-groups /bin/dash %[1]s/attack >/dev/null 2>&1\nexec %[4]s \"$@\"\n",
			base, setpriv, stranger, real)
		if err := os.WriteFile(filepath.Join(q.tools, name), []byte(shim), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// reset makes both folders as they are before an attack. at is the program before which the
// stranger acts, 0 for all of them.
func (q *quick) reset(t *testing.T, at int) {
	t.Helper()
	base := filepath.Dir(q.dir)
	script := fmt.Sprintf("cd %s && rm -rf home root/folder && mkdir home root/folder && echo mine >home/f && chown -R %d:%d home && echo part >home/f.part && "+
		"echo precious >root/victim && chmod 600 root/victim && echo precious >root/folder/f && chmod 755 root/folder && echo 0 >count && echo %d >at", base, stranger, stranger, at)
	if q.empty {
		script += " && rm home/f.part"
	}
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// damage returns what a script did outside of the stranger's folder.
func (q *quick) damage(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cd "+q.safe+" && find . | sort && stat -c '%a %u %n' . victim folder folder/f && cat victim folder/f").Output()
	if err != nil {
		t.Fatal(err)
	}
	const intact = ".\n./folder\n./folder/f\n./victim\n755 0 .\n600 0 victim\n755 0 folder\n644 0 folder/f\nprecious\nprecious\n"
	if string(out) == intact {
		return ""
	}
	return string(out)
}

// run runs the script as root and returns how many programs it started.
func (q *quick) run(t *testing.T, shell []string, script string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell[0], append(shell[1:], "-c", script)...)
	cmd.Env, cmd.Stdin = []string{"PATH=" + q.tools}, strings.NewReader(digest([]byte("part\n"))+"\npart\n")
	_, _ = cmd.CombinedOutput() // it may refuse
	if ctx.Err() != nil {
		t.Fatalf("the script hangs: %s", script)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(q.dir), "count"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attacks on the entries of the stranger's folder. Everything that can be moved is, and a link is
// left in its place.
var attacks = map[string]string{
	"links to a file":                `for e in f f.part f.part.old f.bak f.part.d f.part.d/f.part; do mv -fT "$e" "taken.$$.${e##*/}"; ln -sfT SAFE/victim "$e"; done`,
	"links to a folder":              `for e in f f.part f.part.old f.bak f.part.d; do mv -fT "$e" "taken.$$.${e##*/}"; ln -sfT SAFE/folder "$e"; done`,
	"a link under the backup's name": `ln -sT SAFE/victim f.bak; ln -sT SAFE/victim f.part.old`,
	"another folder":                 `cd .. ; mv -fT home/f.part.d home/gone; mkdir -m 777 home/f.part.d; ln -s SAFE/victim home/f.part.d/f.part; ln -s SAFE/victim home/f.part.d/f.part.old`,
}

func systemTools(t *testing.T, busybox string) map[string]string {
	tools := map[string]string{}
	for _, name := range []string{"cat", "chmod", "chown", "cp", "id", "ln", "ls", "mkdir", "mv", "readlink", "rm", "rmdir", "sha256sum", "stat", "sync"} {
		if busybox != "" {
			tools[name] = busybox + " " + name
			continue
		}
		tools[name] = testparts.Need(t, name, "coreutils")
	}
	return tools
}

// The folder's owner exchanges its entries for links before any program that root's script starts.
// Nothing outside the folder may change. Control: the script as it was, which copied and changed
// modes in the folder itself.
func TestLabFaultS2FinishFollowsNoPlantedLink(t *testing.T) {
	t.Parallel()
	busybox := testparts.Need(t, "busybox", "busybox")
	for name, plant := range attacks {
		for shell, words := range map[string][]string{"dash": {"/bin/dash"}, "busybox": {busybox, "sh"}} {
			t.Run(shell+", "+name, func(t *testing.T) {
				t.Parallel()
				tools := systemTools(t, "")
				if shell == "busybox" {
					tools = systemTools(t, busybox)
				}
				q := newQuick(t, plant, tools)
				for _, how := range []finishing{{check: true, receive: true}, {check: true}} {
					q.empty = how.receive
					q.survives(t, words, finishScript(q.dir+"/f.part", "", Put{Path: q.dir + "/f", Backup: ".bak", Mode: 0o4755}, how))
				}
				harmed := false
				for at := range 8 {
					q.reset(t, at)
					q.run(t, words, oldFinish(q.dir))
					harmed = harmed || q.damage(t) != ""
				}
				if !harmed && name != "another folder" {
					t.Error("negative control: the script that works in the folder itself came to no harm")
				}
			})
		}
	}
}

// survives runs the script with an attack before each of its programs.
func (q *quick) survives(t *testing.T, words []string, script string) {
	t.Helper()
	q.reset(t, -1)
	n := q.run(t, words, script)
	if got, _ := os.ReadFile(q.dir + "/f"); string(got) != "part\n" {
		t.Fatalf("without an attack, after %d programs, f holds %q", n, got)
	}
	expectOnly(t, q.dir, "f", "f.bak")
	for at := range n + 1 {
		q.reset(t, at)
		q.run(t, words, script)
		if d := q.damage(t); d != "" {
			t.Errorf("the attack before program %d of %d changed what is root's:\n%s", at, n, d)
		}
	}
}

// oldFinish follows links: what it tests is exchanged before it acts.
func oldFinish(dir string) string {
	return fmt.Sprintf("p=%[1]s/f.part f=%[1]s/f; [ -L \"$p\" ] && exit 73; stat \"$f\" \"$p\" >/dev/null; chmod 4755 \"$p\"; cp -p -- \"$f\" \"$p.old\" && mv -f -- \"$p.old\" \"$f.bak\"; sync; mv -f -- \"$p\" \"$f\"", dir)
}

// A whole transfer to a stranger's folder: as root, over a real server, in each way that it may go.
func TestLabFaultS2PutIntoAStrangersFolder(t *testing.T) {
	for name, config := range map[string][]string{"SFTP": nil, "cat": {"Subsystem sftp /nonexistent"}, "SFTP only": {"ForceCommand internal-sftp"}} {
		t.Run(name, func(t *testing.T) {
			s, p := startSSHD(t, servers.SSHDConfig(config...))
			q := newQuick(t, "", nil)
			q.reset(t, -1)
			if err := os.Remove(q.dir + "/f.part"); err != nil {
				t.Fatal(err)
			}
			_, err := p.Put(testContext(t), s.Host("web1"), Put{Path: q.dir + "/f", Size: 3, Mode: 0o640, Backup: ".bak"}, strings.NewReader("new"))
			if name == "SFTP only" { // which sets modes by name
				if err == nil || !strings.Contains(err.Error(), "other users may write") {
					t.Errorf("got %v, expected a refusal", err)
				}
				expectOnly(t, q.dir, "f")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			expectOnly(t, q.dir, "f", "f.bak")
			st, err := os.Stat(q.dir + "/f")
			if err != nil || st.Mode() != 0o640 || st.Sys().(*syscall.Stat_t).Uid != stranger {
				t.Errorf("%v, %v: expected mode 0640 and the old owner", st, err)
			}
		})
	}
}
