//go:build linux && labs

package transport

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
)

// A large file is verified while the disk takes it. Where that cannot be, the way of small files is
// left; a hash that differs still replaces nothing.
func TestLabPutOfALargeFileIsVerified(t *testing.T) {
	liar := emptyBin(t)
	for _, tool := range []string{"openssl", "sha256sum"} {
		script := "#!/bin/sh\necho 0123456789012345678901234567890123456789012345678901234567890123 -\n"
		if err := os.WriteFile(filepath.Join(liar, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		config string
		fails  string
	}{
		"as usual":          {"", ""},
		"one session":       {"MaxSessions 1", ""},
		"no tool to hash":   {"SetEnv PATH=" + emptyBin(t), ""},
		"SFTP only":         {"ForceCommand internal-sftp", ""},
		"another file came": {"SetEnv PATH=" + liar, "verification failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var opts []servers.SSHDOption
			if c.config != "" {
				opts = append(opts, servers.SSHDConfig(c.config))
			}
			s, p := startSSHD(t, opts...)
			dir := t.TempDir()
			want := content(largePut + 12345)
			_, err := p.Put(testContext(t), s.Host("web1"), Put{Path: dir + "/f", Size: int64(len(want))}, bytes.NewReader(want))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v", err)
				}
				expectOnly(t, dir)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(dir + "/f")
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived, %v", len(got), err)
			}
			expectOnly(t, dir, "f")
		})
	}
}
