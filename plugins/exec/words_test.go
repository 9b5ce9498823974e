package exec

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Red with words.Plain taken out.
func TestFaultP12NoGoTypesInWhatADescriptionGets(t *testing.T) {
	for text, want := range map[string]string{
		"plugin: disk\nverson: 1\n":      "line 2: unknown key verson",
		"plugin: disk\nversion: [1]\n":   "line 2: expected text, found a list",
		"plugin: disk\nconcurrency: x\n": "line 2: expected a whole number, found text `x`",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(dir)
		if err == nil || !strings.HasSuffix(err.Error(), want) || regexp.MustCompile(`unmarshal|exec\.desc|\bint\b`).MatchString(err.Error()) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
