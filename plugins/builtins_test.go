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
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/transport/sshdtest"
	"github.com/turnus/turnus/plugins/command"
	"github.com/turnus/turnus/plugins/fetch"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/http"
	"github.com/turnus/turnus/plugins/reboot"
	"github.com/turnus/turnus/plugins/script"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/wait"
)

func builtins() []sdk.Def {
	return []sdk.Def{
		sdk.Plugin("builtin", "1.0.0"), command.Def(), fetch.Def(), file.Def(), firewall.Def(), http.Def(), reboot.Def(), script.Def(), wait.Def(),
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
}

func start(t *testing.T) *place {
	t.Helper()
	key, public := sshdtest.NewKey(t)
	server := sshdtest.Start(t, sshdtest.Authorize(public))
	supervisor, stop, err := supervise(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return &place{
		supervisor: supervisor, dir: t.TempDir(), fetched: t.TempDir(), files: t.TempDir(),
		host: core.Host{
			Name: "r1", Address: server.Addresses[0],
			SSH: core.SSH{User: server.User, Port: server.Port, HostKeys: []string{sshdtest.Line(server.HostKey)}},
		},
	}
}

// supervise starts a real supervisor with the built-ins, over real SSH with the key.
func supervise(key string) (*host.Supervisor, func() error, error) {
	pool, err := transport.New(transport.Config{
		Agent: "none", KnownHosts: []string{"/dev/null"}, IdentityFiles: []string{key}, ConnectTimeout: time.Minute,
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
	supervisor, err := host.New(host.Config{
		Builtins: []host.Plugin{{Name: manifest.Name, Version: manifest.Version, Argv: []string{self, "plugin"}, Manifest: manifest}},
		Reach:    pool,
	})
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
	outcome, err := p.supervisor.Run(ctx, host.Call{
		Job: core.JobID{Run: "run", Index: 0}, Step: "step", Attempt: 1, Type: name, Params: raw, Host: p.host,
		Check: check, Diff: true, Key: "key", Fence: 7, Files: p.files, Fetch: p.fetched,
		Sink: func(e host.Event) {
			seen.stdout += string(e.Stdout)
			seen.diff += e.Diff
		},
	})
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

func word(o host.Outcome) string {
	switch {
	case o.Failed:
		return "failed"
	case o.Skipped:
		return "skipped"
	case o.Changed:
		return "changed"
	}
	return "unchanged"
}
