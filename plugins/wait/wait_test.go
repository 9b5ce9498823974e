package wait_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers gives one reply after another; the last one stays.
func answers(replies ...plugintest.Reply) plugintest.Handler {
	next := make(chan plugintest.Reply, len(replies))
	for _, r := range replies[:len(replies)-1] {
		next <- r
	}
	return func(context.Context, plugintest.Call) plugintest.Reply {
		select {
		case r := <-next:
			return r
		default:
			return replies[len(replies)-1]
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	yes, no := plugintest.Reply{}, plugintest.Reply{Code: 1, Stderr: "not yet"}
	there, gone := plugintest.Reply{Stdout: "y\n"}, plugintest.Reply{Stdout: "n\n"}
	away := plugintest.Reply{Err: plugintest.Unreachable("r1", true)}
	for name, tc := range map[string]struct {
		with            sdk.With
		replies         []plugintest.Reply
		outcome, reason string
		attempts        float64
	}{
		"command at once":      {sdk.With{"command": "health"}, []plugintest.Reply{yes}, "unchanged", "", 1},
		"command, third try":   {sdk.With{"command": "health"}, []plugintest.Reply{no, no, yes}, "unchanged", "", 3},
		"command, never":       {sdk.With{"command": "health", "timeout": "1s"}, []plugintest.Reply{no}, "failed", "waited 1s for command health to be present: exit status 1: not yet", 0},
		"command to fail":      {sdk.With{"command": "busy", "state": "absent"}, []plugintest.Reply{yes, no}, "unchanged", "", 2},
		"through an outage":    {sdk.With{"command": "health"}, []plugintest.Reply{away, away, yes}, "unchanged", "", 3},
		"an outage is no no":   {sdk.With{"command": "busy", "state": "absent", "timeout": "1s"}, []plugintest.Reply{away}, "unreachable", "connection refused", 0},
		"a hang is no no":      {sdk.With{"command": "hang", "state": "absent", "timeout": "1s"}, []plugintest.Reply{yes}, "failed", "waited 1s", 0},
		"file":                 {sdk.With{"file": "/run/x"}, []plugintest.Reply{gone, there}, "unchanged", "", 2},
		"file gone":            {sdk.With{"file": "/run/x", "state": "absent"}, []plugintest.Reply{there, gone}, "unchanged", "", 2},
		"file, never gone":     {sdk.With{"file": "/run/x", "state": "absent", "timeout": "1s"}, []plugintest.Reply{there}, "failed", "it is still there", 0},
		"port open":            {sdk.With{"port": 80}, []plugintest.Reply{yes}, "unchanged", "", 1},
		"port closed":          {sdk.With{"port": 81, "state": "absent"}, []plugintest.Reply{yes}, "unchanged", "", 1},
		"port, never":          {sdk.With{"port": 81, "timeout": "1s"}, []plugintest.Reply{yes}, "failed", "port 127.0.0.1:81", 0},
		"address":              {sdk.With{"address": "[2001:db8::1]:443"}, []plugintest.Reply{yes}, "unchanged", "", 1},
		"nothing to wait for":  {sdk.With{}, []plugintest.Reply{yes}, "failed", "expected one of address, port, command and file", 0},
		"two things":           {sdk.With{"port": 1, "file": "/a"}, []plugintest.Reply{yes}, "failed", "found 2", 0},
		"a port that is none":  {sdk.With{"port": 70000}, []plugintest.Reply{yes}, "failed", "expected at most 65535", 0},
		"an address like this": {sdk.With{"address": "host"}, []plugintest.Reply{yes}, "failed", "expected host:port", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.with["interval"] = "1ms"
			kit := plugintest.New(t, wait.Def())
			kit.Host("r1").
				OnFunc("hang", func(ctx context.Context, _ plugintest.Call) plugintest.Reply {
					<-ctx.Done()
					return plugintest.Reply{Err: ctx.Err()}
				}).
				Handle(answers(tc.replies...)).
				Listen("127.0.0.1:80", func(net.Conn) {}).Listen("[2001:db8::1]:443", func(net.Conn) {})
			got := kit.Run(tc.with)
			if got.Outcome != tc.outcome || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, tc.outcome, tc.reason)
			}
			if tc.attempts > 0 && got.Outputs["attempts"] != tc.attempts {
				t.Errorf("%v attempts, want %v", got.Outputs["attempts"], tc.attempts)
			}
		})
	}
}

func TestFileUnderOddNames(t *testing.T) {
	for _, name := range []string{"it's", "a b", "-f", "$(x)"} {
		kit := plugintest.New(t, wait.Def())
		kit.Host("r1").Local()
		path := filepath.Join(t.TempDir(), name)
		if got := kit.Run(sdk.With{"file": path, "state": "absent"}); got.Outcome != "unchanged" {
			t.Errorf("%q: got %s (%s)", name, got.Outcome, got.Reason)
		}
	}
}

func TestCheckModeDoesNotWait(t *testing.T) {
	kit := plugintest.New(t, wait.Def())
	got := kit.Check(sdk.With{"command": "health"})
	if got.Outcome != "unchanged" || got.Reason != "would wait for command health" || len(kit.Host("r1").Calls()) > 0 {
		t.Errorf("got %s (%s), calls %v", got.Outcome, got.Reason, kit.Host("r1").Calls())
	}
}
