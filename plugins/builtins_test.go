// Package plugins_test proves the built-in job types where they will run: in a
// plugin process of their own, under the real supervisor, over a real OpenSSH.
package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/assert"
	"github.com/turnus/turnus/plugins/authorizedkey"
	"github.com/turnus/turnus/plugins/block"
	"github.com/turnus/turnus/plugins/command"
	"github.com/turnus/turnus/plugins/config"
	"github.com/turnus/turnus/plugins/copytree"
	"github.com/turnus/turnus/plugins/cron"
	"github.com/turnus/turnus/plugins/dnssec"
	"github.com/turnus/turnus/plugins/facts"
	"github.com/turnus/turnus/plugins/fetch"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/firmware"
	"github.com/turnus/turnus/plugins/git"
	"github.com/turnus/turnus/plugins/group"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/hostname"
	"github.com/turnus/turnus/plugins/http"
	"github.com/turnus/turnus/plugins/line"
	"github.com/turnus/turnus/plugins/mount"
	"github.com/turnus/turnus/plugins/packages"
	"github.com/turnus/turnus/plugins/reboot"
	"github.com/turnus/turnus/plugins/script"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/service"
	"github.com/turnus/turnus/plugins/sysctl"
	"github.com/turnus/turnus/plugins/unarchive"
	"github.com/turnus/turnus/plugins/user"
	"github.com/turnus/turnus/plugins/wait"
)

func builtins() []sdk.Def {
	return []sdk.Def{
		sdk.Plugin("builtin", "1.0.0"), command.Def(), facts.Def(), fetch.Def(), file.Def(), http.Def(), reboot.Def(), script.Def(), packages.Def(), service.Def(), wait.Def(), config.Def(), firewall.Def(),
		user.Def(), group.Def(), line.Def(), block.Def(), authorizedkey.Def(), cron.Def(),
		sysctl.Def(), git.Def(), unarchive.Def(), copytree.Def(), mount.Def(), assert.Def(), hostname.Def(),
		dnssec.Def(), firmware.StageDef(), firmware.UpgradeDef(),
	}
}

// Those who approve windows read which job types undo their own failure.
func TestBuiltinsThatUndoTheirFailure(t *testing.T) {
	key, _ := servers.NewSSHKey(t)
	var all []string
	for _, p := range supervised(t, key).Plugins() {
		for _, one := range p.Manifest.Types {
			if one.Reverts {
				all = append(all, fmt.Sprint(one.Name, one.RevertsUnless))
			}
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, []string{"firewall.push[]", "firmware.upgrade[irreversible]"}) {
		t.Errorf("%q", all)
	}
}

// Playbooks compare the durations of outputs: all are numbers of seconds, and their names end so.
func TestDurationsOfOutputsAreSeconds(t *testing.T) {
	key, _ := servers.NewSSHKey(t)
	seen := 0
	for _, p := range supervised(t, key).Plugins() {
		for _, one := range p.Manifest.Types {
			var outputs struct {
				Properties map[string]struct{ Type string }
			}
			if len(one.Outputs) == 0 {
				continue
			}
			if err := json.Unmarshal(one.Outputs, &outputs); err != nil {
				t.Fatal(err)
			}
			for name, o := range outputs.Properties {
				if strings.HasSuffix(name, "seconds") {
					seen++
					if o.Type != "number" {
						t.Errorf("output %s of %s has the type %s, want number", name, one.Name, o.Type)
					}
				}
				if words := strings.Split(name, "_"); slices.Contains([]string{"ms", "millis", "ns", "us", "minutes"}, words[len(words)-1]) {
					t.Errorf("output %s of %s is no number of seconds", name, one.Name)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d outputs are durations, want at least 5", seen)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin" {
		sdk.Serve(builtins()...)
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		workerMain(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// place is a supervisor with the built-ins and one real host.
type place struct {
	supervisor *host.Supervisor
	host       core.Host
	dir        string // of the host
	fetched    string
	files      string
	configs    *configs.Repo // nil: none
}

func start(t *testing.T) *place {
	t.Helper()
	key, public := servers.NewSSHKey(t)
	server := servers.StartSSHD(t, servers.Authorize(public))
	return &place{
		supervisor: supervised(t, key), dir: t.TempDir(), fetched: t.TempDir(), files: t.TempDir(),
		host: core.Host{
			Name: "r1", Address: server.Addresses[0],
			SSH: core.SSH{User: server.User, Port: server.Port, HostKeys: []string{servers.AuthorizedKey(server.HostKey)}},
		},
	}
}

// supervised is supervise for a test, which ends it.
func supervised(t *testing.T, key string, more ...func(*host.Config)) *host.Supervisor {
	t.Helper()
	supervisor, stop, err := supervise(key, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return supervisor
}

// supervise starts a real supervisor with the built-ins, over real SSH with the key; the function
// stops it.
func supervise(key string, more ...func(*host.Config)) (*host.Supervisor, func() error, error) {
	pool, err := transport.New(transport.Config{
		KnownHosts: []string{"/dev/null"}, Credential: transport.Always(&transport.Credential{Keys: transport.NewKeys(nil), Identities: []string{key}}), ConnectTimeout: time.Minute,
	})
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(sdk.Describe(builtins()...))
	if err != nil {
		return nil, nil, err
	}
	var manifest host.Manifest // its JSON is the border between the two
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	box, err := sandbox.New(sandbox.Config{Mode: sandbox.Auto, Memory: 4 << 30})
	if err != nil {
		return nil, nil, err
	}
	cfg := host.Config{
		Builtins: []host.Plugin{{
			Name: manifest.Name, Version: manifest.Version, Argv: []string{self, "plugin"}, Manifest: manifest,
			Allow: host.Allow{Network: true}, // of http and firewall
		}},
		Reach: pool, Sandbox: box,
	}
	for _, change := range more {
		change(&cfg)
	}
	supervisor, err := host.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return supervisor, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return errors.Join(supervisor.Stop(ctx), pool.Close())
	}, nil
}

type events struct{ stdout, diff string }

func (p *place) run(t *testing.T, name string, with sdk.With, check bool) (host.Outcome, events) {
	t.Helper()
	raw, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var seen events
	call := host.Call{
		Job: core.JobID{Run: "run", Index: 0}, Step: "step", Attempt: 1, Type: name, Params: raw, Host: p.host,
		Check: check, Diff: true, Key: "key", Fence: 7, Files: p.files, Fetch: p.fetched,
		Sink: func(e host.Event) {
			seen.stdout += string(e.Stdout)
			seen.diff += e.Diff
		},
	}
	if p.configs != nil {
		call.Kept = func(ctx context.Context, name string) ([]byte, bool, error) {
			return p.configs.File(ctx, p.host.Name, name)
		}
		call.Keep = func(ctx context.Context, files []host.KeptFile) (string, []string, error) {
			c := configs.Change{Host: p.host.Name, At: time.Now(), Run: "run"}
			for _, f := range files {
				c.Files = append(c.Files, configs.File(f))
			}
			kept, err := p.configs.Keep(ctx, c)
			return kept.Version, kept.Changed, err
		}
	}
	outcome, err := p.supervisor.Run(ctx, call)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return outcome, seen
}

func TestBuiltinsOnARealHost(t *testing.T) {
	p := start(t)
	odd := filepath.Join(p.dir, "-it's \"odd\" $(x) * ü ")
	if err := os.WriteFile(filepath.Join(p.files, "image"), []byte("bits\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for i, s := range []struct {
		name    string
		with    sdk.With
		check   bool
		outcome string // changed, unchanged, skipped, failed
		stdout  string
		diff    string
	}{
		{name: "command", with: sdk.With{"run": `echo "$TURNUS_IDEMPOTENCY_KEY $TURNUS_FENCE"`}, outcome: "changed", stdout: "key 7\n"},
		{name: "command", with: sdk.With{"run": "exit 4"}, outcome: "failed"},
		{name: "command", with: sdk.With{"run": "cat", "stdin": "in"}, outcome: "changed", stdout: "in"},
		{name: "command", with: sdk.With{"run": "touch x", "chdir": p.dir, "creates": odd}, check: true, outcome: "changed"},
		{name: "file", with: sdk.With{"path": odd, "content": "a\nb\n"}, check: true, outcome: "changed", diff: "+a\n+b\n"},
		{name: "fetch", with: sdk.With{"path": odd}, outcome: "failed"},
		{name: "file", with: sdk.With{"path": odd, "content": "a\nb\n"}, outcome: "changed", diff: "+a\n+b\n"},
		{name: "file", with: sdk.With{"path": odd, "content": "a\nb\n"}, outcome: "unchanged"},
		{name: "file", with: sdk.With{"path": odd, "content": "a\nc\n", "mode": "0600", "backup": ".old"}, outcome: "changed", diff: "-b\n+c\n"},
		{name: "command", with: sdk.With{"run": "false", "creates": odd}, outcome: "skipped"},
		{name: "fetch", with: sdk.With{"path": odd}, outcome: "unchanged"},
		{name: "fetch", with: sdk.With{"path": odd, "max_size": 1}, outcome: "failed"},
		{name: "file", with: sdk.With{"path": odd, "source": "image"}, outcome: "changed"},
		{name: "file", with: sdk.With{"path": odd, "source": "image"}, outcome: "unchanged"},
		{name: "file", with: sdk.With{"path": odd, "source": "../image"}, outcome: "failed"},
		{name: "script", with: sdk.With{"content": "#!/bin/sh\necho \"<$1>\"\n", "args": []string{"it's"}, "tmp": p.dir}, outcome: "changed", stdout: "<it's>\n"},
		{name: "wait", with: sdk.With{"address": listener.Addr().String(), "timeout": "30s"}, outcome: "unchanged"},
		{name: "wait", with: sdk.With{"port": 1, "state": "absent", "timeout": "30s"}, outcome: "unchanged"},
		{name: "wait", with: sdk.With{"file": odd, "timeout": "30s"}, outcome: "unchanged"},
		{name: "http", with: sdk.With{"url": "http://127.0.0.1:1/", "from": "host"}, outcome: "failed"},
		{name: "reboot", with: sdk.With{}, check: true, outcome: "changed"},
		{name: "reboot", with: sdk.With{"command": "true", "timeout": "1s", "interval": "100ms"}, outcome: "failed"},
		{name: "file", with: sdk.With{"path": odd, "state": "absent"}, outcome: "changed", diff: "-file\n"},
	} {
		t.Run(fmt.Sprintf("%d %s", i, s.name), func(t *testing.T) {
			got, seen := p.run(t, s.name, s.with, s.check)
			if o := word(got); o != s.outcome {
				t.Errorf("%v: got %s (%s), want %s", s.with, o, got.Reason, s.outcome)
			}
			if s.stdout != "" && seen.stdout != s.stdout {
				t.Errorf("stdout %q, want %q", seen.stdout, s.stdout)
			}
			if !strings.Contains(seen.diff, s.diff) {
				t.Errorf("diff %q lacks %q", seen.diff, s.diff)
			}
			if got.Unreachable {
				t.Errorf("a host that answers was called unreachable: %s", got.Reason)
			}
		})
	}
	left, err := os.ReadDir(p.dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(odd)+".old" {
		t.Errorf("expected the backup alone, found %v, %v", left, err)
	}
}

// A real host's configuration, kept in a real git repository.
func TestConfigurationOfARealHost(t *testing.T) {
	testparts.Need(t, "git", "git")
	p := start(t)
	repo, err := configs.New(filepath.Join(t.TempDir(), "configs"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
	}()
	conf := filepath.Join(p.dir, "it's a.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with := sdk.With{
		"what": []sdk.With{
			{"name": "a.conf", "path": conf},
			{"name": "running", "command": "date +'! %s %N'; cat " + sdk.Quote(conf) + "; printf 'caf\\351  \\r\\n'"},
		},
		"drop": []string{"^!"}, "replace": []sdk.With{{"match": `psk \S+`, "with": "psk <secret>"}}, "max_size": "1MiB",
	}
	const endless = "yes 0123456789"
	write("mtu 1500\npsk hunter2\n")
	if got, _ := p.run(t, "config.backup", with, false); word(got) != "failed" || !strings.Contains(got.Reason, "--config-dir") {
		t.Errorf("a worker without a repository: %s (%s)", word(got), got.Reason)
	}
	p.configs = repo
	for i, s := range []struct {
		text    string
		check   bool
		outcome string
		diff    string
	}{
		{"mtu 1500\npsk hunter2\n", true, "changed", "+mtu 1500"},
		{"mtu 1500\npsk hunter2\n", false, "changed", "+psk <secret>"},
		{"mtu 1500\r\npsk hunter3\r\n", false, "unchanged", ""}, // another secret, other line ends, another time
		{"mtu 9000\npsk hunter2\n", true, "changed", "-mtu 1500\n+mtu 9000"},
		{"mtu 9000\npsk hunter2\n", false, "changed", "-mtu 1500\n+mtu 9000"},
		{"mtu 9000\npsk hunter2\x00\n", false, "failed", ""},
		{strings.Repeat("line\n", 1<<18), false, "failed", ""},
		{"mtu 9000\npsk hunter2\n", false, "unchanged", ""},
	} {
		write(s.text)
		got, seen := p.run(t, "config.backup", with, s.check)
		if word(got) != s.outcome || !strings.Contains(seen.diff, s.diff) || strings.Contains(seen.diff+got.Reason+fmt.Sprint(got.Outputs), "hunter") {
			t.Errorf("%d: %s (%s), want %s; diff %s, outputs %v", i, word(got), got.Reason, s.outcome, seen.diff, got.Outputs)
		}
	}
	got, _ := p.run(t, "config.backup", sdk.With{"what": []sdk.With{{"name": "x", "command": endless}}, "max_size": "1MiB"}, false)
	if word(got) != "failed" || !strings.Contains(got.Reason, "max_size") {
		t.Errorf("endless output: %s (%s)", word(got), got.Reason)
	}
	list, err := repo.History(t.Context(), configs.Query{Host: "r1"})
	if err != nil || len(list) != 2 {
		t.Errorf("history: %+v, %v; want 2 versions", list, err)
	}
	if kept, _, err := repo.File(t.Context(), "r1", "running"); err != nil || string(kept) != "mtu 9000\npsk <secret>\ncaf\xe9\n" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// word is an outcome in one word.
func word(o host.Outcome) string {
	switch {
	case o.Suspended && o.Held:
		return "held"
	case o.Suspended:
		return "suspended"
	case o.RolledBack:
		return "rolled_back"
	case o.Lost:
		return "lost"
	case o.Unreachable:
		return "unreachable"
	case o.Failed:
		return "failed"
	case o.Skipped:
		return "skipped"
	case o.Changed:
		return "changed"
	}
	return "unchanged"
}
