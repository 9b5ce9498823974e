package transport

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
)

// The hash of a file is in no command line: every user of the host can read those, and finds a short
// secret by its hash. Red with the hash in the scripts of an upload.
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
