//go:build labs

package copytree

import (
	"archive/tar"
	"bytes"
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

// stranger owns folders in which root puts files.
const stranger = 65534

// ops replace, make, set and remove, in the folder and in one below it.
var ops = []string{
	"m 4755 ./keep", fmt.Sprintf("f %d:%d ./f", stranger, stranger), "d 0777 ./d", "f - ./d/g", fmt.Sprintf("o %d:%d ./d/keep", stranger, stranger), "x - ./d/gone",
}

// The stranger acts before each program that the script starts: what a racing loop does once in a
// thousand times happens each time. Nothing outside of the folder may change. Control: the lines as
// they were, which followed what stands at a name.
func TestLabFaultS3CopyFollowsNoPlantedLink(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	busybox := testparts.Need(t, "busybox", "busybox")
	base, err := os.MkdirTemp("/tmp", "planted") //nolint:usetesting // the stranger must reach it
	if err == nil {
		err = os.Chmod(base, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	p := &plot{base: base, setpriv: testparts.Need(t, "setpriv", "util-linux")}
	script := fmt.Sprintf("p=%s s=%s w=.turnus-test\n%s", p.base+"/home", staging, doScript)
	was := "cd " + p.base + "/home && ls >/dev/null; chmod 4755 ./keep; chmod 0666 ./d/keep; chmod 0777 ./d"
	for _, c := range []struct {
		owner  int // of the folder; the one below it is the stranger's
		target string
		shell  string
		step   int // 1: an attack before each program; the others are samples
	}{
		{stranger, "victim", "/bin/dash", 1}, {stranger, "folder", busybox + " sh", 4}, {0, "victim", busybox + " sh", 3},
	} {
		what := fmt.Sprintf("a folder of %d, links to a %s, %s", c.owner, c.target, filepath.Base(c.shell))
		p.t, p.owner, p.target, p.shell = t, c.owner, c.target, c.shell
		p.arm()
		n := p.run(-1, script)
		p.placed(n)
		for at := 0; at <= n; at += c.step {
			p.run(at, script)
			if d := p.damage(); d != "" {
				t.Errorf("%s: an attack before program %d of %d changed what is root's:\n%s", what, at, n, d)
			}
		}
		harmed := false
		for at := 1; at < 5 && !harmed; at++ {
			p.run(at, was)
			harmed = p.damage() != ""
		}
		if !harmed {
			t.Errorf("%s: negative control: the lines as they were came to no harm", what)
		}
	}
}

// plot is an attack on what root does in home.
type plot struct {
	t                            *testing.T
	base, setpriv, target, shell string
	owner                        int
}

// arm makes programs that let the stranger act before one of them runs: before that whose number is
// in the file at; 0 is each of them.
func (p *plot) arm() {
	p.t.Helper()
	p.sh(fmt.Sprintf(`rm -rf bin && mkdir bin && cat >attack <<'END'
for d in home/d home; do cd %[1]s/$d && for e in f keep d gone g %[2]s .turnus-test; do mv -fT "$e" "taken.$$.$e"; ln -sT %[1]s/root/%[3]s "$e"; done; done
END
for tool in chmod chown ln ls mkdir mv rm rmdir tar; do
cat >bin/$tool <<END
#!/bin/dash
read -r n <%[1]s/count; read -r at <%[1]s/at; n=\$((n + 1)); echo \$n >%[1]s/count
[ \$at != 0 ] && [ \$at != \$n ] || PATH=/usr/bin:/bin %[4]s --reuid %[5]d --regid %[5]d --clear-groups /bin/dash %[1]s/attack >/dev/null 2>&1 </dev/null
exec %[6]s "\$@"
END
done; chmod 755 bin/*`, p.base, staging, p.target, p.setpriv, stranger, map[bool]string{true: "/usr/bin/busybox $tool", false: "/bin/$tool"}[strings.HasSuffix(p.shell, " sh")]))
}

// sh runs a line in the base.
func (p *plot) sh(line string) string {
	p.t.Helper()
	out, err := exec.CommandContext(p.t.Context(), "/bin/sh", "-c", "cd "+p.base+" && "+line).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// run makes the folders as they were and runs the script, with the attack before its program number
// at (0: before all; -1: before none). It returns how many programs there were.
func (p *plot) run(at int, script string) (n int) {
	p.t.Helper()
	p.sh(fmt.Sprintf(`rm -rf home root && mkdir home home/d root root/folder && for f in home/f home/keep home/d/g home/d/keep home/d/gone; do echo keep >$f; done
chown -R %[1]d:%[1]d home && chown %[2]d home && echo precious >root/victim && chmod 600 root/victim && echo 0 >count && echo %[3]d >at`, stranger, p.owner, at))
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	words := append(strings.Fields(p.shell), "-c", script)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Stdin = []string{"PATH=" + p.base + "/bin"}, p.stream()
	out, err := cmd.CombinedOutput() // under attack it may refuse
	if ctx.Err() != nil || at < 0 && err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(p.base + "/count")
	if err == nil {
		_, err = fmt.Sscan(string(text), &n)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// placed expects what n programs have done without an attack.
func (p *plot) placed(n int) {
	p.t.Helper()
	got := p.sh(`cd home && for f in f keep d/g d/keep; do cat $f; stat -c '%a %u' $f; done; find . | sort | tr '\n' ' '`)
	if got != "new\n644 65534\nkeep\n4755 65534\nnew\n644 0\nkeep\n644 65534\n. ./d ./d/g ./d/keep ./f ./keep " {
		p.t.Errorf("after %d programs there is\n%s", n, got)
	}
}

// stream returns the bytes that send sends.
func (p *plot) stream() *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range [][2]string{{"new/f", "new\n"}, {"new/d/g", "new\n"}, {"ops", strings.Join(ops, "\n") + "\n"}} {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: newFile, Size: int64(len(f[1])), Format: tar.FormatGNU}); err != nil {
			p.t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	return &b
}

// damage reports what changed outside of the stranger's folder.
func (p *plot) damage() string {
	p.t.Helper()
	got := p.sh(`cd root && find . | sort && stat -c '%a %u %n' . victim folder && cat victim`)
	if got == ".\n./folder\n./victim\n755 0 .\n600 0 victim\n755 0 folder\nprecious\n" {
		return ""
	}
	return got
}
