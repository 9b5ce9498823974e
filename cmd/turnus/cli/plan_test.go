package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// Each of several playbooks has its document, also one of which no window fits any host. That one
// has the keys of the others, and no null list.
func TestPlanOfPlaybooksOfWhichOneHasNoWindow(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"firmware.yaml": "playbook: firmware\ntargets: true\nwindow: service\nsteps: [{name: up, uses: command, window: service, needs: 40m, with: {run: \"true\"}}]\n",
		"other.yaml":    "playbook: other\ntargets: true\nsteps: [{name: go, uses: command, with: {run: \"true\"}}]\n",
		"hosts.yaml":    "hosts:\n  fw-9: {window_set: tiny}\n",
		"windows.yaml":  "window_sets:\n  tiny: {timezone: UTC, allow: [{id: night, rrule: FREQ=DAILY, from: \"01:00\", to: \"01:20\"}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("TURNUS_STATE", filepath.Join(dir, "state"))
	args := []string{"plan", "firmware.yaml", "other.yaml", "-i", "hosts.yaml", "--windows", "windows.yaml", "--at", "2026-12-18T12:00:00Z", "--workers", "2", "--forks", "3"}
	out, _ := turnus(t, console.ExitOK, append(args, "-o", "json")...)
	docs := map[string]map[string]any{}
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var doc map[string]any
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		docs[doc["playbook"].(string)] = doc
	}
	if len(docs) != 2 || docs["firmware"] == nil || docs["other"] == nil {
		t.Fatalf("got %s", out)
	}
	forecast := docs["firmware"]["forecast"].(map[string]any)
	for key, value := range docs["other"]["forecast"].(map[string]any) {
		got, is := forecast[key].([]any)
		if _, list := value.([]any); list && (!is || len(got) > 0 && key != "never" && key != "approvals") {
			t.Errorf("forecast.%s is %v, expected a list", key, forecast[key])
		}
	}
	for key, want := range map[string]any{"at": "2026-12-18T12:00:00Z", "workers": 2.0, "concurrency": 6.0} {
		if forecast[key] != want {
			t.Errorf("forecast.%s is %v, expected %v", key, forecast[key], want)
		}
	}
	if left, _ := docs["firmware"]["no_window"].([]any); len(left) != 1 {
		t.Errorf("no_window is %v", docs["firmware"]["no_window"])
	}
	if out, _ := turnus(t, console.ExitOK, args...); !strings.Contains(out, "firmware: no host can start") || !strings.Contains(out, "other: 1 host in 1 wave") {
		t.Errorf("got %s", out)
	}
	turnus(t, console.ExitInvalid, append(args, "-o", "svg")...)
}
