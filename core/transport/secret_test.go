package transport

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// The hash of a file is in no command line: every user of the host can read those, and finds a
// short secret by its hash. Red with the hash in the scripts of an upload.
func TestTheHashOfAFileIsInNoCommandLine(t *testing.T) {
	t.Parallel()
	bin, dir := emptyBin(t), t.TempDir()
	sum, err := exec.LookPath("sha256sum")
	shim := "#!/bin/sh\ncat /proc/[0-9]*/cmdline >>" + dir + "/seen 2>/dev/null\nexec " + sum + " \"$@\"\n"
	if err := errors.Join(err, os.WriteFile(filepath.Join(bin, "sha256sum"), []byte(shim), 0o755)); err != nil {
		t.Fatal(err)
	}
	s, p := startSSHD(t, servers.SSHDConfig("SetEnv PATH="+bin))
	for name, data := range map[string][]byte{"small": []byte("1234"), "large": content(largePut)} {
		if _, err := p.Put(testContext(t), s.Host("web1"), Put{Path: dir + "/" + name, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		seen, err := os.ReadFile(dir + "/seen")
		if err != nil || !strings.Contains(string(seen), dir+"/"+name) || strings.Contains(string(seen), digest(data)) {
			t.Errorf("%s: %v; the command is in the process list: %t, its hash also: %t", name, err,
				strings.Contains(string(seen), dir+"/"+name), strings.Contains(string(seen), digest(data)))
		}
	}
}

// A stranger owns the folder of a file that root reads, and puts a link to a file of root's in its
// place, before the read or during it. A link to a file of his own is followed. Control: stat, as
// it was, follows both.
func TestGetFollowsNoPlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root reads", syscall.EPERM)
	}
	s, p := startSSHD(t)
	base := t.TempDir()
	setup := "cd " + base + " && mkdir user root && echo own >user/own && echo secret >root/f && chmod 600 root/f && ln -s own user/mine && ln -s ../root/f user/evil && ln -s ../root user/folder && chown -hR 65534 user && ln root/f root/plain"
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", setup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"user/own": "own\n", "user/mine": "own\n", "user/evil": "", "user/folder/f": "", "root/plain": "secret\n"} {
		var got strings.Builder
		_, err := p.Get(testContext(t), s.Host("web1"), filepath.Join(base, name), core.Become{}, 0, &got)
		if got.String() != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %q, %v; expected %q", name, got.String(), err, want)
		}
	}
	// The link comes after the test for a file: the first test sees the stranger's own file.
	raced := strings.Replace(sendScript(base+"/user/own"), "pin \"", "ln -sf ../root/f x && mv -f x own; pin \"", 1)
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", raced).Output(); err == nil || strings.Contains(string(out), "secret") {
		t.Errorf("a link that came during the read: %q, %v", out, err)
	}
}
