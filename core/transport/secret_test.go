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
	base := planted(t)
	for way, config := range map[string][]string{"shell": nil, "SFTP only": {"ForceCommand internal-sftp"}} {
		s, p := startSSHD(t, servers.SSHDConfig(config...))
		for name, want := range map[string]string{
			"user/own": "own\n", "user/mine": "own\n", "user/evil": "", "user/folder/f": "", "root/plain": "secret\n", "root/link": "secret\n", "tmp/root": "secret\n",
		} {
			var got strings.Builder
			_, err := p.Get(testContext(t), s.Host("web1"), filepath.Join(base, name), core.Become{}, 0, &got)
			if got.String() != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s, %s: %q, %v; expected %q", way, name, got.String(), err, want)
			}
		}
	}
	// The link comes after the test for a file: the first test sees the stranger's own file.
	raced := strings.Replace(sendScript(base+"/user/own"), "pin \"", "ln -sf ../root/f x && mv -f x own; pin \"", 1)
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", raced).Output(); err == nil || strings.Contains(string(out), "secret") {
		t.Errorf("a link that came during the read: %q, %v", out, err)
	}
}

// planted returns a folder in which a stranger has links to files of root and of a login.
func planted(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root reads", syscall.EPERM)
	}
	base, err := os.MkdirTemp("/tmp", "planted") //nolint:usetesting // the login must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	setup := "chmod 755 . && mkdir user root home tmp shared && echo own >user/own && echo secret >root/f && chmod 600 root/f && echo key >home/key && chmod 640 home/key && chown -R 1234 home shared && chgrp 1234 root/f && " +
		"ln -s own user/mine && ln -s ../root/f user/evil && ln -s ../home/key user/key && ln -s ../root user/folder && chown -hR 65534 user && ln root/f root/plain && ln -s f root/link && " +
		"ln -s ../root/f tmp/root && ln -s ../root/f tmp/evil && ln -s ../home/key tmp/key && ln -s ../home/key tmp/own && chown -h 65534 tmp/evil tmp/key && chown -h 1234 tmp/own && chmod 1777 tmp && " +
		"ln -s ../home/key shared/own && ln -s ../home/key shared/key && chown -h 1234 shared/own && chown -h 65534 shared/key && chmod 775 shared"
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", setup)
	c.Dir = base
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return base
}

// A login that is not root follows no link of a stranger to what it alone may read. Control: its
// own links, and those in folders where nobody else can give names.
func TestSendFollowsNoPlantedLinkForALogin(t *testing.T) {
	t.Parallel()
	base := planted(t)
	if err := os.Chmod(base+"/root/f", 0o640); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"home/key": "key\n", "user/own": "own\n", "user/mine": "own\n", "user/key": "", "user/evil": "", "root/link": "secret\n",
		"tmp/own": "key\n", "tmp/key": "", "tmp/evil": "", "tmp/root": "secret\n", "shared/own": "key\n", "shared/key": "",
	} {
		c := exec.CommandContext(t.Context(), "/bin/sh", "-c", sendScript(filepath.Join(base, name)))
		c.Dir, c.SysProcAttr = base, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
		out, err := c.Output()
		_, got, _ := strings.Cut(string(out), "\n")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; expected %q", name, out, err, want)
		}
	}
}
