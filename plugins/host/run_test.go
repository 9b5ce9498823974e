package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

func TestRunReportsThePluginEverything(t *testing.T) {
	b := open(t, &fleet{})
	c := call("echo", labParams{Text: "hi"})
	c.Key, c.Fence, c.Diff, c.Check, c.Attempt = "k1", 9, true, true, 3
	c.State = &State{Version: 1, JSON: []byte(`{"x":1}`)}
	got := b.must(t, c)
	for key, want := range map[string]any{
		"job": "r1/7", "step": "s", "attempt": 3.0, "host": "fw1", "check": true, "diff": true, "key": "k1", "fence": 9.0,
		"state": `{"x":1}`, "labels": map[string]any{"role": "firewall"}, "params": map[string]any{"text": "hi"},
	} {
		if !reflect.DeepEqual(got[key], want) {
			t.Errorf("%s: %v, expected %v", key, got[key], want)
		}
	}
	if got["deadline"].(float64) < float64(time.Now().UnixMilli()) {
		t.Errorf("deadline %v is not the context's", got["deadline"])
	}
}

func TestOutcomes(t *testing.T) {
	b := open(t, &fleet{})
	for name, want := range map[string]Outcome{
		"fail":    {Failed: true, Reason: "no space", Retryable: true, Effects: EffectsPartial, RolledBack: true, Outputs: map[string]any{"free": 0.0}},
		"suspend": {Suspended: true, Reason: "staged", State: &State{Version: 2, JSON: []byte(`{"a":1}`)}, ResumeAfter: 1500 * time.Millisecond, Signal: "image", KeepLocks: true},
	} {
		got, err := b.Run(t.Context(), call(name, labParams{}))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; expected %+v", name, got, err, want)
		}
	}
	got, err := b.Run(t.Context(), call("suspend", labParams{Op: "hold"}))
	if err != nil || !got.Held || !got.KeepLocks || got.Signal != "" || got.ResumeAfter != 0 {
		t.Errorf("held: %+v, %v; expected that the worker decides when it continues", got, err)
	}
}

// A reason of megabytes is neither kept nor logged whole.
func TestReasonsAreBounded(t *testing.T) {
	b := open(t, &fleet{})
	for name, begins := range map[string]string{"fail": "no space again", "error": "gave up again"} {
		for _, n := range []int{1, 1 << 20} {
			out, _ := b.Run(t.Context(), call(name, labParams{N: n})) // an error of the second's, which its reason repeats
			if !strings.Contains(out.Reason, begins) || len(out.Reason) > 2*maxReason || (n > 1) != strings.Contains(out.Reason, " bytes)") {
				t.Errorf("%s: %d bytes: %.100q", name, len(out.Reason), out.Reason)
			}
		}
	}
	if n := len(b.log.String()); n > 4*maxReason {
		t.Errorf("%d bytes were logged", n)
	}
	if got := brief(strings.Repeat("s", maxReason+1)); strings.Contains(got, "s ") || len(got) > 40 {
		t.Errorf("a word was cut: %.100q", got)
	}
}

func TestEventsComeInOrder(t *testing.T) {
	b := open(t, &fleet{})
	c := call("events", labParams{N: 500})
	var got []Event
	c.Sink = func(e Event) { got = append(got, e) }
	b.must(t, c)
	if len(got) != 502 {
		t.Fatalf("%d events, expected 502", len(got))
	}
	for i := range 500 {
		if got[i].Log != fmt.Sprint(i) {
			t.Fatalf("event %d is %+v", i, got[i])
		}
	}
	if got[500].DiffTitle != "/etc/motd" || got[501].Log != "/x: bad" {
		t.Errorf("last events: %+v", got[500:])
	}
}

func TestNothingBegins(t *testing.T) {
	b := open(t, &fleet{})
	noHost := call("echo", labParams{})
	noHost.Host = core.Host{}
	big := call("echo", labParams{Text: strings.Repeat("x", 5<<20)})
	for name, c := range map[string]Call{"unknown type": {Type: "lab.nope", Host: core.Host{Name: "h"}}, "no host": noHost, "big": big} {
		out, err := b.Run(t.Context(), c)
		if !errors.Is(err, core.ErrInvalid) || out.Effects != EffectsNone || !out.Failed {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := b.Run(ctx, call("echo", labParams{})); err != nil || !out.Cancelled || out.Effects != EffectsNone {
		t.Errorf("cancelled before it began: %+v, %v", out, err)
	}
}

func TestProtocolBreaches(t *testing.T) {
	b := open(t, &fleet{})
	for name, want := range map[string]string{
		"none":       "without an outcome",
		"two":        "after the outcome",
		"error":      "handler gave up",
		"badoutputs": "its outputs: expected a mapping, found a list",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := b.Run(t.Context(), call(name, labParams{}))
			if !errors.Is(err, core.ErrPluginFailed) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, expected ErrPluginFailed with %q", err, want)
			}
			if !out.Failed || out.Effects != EffectsUnknown {
				t.Errorf("outcome %+v, expected effects unknown", out)
			}
			b.must(t, call("echo", labParams{}))
		})
	}
}

func TestCancelIsAskedFor(t *testing.T) {
	b := open(t, &fleet{})
	first := b.must(t, call("echo", labParams{}))["pid"]
	ctx, cancel := context.WithCancel(t.Context())
	c := call("wait", labParams{})
	c.Sink = func(Event) { cancel() } // it has begun
	out, err := b.Run(ctx, c)
	if err != nil || !out.Cancelled || out.Reason != "as asked" {
		t.Errorf("%+v, %v; expected the plugin's own outcome", out, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if out, err = b.Run(ctx, call("wait", labParams{})); err != nil || !out.TimedOut {
		t.Errorf("%+v, %v; expected timed out", out, err)
	}
	if again := b.must(t, call("echo", labParams{}))["pid"]; again != first {
		t.Errorf("process %v became %v: a call that ends when asked costs no process", first, again)
	}
}

func TestCancelThatComesBeforeTheCall(t *testing.T) {
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = time.Minute }))
	first := b.must(t, call("echo", labParams{}))["pid"]
	ctx, cancel := context.WithCancel(t.Context())
	c := call("wait", labParams{})
	c.Step, c.Sink = "overtaken", func(Event) { cancel() }
	if out, err := b.Run(ctx, c); err != nil || !out.Cancelled || out.Reason != "as asked" {
		t.Errorf("the plugin lost the first request to end: %+v, %v; expected its own outcome", out, err)
	}
	out, err := b.Run(ctx, c) // the process has room for it
	if err != nil || !out.Cancelled || out.Effects != EffectsNone || out.Reason != "cancelled before it began" {
		t.Errorf("cancelled before it began: %+v, %v; expected no effects", out, err)
	}
	if again := b.must(t, call("echo", labParams{}))["pid"]; again != first {
		t.Errorf("process %v became %v: a cancelled call costs no process", first, again)
	}
}

// heard is a plugin that only receives requests to end.
type heard struct {
	wiregrpc.PluginClient
	grace chan time.Duration
}

func (h heard) Signal(ctx context.Context, r *wire.SignalRequest, _ ...grpc.CallOption) (*wire.SignalResponse, error) {
	select {
	case h.grace <- time.Duration(r.GetGraceMs()) * time.Millisecond:
	case <-ctx.Done():
	}
	return &wire.SignalResponse{}, nil
}

// The process ends the grace after the first request: each request names the remaining time.
func TestRepeatedCancelNamesTheTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := heard{grace: make(chan time.Duration)}
		e := &ending{pool: &pool{timing: timing{grace: 5 * time.Second}}, process: &process{rpc: h}, lease: &lease{token: "x"}, over: make(chan struct{})}
		go e.ask()
		for i := range 4 {
			if got, want := <-h.grace, 5*time.Second-time.Duration(i)*askAgain; got != want {
				t.Errorf("request %d grants %v, expected %v", i+1, got, want)
			}
		}
		e.join()
	})
}

func TestIgnoredCancelCondemnsTheProcess(t *testing.T) {
	for _, how := range []string{"hangs", "frozen"} {
		t.Run(how, func(t *testing.T) {
			b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 300 * time.Millisecond }))
			first := b.must(t, call("echo", labParams{}))["pid"]
			old := b.pool().live[0]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := call("hang", labParams{})
			c.Sink = func(Event) { // it has begun
				if how == "frozen" {
					freeze(int(first.(float64)))
				}
				cancel()
			}
			out, err := b.Run(ctx, c)
			if !errors.Is(err, core.ErrPluginFailed) || !out.Cancelled || out.Effects != EffectsUnknown {
				t.Errorf("%+v, %v; expected ErrPluginFailed, cancelled with effects unknown", out, err)
			}
			if again := b.must(t, call("echo", labParams{}))["pid"]; again == first {
				t.Error("the condemned process took a new call")
			}
			select {
			case <-old.child.exited:
			case <-time.After(deadline):
				t.Error("the condemned process lives on")
			}
		})
	}
}

func TestOutcomeCountsThoughTheCallLingers(t *testing.T) {
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 200 * time.Millisecond }))
	b.must(t, call("linger", labParams{}))
	until(t, "condemned", b.log.has("condemned"))
}

func TestCondemnedProcessLetsOthersFinish(t *testing.T) {
	t.Parallel()
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 5 * time.Second })) // ample for the process to report that it runs, and for the other call to end
	long, stopLong := context.WithCancel(t.Context())
	defer stopLong()
	var wg sync.WaitGroup
	wg.Go(func() {
		out, err := b.Run(long, call("wait", labParams{}))
		if err != nil || !out.Cancelled || out.Reason != "as asked" {
			t.Errorf("other call of the condemned process: %+v, %v", out, err)
		}
	})
	until(t, "long call runs", func() bool {
		p := b.pool()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.live) == 1 && p.live[0].calls == 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	c := call("hang", labParams{})
	c.Sink = func(Event) { cancel() }
	if out, err := b.Run(ctx, c); !errors.Is(err, core.ErrPluginFailed) || !out.Cancelled {
		t.Errorf("%+v, %v", out, err)
	}
	stopLong()
	wg.Wait()
}

func TestManyCallsShareFewProcesses(t *testing.T) {
	b := open(t, &fleet{})
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			c := call("cmd", labParams{})
			c.Host.Name = fmt.Sprintf("h%d", i)
			out, err := b.Run(t.Context(), c)
			if err != nil || out.Outputs["stdout"] != c.Host.Name {
				t.Errorf("host %s: %+v, %v", c.Host.Name, out, err)
			}
		})
	}
	wg.Wait()
	p := b.pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.live) == 0 || len(p.live) > p.processes {
		t.Errorf("%d processes, expected 1 to %d", len(p.live), p.processes)
	}
}

func TestConcurrencyIsTheManifests(t *testing.T) {
	b := open(t, &fleet{}, concurrency(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	p := b.pool()
	for range p.processes {
		wg.Go(func() { _, _ = b.Run(ctx, call("wait", labParams{})) })
	}
	until(t, "all processes are busy", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		busy := 0
		for _, q := range p.live {
			busy += q.calls
		}
		return busy == p.processes
	})
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	out, err := b.Run(short, call("echo", labParams{}))
	if err != nil || !out.TimedOut || out.Effects != EffectsNone {
		t.Errorf("a call above the bound: %+v, %v; expected it to wait", out, err)
	}
	cancel()
	b.must(t, call("echo", labParams{}))
	wg.Wait()
}
