package file

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// A user owns a folder on the way to the path, and put a link to a folder of root's in it. None of
// the scripts changes anything behind it. Control: with a folder in its place each works.
func TestFaultS3NoPlantedFolderOnTheWayIsEntered(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	for name, script := range map[string]func(p string) string{
		"attributes": func(p string) string {
			return scripted(attributesScript, "p", p+"/f", "k", "file", "o", "", "m", "0606")
		},
		"directory": func(p string) string { return scripted(directoryScript, "p", p+"/n/m", "o", "", "m", "0707") },
		"link":      func(p string) string { return scripted(linkScript, "p", p+"/l", "l", "f", "o", "") },
		"kept":      func(p string) string { return scripted(keepScript, "p", p+"/f", "b", "f.bak") },
		"absent":    func(p string) string { return scripted(absentScript, "p", p+"/f", "r", "rm -f") },
		"no folder": func(p string) string { return scripted(absentScript, "p", p+"/empty", "r", "rmdir") },
		"no tree":   func(p string) string { return scripted(absentScript, "p", p+"/tree", "r", "rm -rf") },
	} {
		base, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		run := func(script string) (string, error) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
			cmd.Dir = base
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		state := func(folder string) string {
			out, err := run("cd " + folder + " && ls -lR --time-style=+ .")
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return out
		}
		setup := "mkdir -p root/empty root/tree/more user/good/empty user/good/tree/more && touch root/f user/good/f && ln -s ../root user/evil && chown -h 65534 user user/evil"
		if out, err := run(setup); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		was, wasGood := state("root"), state("user/good")
		if out, err := run(script(base + "/user/evil")); err == nil || state("root") != was {
			t.Errorf("%s: %v, %s; root's folder is now %s", name, err, out, state("root"))
		}
		if out, err := run(script(base + "/user/good")); err != nil || state("user/good") == wasGood {
			t.Errorf("%s, the control: %v, %s; the folder is now %s", name, err, out, state("user/good"))
		}
	}
}

// Without fs.protected_hardlinks a user links root's file to a name in a folder of his, and removes
// the name once the script has linked it again. Owner and mode of root's file stay. Controls: those
// of the user's file are set; so are root's with the setting, as the kernel forbids the link then.
func TestFaultS3NoHardLinkOfAnothersFileIsChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	for name, c := range map[string]struct {
		owner   int
		guarded string
		changed bool
	}{"a link": {0, "0", false}, "his own": {65534, "0", true}, "guarded": {0, "1", true}} {
		base := t.TempDir()
		victim := base + "/victim"
		shim := "#!/bin/sh\ncase $* in *./x) rm -f " + base + "/home/f ;; esac\nPATH=/usr/bin:/bin exec ls \"$@\"\n"
		if err := errors.Join(os.Mkdir(base+"/home", 0o755), os.Mkdir(base+"/bin", 0o755), os.Chown(base+"/home", 65534, 65534), os.WriteFile(base+"/guarded", []byte(c.guarded), 0o600),
			os.WriteFile(victim, nil, 0o600), os.Chown(victim, c.owner, c.owner), os.Link(victim, base+"/home/f"), os.WriteFile(base+"/bin/ls", []byte(shim), 0o755)); err != nil {
			t.Fatal(err)
		}
		script := scripted(attributesScript, "p", base+"/home/f", "k", "file", "o", "", "m", "0666")
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(script, "/proc/sys/fs/protected_hardlinks", base+"/guarded"))
		cmd.Env = []string{"PATH=" + base + "/bin:/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		info, missing := os.Stat(victim)
		if missing != nil {
			t.Fatal(missing)
		}
		if changed := info.Mode().Perm() == 0o666; changed != c.changed || (err == nil) != c.changed {
			t.Errorf("%s: %v, %s; the file has %v", name, err, out, info.Mode())
		}
	}
}
