package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// The document of a comparison with a server has the warnings of NEW, as that of two folders. They
// are not printed twice for people.
func TestDiffAgainstAServerHasWarnings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	t.Setenv("TURNUS_TOKEN", "t")
	dir := filepath.Join(t.TempDir(), "p")
	turnus(t, console.ExitOK, "init", dir, "--host", "one.example")
	text := "playbook: none\ntargets: host.name == \"other\"\nsteps: [{name: a, uses: command, with: {run: uptime}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "playbooks", "none.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"project", "diff", dir, "--server", server.URL}
	out, said := turnus(t, console.ExitOK, append(args, "-o", "json")...)
	var doc struct {
		Warnings []struct {
			Message string `json:"message"`
		} `json:"warnings"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Warnings) != 1 || !strings.Contains(doc.Warnings[0].Message, "selects none of 1 host") {
		t.Errorf("%v; got %s%s", err, out, said)
	}
	if _, said := turnus(t, console.ExitOK, args...); strings.Count(said, "selects none of 1 host") != 1 {
		t.Errorf("got %s", said)
	}
}
