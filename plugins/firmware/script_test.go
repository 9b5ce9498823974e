package firmware

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Between the verification and the installation days may pass; what is written is what was
// verified, or nothing.
func TestAChangedArtifactIsNotInstalled(t *testing.T) {
	sum := sha256.Sum256([]byte("genuine"))
	for name, c := range map[string]struct {
		content string // none when it is empty
		want    string
	}{
		"unchanged": {"genuine", "genuine"},
		"changed":   {"evil", ""},
		"gone":      {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "it's $(a) folder")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file, slot := filepath.Join(dir, "image.bin"), filepath.Join(dir, "slot")
			if c.content != "" {
				if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := &scripted{Script: &Script{Install: `cat "$FIRMWARE" >"$SLOT"`}, artifact: Artifact{SHA256: hex.EncodeToString(sum[:]), Version: "1$(touch evil)"}}
			out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", d.install(file, slot)).CombinedOutput()
			got, _ := os.ReadFile(slot)
			if string(got) != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(string(out), "not the artifact that was verified") {
				t.Errorf("written %q, %v: %s", got, err, out)
			}
		})
	}
}
