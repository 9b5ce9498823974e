package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
)

// answers serves what answer returns, as JSON; nil is not found. It returns the URL.
func answers(t *testing.T, answer func(*http.Request) any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		shown := answer(r)
		if shown == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(shown)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The document of a comparison with a server has the warnings of NEW, as that of two folders. They
// are not printed twice for people.
func TestDiffAgainstAServerHasWarnings(t *testing.T) {
	server := answers(t, func(*http.Request) any { return struct{}{} })
	t.Setenv("TURNUS_TOKEN", "t")
	dir := filepath.Join(t.TempDir(), "p")
	turnus(t, console.ExitOK, "init", dir, "--host", "one.example")
	text := "playbook: none\ntargets: host.name == \"other\"\nsteps: [{name: a, uses: command, with: {run: uptime}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "playbooks", "none.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"project", "diff", dir, "--server", server}
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

// A file gets the playbook byte by byte.
func TestPlaybookIsPrintedAsItIs(t *testing.T) {
	source := "playbook: ntp\r\n# \x1b[31m\ttab\r\ntargets: true"
	server := answers(t, func(*http.Request) any { return api.Playbook{Name: "ntp", Source: source} })
	t.Setenv("TURNUS_TOKEN", "t")
	if out, _ := turnus(t, console.ExitOK, "project", "playbooks", "show", "ntp", "--server", server); out != source {
		t.Errorf("got %q, expected %q", out, source)
	}
}

// The unset variable of a shell does not stand for each run.
func TestAnEmptyRunIsRefused(t *testing.T) {
	for _, line := range []string{"hosts config diff fw1", "hosts config ls", "hosts handlers ls", "admin notifications ls"} {
		_, said := turnus(t, console.ExitInvalid, append(strings.Fields(line), "--run", "")...)
		if !strings.Contains(said, "--run is empty") {
			t.Errorf("%s: %s", line, said)
		}
	}
}

// A shell completes by what a server has: hosts, groups and tags that narrow a launch, and hosts of
// which a command shows something.
func TestServerCompletes(t *testing.T) {
	known := map[string]any{
		"/v1/hosts":         map[string]any{"items": []api.Host{{Name: "web1", Customer: "acme", Groups: []string{"web"}}, {Name: "db1", Site: "fra"}}},
		"/v1/playbooks/ntp": api.Playbook{Name: "ntp", Source: "playbook: ntp\nparams: {servers: {type: list}}\nsteps:\n  - {uses: command, tags: [quick, slow], with: {run: a}}\n"},
		"/v1/handlers":      map[string]any{"items": []api.PendingHandler{{Playbook: "nginx", Host: "web1", Handler: "reload"}, {Playbook: "nginx", Host: "web2", Handler: "reload"}}},
	}
	server := answers(t, func(r *http.Request) any { return known[r.URL.Path] })
	t.Setenv("TURNUS_TOKEN", "t")
	for line, want := range map[string][]string{
		"submit ntp --limit we":                      {"web", "web1"},
		"submit ntp --limit web,f":                   {"web,fra"},
		"submit ntp --tags q":                        {"quick"},
		"submit ntp --skip-tags quick,":              {"quick,quick", "quick,slow"},
		"schedules set n --limit acm":                {"acme"},
		"schedules set n --playbook ntp --tags slow": {"slow"},
		"hosts facts web":                            {"web1\tacme", "db1"},
		"inventory show web":                         {"web1\tacme", "db1"},
		"hosts handlers drop n":                      {"nginx"},
		"hosts handlers drop nginx --handler r":      {"reload"},
		"hosts handlers drop nginx --host w":         {"web1", "web2"},
		"hosts handlers ls --handler r":              {"reload"},
		"hosts handlers ls --playbook n":             {"nginx"},
		"submit ntp -e s":                            {"servers="},
		"schedules set n --playbook ntp -e s":        {"servers="},
	} {
		words := strings.Fields(line)
		last := len(words) - 1
		args := append(append([]string{"__complete"}, words[:last]...), "--server", server)
		if strings.HasPrefix(words[last-1], "-") { // the value of a flag is behind it
			args = append(append([]string{"__complete"}, words[:last-1]...), "--server", server, words[last-1])
		}
		out, said := turnus(t, console.ExitOK, append(args, words[last])...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := lines[:len(lines)-1]; !slices.Equal(got, want) { // the last one is a directive
			t.Errorf("%s is completed by %q, expected %q; %s", line, got, want, said)
		}
	}
}

// The picture of a wave is that of the hosts which the server lists.
func TestPictureOfAWaveOfARun(t *testing.T) {
	server := answers(t, func(r *http.Request) any {
		switch {
		case r.URL.Path == "/v1/runs/r1":
			return api.Run{ID: "r1", Playbook: "patch"}
		case r.URL.Path == "/v1/runs/r1/timeline" && r.URL.Query().Get("wave") == "2":
			return api.Timeline{OfWave: &api.WaveHosts{Wave: 2, Hosts: []api.TimelineHost{{Host: "web2"}}}}
		}
		return nil
	})
	t.Setenv("TURNUS_TOKEN", "t")
	if out, _ := turnus(t, console.ExitOK, "runs", "show", "r1", "-o", "svg", "--wave", "2", "--server", server); !strings.Contains(out, "web2: no outcome") {
		t.Errorf("got %s", out)
	}
	for _, args := range [][]string{{"--wave", "2"}, {"-o", "svg", "--jobs", "--wave", "2"}} {
		if _, said := turnus(t, console.ExitInvalid, append([]string{"runs", "show", "r1", "--server", server}, args...)...); !strings.Contains(said, "hint: turnus runs show r1 -o svg --wave 1") {
			t.Errorf("%v: %s", args, said)
		}
	}
}

// A reason goes to the server with each kind of launch, and runs show prints it, without what would
// drive a terminal.
func TestReasonOfALaunch(t *testing.T) {
	var sent []string
	server := answers(t, func(r *http.Request) any {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/runs/r1" {
			return api.Run{ID: "r1", Playbook: "ntp", LaunchReason: "ticket \x1b[2J4711"}
		}
		if r.Method == http.MethodGet {
			return nil
		}
		var body struct{ Reason string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		sent = append(sent, r.URL.Path+" "+body.Reason)
		return map[string]any{"id": "r1", "run": "r1", "name": "n"}
	})
	t.Setenv("TURNUS_TOKEN", "t")
	for _, line := range []string{"submit ntp", "submit ntp --key k --at 2130-01-01T02:00", "runs retry r0", "schedules trigger n", "schedules set n --playbook ntp --cron @daily"} {
		turnus(t, console.ExitOK, append(strings.Fields(line), "--reason", "ticket 4711", "--server", server)...)
	}
	paths := []string{"/v1/runs", "/v1/schedules/" + onceName("ntp", "k"), "/v1/runs/r0/retry", "/v1/schedules/n/trigger", "/v1/schedules/n"}
	for i, path := range paths {
		if len(sent) != len(paths) || sent[i] != path+" ticket 4711" {
			t.Fatalf("sent %q, expected a reason to %q", sent, paths)
		}
	}
	out, _ := turnus(t, console.ExitOK, "runs", "show", "r1", "--server", server)
	if !strings.Contains(out, "\nwhy          ticket ") || strings.Contains(out, "\x1b") {
		t.Errorf("runs show prints %q", out)
	}
}
