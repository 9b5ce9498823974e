package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
)

// The diff of a rejected revision stands beside its mistakes. A server that rejects none reports
// that.
func TestDiffOfARejectedRevision(t *testing.T) {
	at := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	none := api.RejectedChanges{Files: []api.FileChange{}, Changes: []api.Change{}}
	shown := none
	server := answers(t, func(r *http.Request) any {
		if r.URL.Path != "/v1/definitions/rejected" {
			return nil
		}
		return shown
	})
	t.Setenv("TURNUS_TOKEN", "t")
	args := []string{"project", "diff", "--rejected", "--server", server}
	turnus(t, console.ExitOK, append(args, "--exit-code")...)
	if out, said := turnus(t, console.ExitOK, args...); out != "" || !strings.Contains(said, "the server rejects no revision") {
		t.Errorf("%s%s", out, said)
	}
	shown = api.RejectedChanges{
		Rejected: &api.Rejected{Revision: "0123456789abcdef", Author: "Ann", Since: at, Error: "playbooks/all.yaml:3:1: unknown key"}, From: "fedc", FilesLeftOut: 2, LeftOut: 1,
		Files: []api.FileChange{
			{Path: "playbooks/all.yaml", Action: "changed", Added: 1, Removed: 1, Text: "@@ -1 +1 @@\n-steps: []\n+stepz: []"},
			{Path: "secrets.yaml", Action: "added", Note: "an admin of all tenants sees the text"},
		},
		At: at, Changes: []api.Change{{Kind: "host", Name: "b", Action: "removed", Details: []string{"10.0.0.2"}}},
	}
	out, said := turnus(t, console.ExitOK, args...)
	want := "--- playbooks/all.yaml\n+++ playbooks/all.yaml\n@@ -1 +1 @@\n-steps: []\n+stepz: []\n" +
		"--- /dev/null\n+++ secrets.yaml\n(an admin of all tenants sees the text)\n2 further files left out\n- host b\n    10.0.0.2\n0 added, 1 removed, 0 changed\n"
	if out != want {
		t.Errorf("got %s, expected %s", out, want)
	}
	for _, part := range []string{"commit 0123456789ab by Ann", "playbooks/all.yaml:3:1: unknown key", "the files without mistakes have this effect", "1 further change left out"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in %s", part, said)
		}
	}
	turnus(t, console.ExitChanges, append(args, "--exit-code")...)
	turnus(t, console.ExitChanges, append(args, "--exit-code", "-o", "json")...)
	if out, _ := turnus(t, console.ExitOK, append(args, "-o", "json")...); !strings.Contains(out, `"files_left_out": 2`) {
		t.Error(out)
	}
	shown.At, shown.Changes = time.Time{}, []api.Change{}
	if out, said := turnus(t, console.ExitOK, args...); !strings.Contains(said, "more is wrong than single files") || strings.Contains(out, "no changes") {
		t.Errorf("%s%s", out, said)
	}
	turnus(t, console.ExitInvalid, append(args, ".")...)
	turnus(t, console.ExitInvalid, "project", "diff")
}
