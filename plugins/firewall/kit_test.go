//go:build linux

package firewall_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// armedFor is the confirm_timeout of pushes that end by it: a busy machine needs seconds to get
// from the arming to the change.
const armedFor = 15 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// device is a real nftables in a namespace, which the scripted host reaches by running its commands
// there.
type device struct {
	t     *testing.T
	lab   *servers.Host
	kit   *plugintest.Kit
	host  *plugintest.Host
	state string

	mu     sync.Mutex
	before func(c plugintest.Call) *plugintest.Reply // meets each command; nil continues
	probes int
}

func newDevice(t *testing.T) *device {
	t.Helper()
	testparts.Need(t, "nft", "nftables")
	testparts.Need(t, "unshare", "util-linux")
	state := filepath.Join(t.TempDir(), "state dir") // first: it is removed when the host with its timers is gone
	d := &device{t: t, lab: servers.NewHost(t), kit: plugintest.New(t, firewall.Def(netip.MustParsePrefix("127.0.0.1/32"))), state: state}
	d.host = d.kit.Host("r1").Handle(d.handle).OnProbe(func(int) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.probes++
		return nil
	})
	return d
}

// meet has hook see each command before it runs.
func (d *device) meet(hook func(c plugintest.Call) *plugintest.Reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = hook
}

func (d *device) handle(ctx context.Context, c plugintest.Call) plugintest.Reply {
	d.mu.Lock()
	hook := d.before
	d.mu.Unlock()
	if hook != nil {
		if reply := hook(c); reply != nil {
			return *reply
		}
	}
	return d.exec(ctx, c)
}

func (d *device) exec(ctx context.Context, c plugintest.Call) plugintest.Reply {
	var stdout, stderr bytes.Buffer
	prefix := d.lab.Prefix()
	cmd := exec.CommandContext(ctx, prefix[0], append(prefix[1:], "/bin/sh", "-c", c.Command)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Stdin), &stdout, &stderr
	err := cmd.Run()
	reply := plugintest.Reply{Stdout: stdout.String(), Stderr: stderr.String()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		reply.Code = exit.ExitCode()
	} else if err != nil {
		reply.Err = err
	}
	return reply
}

// with are the params of a push of rules, which are lines of the chain input.
func (d *device) with(rules string, more ...sdk.With) sdk.With {
	w := sdk.With{"ruleset": ruleset(rules), "state_dir": d.state, "confirm_timeout": "10m", "connect_timeout": "30s"}
	for _, m := range more {
		maps.Copy(w, m)
	}
	return w
}

func ruleset(rules string) string {
	return "table inet turnus {\n  chain input {\n    type filter hook input priority 0; policy accept;\n" + rules + "\n  }\n}\n"
}

func (d *device) shell(line string) string {
	d.t.Helper()
	out, err := d.lab.Shell(line)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *device) live() string { d.t.Helper(); return d.shell("nft -s list ruleset") }

func want(t *testing.T, got *plugintest.Result, outcome, reason string) {
	t.Helper()
	if got.Outcome != outcome || !strings.Contains(got.Reason, reason) {
		t.Fatalf("got %s (%s), want %s (%s); log %v", got.Outcome, got.Reason, outcome, reason, got.Logs)
	}
}

// until waits for a condition, generously.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(50*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("no sign of %s", what)
		}
	}
}

// is reports whether a command is one of the job type's scripts.
func is(c plugintest.Call, what string) bool {
	mark := map[string]string{
		"look": "mktemp -d) || exit 65\ntrap", "arm": ".takeover.", "apply": "nft -f new.nft", "confirm": "mv armed confirmed", "revert": "guard\" now",
	}[what]
	return strings.Contains(c.Command, mark)
}
