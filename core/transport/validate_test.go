package transport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A command checks the new file, which has its mode, before it replaces the old one. If it refuses,
// the old file stays, and no part: also where others may write to the folder. Nothing stays of what
// the command leaves beside the new file. A login without a shell refuses. Control: a command that
// accepts.
func TestPutValidatesTheNewFile(t *testing.T) {
	t.Parallel()
	s, p := startSSHD(t)
	only, q := startSSHD(t, servers.SSHDConfig("ForceCommand internal-sftp"))
	poor, r := startSSHD(t, servers.SSHDConfig("SetEnv PATH="+emptyBin(t)))
	const leaves = "cp %s %s.bak && mkdir \"${f%/*}/cache\" && cp %s '%s'.swp"
	for name, c := range map[string]struct {
		login    string
		mode     os.FileMode
		validate string
		fails    string
	}{
		"accepted":                      {"", 0o755, "grep -q new '%s' && [ $(stat -c %a %s) = 640 ]", ""},
		"accepted, shared folder":       {"", 0o777, "grep -q new %s", ""},
		"refused":                       {"", 0o755, "echo line 7 is wrong; false %s", "line 7 is wrong"},
		"refused, shared folder":        {"", 0o777, "echo line 7 is wrong >&2; false %s", "line 7 is wrong"},
		"changes the file":              {"", 0o755, "echo more >>%s", "verification failed"},
		"changes it, shared folder":     {"", 0o777, "echo more >>%s", "verification failed"},
		"no tool to hash":               {"no hash", 0o755, "[ -s %s ]", ""},
		"changes it, no tool to hash":   {"no hash", 0o755, "echo more >>%s", "verification failed"},
		"leaves files":                  {"", 0o755, leaves, ""},
		"leaves them, shared folder":    {"", 0o777, leaves, ""},
		"leaves them, refuses":          {"", 0o755, leaves + "; echo line 7 is wrong; false", "line 7 is wrong"},
		"leaves them, is killed":        {"", 0o755, leaves + "; kill -9 0", "exit code 137"},
		"leaves them, no tool to hash":  {"no hash", 0o755, leaves, ""},
		"removes the file":              {"", 0o755, "rm %s", "verification failed"},
		"several lines":                 {"", 0o755, "true\nfalse %s", "expected one line"},
		"SFTP only: no shell checks it": {"SFTP only", 0o755, "true %s", "needs a shell"},
	} {
		dir := filepath.Join(t.TempDir(), "it's a folder")
		file := filepath.Join(dir, "f")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		write(t, file, []byte("old"))
		pool, h := p, s.Host("web1")
		switch c.login {
		case "SFTP only":
			pool, h = q, only.Host("web1")
		case "no hash":
			pool, h = r, poor.Host("web1")
		}
		_, err := pool.Put(testContext(t), h, Put{Path: file, Mode: 0o640, Size: 3, Validate: c.validate}, strings.NewReader("new"))
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", name, err)
		}
		want := map[bool]string{true: "new", false: "old"}[c.fails == ""]
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: the file has %q, %v", name, got, err)
		}
		expectOnly(t, dir, "f")
	}
}

// Simulated hosts also run the command.
func TestSimulatedHostsValidateTheNewFile(t *testing.T) {
	f, err := fleet.Start(testContext(t), fleet.Config{Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p, h := newPool(t, func(c *Config) { offers(c).Identities = []string{f.IdentityFile()} }), f.Hosts()[0]
	for _, path := range []string{"/etc/file", "/tmp/file"} { // only in /tmp may others give names
		for validate, fails := range map[string]bool{"grep -q new %s": false, "grep -q other %s": true} {
			_, err := p.Put(testContext(t), h, Put{Path: path, Size: 3, Validate: validate}, strings.NewReader("new"))
			if (err != nil) != fails {
				t.Errorf("%s: %s: %v", path, validate, err)
			}
		}
	}
}
