package plugintest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type params struct {
	Run string `json:"run"`
}

func kit(t *testing.T) *plugintest.Kit {
	t.Helper()
	return plugintest.New(t, sdk.Job("test.run", func(ctx context.Context, r *sdk.Run[params, sdk.NoState]) error {
		return r.Host().Run(ctx, r.Params.Run).Err()
	}, sdk.Check()))
}

func TestRulesAnswerInOrder(t *testing.T) {
	k := kit(t)
	k.Host("r1").
		On("uptime", plugintest.Reply{Stdout: "exact"}).
		On("systemctl * nginx", plugintest.Reply{Stdout: "glob"}).
		On("up*", plugintest.Reply{Stdout: "second"})
	for command, want := range map[string]string{
		"uptime": "exact", "uptime -p": "second", "systemctl restart -q nginx": "glob", "systemctl nginx": "", "x": "",
	} {
		got := k.Run(params{Run: command})
		if got.Stdout != want {
			t.Errorf("%q: got %q, want %q", command, got.Stdout, want)
		}
		if want == "" && (got.Outcome != "failed" || !strings.Contains(got.Stderr, "no rule for this command: "+command)) {
			t.Errorf("%q: got %s, %q", command, got.Outcome, got.Stderr)
		}
	}
	if calls := k.Host("r1").Calls(); len(calls) != 5 {
		t.Errorf("%d calls, want 5", len(calls))
	}
}

func TestTheFirstHostIsTheJobsOwn(t *testing.T) {
	k := kit(t)
	k.Host("a").On("*", plugintest.Reply{Stdout: "from a"})
	k.Host("b").On("*", plugintest.Reply{Stdout: "from b"})
	if got := k.Run(params{Run: "x"}); got.Stdout != "from a" {
		t.Errorf("got %q", got.Stdout)
	}
}

func TestABrokenConnectionIsAFault(t *testing.T) {
	k := kit(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	k.Host("r1").OnFunc("*", func(ctx context.Context, _ plugintest.Call) plugintest.Reply {
		close(started)
		<-ctx.Done()
		return plugintest.Reply{Err: ctx.Err()}
	})
	running := k.Start(params{Run: "x"}, plugintest.Context(ctx))
	<-started
	cancel()
	if result, err := running.Try(); err == nil {
		t.Errorf("got %+v, want a fault", result)
	}
}

func TestOptionsReachTheJobType(t *testing.T) {
	k := plugintest.New(t,
		sdk.Job("test.none", func(context.Context, *sdk.Run[params, sdk.NoState]) error { return errors.New("the wrong type") }),
		sdk.Job("test.options", func(_ context.Context, r *sdk.Run[params, sdk.NoState]) error {
			if r.Attempt != 3 || r.Labels["role"] != "edge" || r.Key == "" || r.Fence == 0 || r.Step == "" || r.Job == "" ||
				r.Deadline.IsZero() || r.Check || !r.Diff || r.Host().Name != "r1" {
				t.Errorf("got %+v", r)
			}
			return nil
		}))
	got := k.Run(params{}, plugintest.Type("test.options"), plugintest.Attempt(3),
		plugintest.Labels(map[string]string{"role": "edge"}), plugintest.Deadline(time.Hour))
	if got.Outcome != "unchanged" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}
