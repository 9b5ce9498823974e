package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

type noParams struct{}

type (
	plain = sdk.Run[noParams, sdk.NoState]
	body  = func(context.Context, *plain) error
)

func job(fn body, opts ...sdk.Option) sdk.Def { return sdk.Job("test.job", fn, opts...) }

func TestOutcomeOfAFunction(t *testing.T) {
	type want struct {
		outcome, reason, effects string
		retryable, timedOut      bool
	}
	for name, tc := range map[string]struct {
		fn   body
		want want
	}{
		"nil":     {func(context.Context, *plain) error { return nil }, want{outcome: "unchanged"}},
		"changed": {func(_ context.Context, r *plain) error { r.Changed(); return nil }, want{outcome: "changed"}},
		"skipped": {func(_ context.Context, r *plain) error { return r.Skip("already there") }, want{outcome: "skipped", reason: "already there"}},
		"an error": {
			func(context.Context, *plain) error { return errors.New("no") },
			want{outcome: "failed", reason: "no", effects: "unknown"},
		},
		"a failure that says more": {
			func(context.Context, *plain) error { return sdk.Fail("busy").Retryable().Effects(sdk.EffectsPartial) },
			want{outcome: "failed", reason: "busy", effects: "partial", retryable: true},
		},
		"rolled back": {
			func(context.Context, *plain) error { return sdk.Fail("health check").RolledBack() },
			want{outcome: "rolled_back", reason: "health check", effects: "none"},
		},
		"lost": {
			func(context.Context, *plain) error { return sdk.Fail("never came back").Lost() },
			want{outcome: "lost", reason: "never came back", effects: "unknown"},
		},
		"a wrapped failure": {
			func(context.Context, *plain) error {
				return fmt.Errorf("stage: %w", sdk.Refuse("full"))
			},
			want{outcome: "failed", reason: "stage: full", effects: "none"},
		},
		"exit code": {
			func(ctx context.Context, r *plain) error { return r.Host().Run(ctx, "false").Err() },
			want{outcome: "failed", reason: "exit status 3: last line", effects: "unknown", retryable: true},
		},
		"a limit of the command": {
			func(ctx context.Context, r *plain) error {
				_, err := r.Host().Exec(ctx, sdk.Command{Run: "hang", Timeout: time.Millisecond})
				return err
			},
			want{outcome: "failed", reason: "context deadline exceeded", effects: "unknown", retryable: true, timedOut: true},
		},
		"an output that is no JSON": {
			func(_ context.Context, r *plain) error { r.Output("f", func() {}); return nil },
			want{outcome: "failed", reason: `output "f": a function cannot be written as JSON`, effects: "unknown"},
		},
		"a reason that is no UTF-8": {
			func(context.Context, *plain) error { return errors.New("bad \xff byte") },
			want{outcome: "failed", reason: "bad \uFFFD byte", effects: "unknown"},
		},
		"a goroutine that ends": {
			func(context.Context, *plain) error { runtime.Goexit(); return nil },
			want{outcome: "failed", reason: "the job type ended its goroutine without returning; effects on the host are unknown", effects: "unknown"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, job(tc.fn))
			kit.Host("r1").On("false", plugintest.Reply{Code: 3, Stderr: "first\nlast line\n"}).
				OnFunc("hang", func(ctx context.Context, _ plugintest.Call) plugintest.Reply {
					<-ctx.Done()
					return plugintest.Reply{Err: ctx.Err()}
				})
			got := kit.Run(none)
			if g := (want{got.Outcome, got.Reason, got.Effects, got.Retryable, got.TimedOut}); g != tc.want {
				t.Errorf("got  %+v\nwant %+v", g, tc.want)
			}
		})
	}
}

// none is an empty with:.
var none = sdk.With{}

func TestUnreachableHost(t *testing.T) {
	def := job(func(ctx context.Context, r *plain) error {
		if err := r.Host().Run(ctx, "first").Err(); err != nil {
			return err
		}
		return r.Host().Run(ctx, "second").Err()
	})
	for name, tc := range map[string]struct {
		failing string
		before  bool
		effects string
	}{
		"nothing was sent":          {"first", true, "none"},
		"cut while it ran":          {"first", false, "unknown"},
		"not sent, but another was": {"second", true, "unknown"},
		"cut in the second of two":  {"second", false, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, def)
			kit.Host("r1").
				On(tc.failing, plugintest.Reply{Err: plugintest.Unreachable("r1", tc.before)}).
				On("*", plugintest.Reply{})
			got := kit.Run(none)
			if got.Outcome != "unreachable" || got.Effects != tc.effects || !got.Retryable {
				t.Errorf("got %s, effects %s, retryable %v; want unreachable, %s, true", got.Outcome, got.Effects, got.Retryable, tc.effects)
			}
			if !strings.Contains(got.Reason, "connection refused") {
				t.Errorf("the reason %q does not show why", got.Reason)
			}
		})
	}
}

func TestCancelEndsOneJob(t *testing.T) {
	started := make(chan string, 2)
	release := make(chan struct{})
	kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
		return r.Host().Run(ctx, "wait").Err()
	}))
	kit.Host("r1").OnFunc("wait", func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		started <- c.Command
		select {
		case <-ctx.Done():
			return plugintest.Reply{Err: ctx.Err()}
		case <-release:
			return plugintest.Reply{}
		}
	})
	cancelled, neighbour := kit.Start(none), kit.Start(none)
	<-started
	<-started
	cancelled.Cancel()
	if got := cancelled.Wait(); got.Outcome != "cancelled" {
		t.Errorf("got %s (%s), want cancelled", got.Outcome, got.Reason)
	}
	close(release)
	if got := neighbour.Wait(); got.Outcome != "unchanged" {
		t.Errorf("the neighbour: got %s (%s), want unchanged", got.Outcome, got.Reason)
	}
}

func TestDeadlineIsATimeOut(t *testing.T) {
	kit := plugintest.New(t, job(func(ctx context.Context, _ *plain) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	got := kit.Run(none, plugintest.Deadline(5*time.Millisecond))
	if got.Outcome != "failed" || !got.TimedOut {
		t.Errorf("got %s, timed out %v; want failed, true", got.Outcome, got.TimedOut)
	}
}

func TestPanicEndsOneJobOnly(t *testing.T) {
	kit := plugintest.New(t, sdk.Job("test.panic", func(_ context.Context, r *sdk.Run[struct {
		Panic bool `json:"panic"`
	}, sdk.NoState],
	) error {
		if r.Params.Panic {
			panic("boom \xff")
		}
		return nil
	}))
	got := kit.Run(sdk.With{"panic": true})
	if got.Outcome != "failed" || got.Effects != "unknown" || !strings.Contains(got.Reason, "panicked: boom") {
		t.Errorf("got %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	if len(got.Logs) != 1 || got.Logs[0].Level != "ERROR" || !strings.Contains(got.Logs[0].Attrs["stack"], "run_test.go") {
		t.Errorf("expected the stack in one log record, found %+v", got.Logs)
	}
	if next := kit.Run(none); next.Outcome != "unchanged" {
		t.Errorf("the next job: got %s (%s)", next.Outcome, next.Reason)
	}
}

func TestNothingFollowsTheOutcome(t *testing.T) {
	late := make(chan *plain, 1)
	kit := plugintest.New(t, job(func(_ context.Context, r *plain) error { late <- r; return nil }))
	if got := kit.Run(none); got.Outcome != "unchanged" {
		t.Fatalf("got %s", got.Outcome)
	}
	r := <-late
	if _, err := r.Stdout().Write([]byte("too late")); err == nil {
		t.Error("output after the outcome was taken")
	}
	if err := r.Host().Run(context.Background(), "uptime").Err(); !errors.Is(err, sdk.ErrDenied) {
		t.Errorf("a host call after the outcome: got %v, want ErrDenied", err)
	}
}

func TestCheckMode(t *testing.T) {
	fn := func(ctx context.Context, r *plain) error {
		if err := r.Host().Query(ctx, "read").Err(); err != nil {
			return err
		}
		return r.Host().Run(ctx, "change").Err()
	}
	t.Run("a type without support is not called", func(t *testing.T) {
		kit := plugintest.New(t, job(fn))
		got := kit.Check(none)
		if got.Outcome != "failed" || got.Effects != "none" || len(kit.Host("r1").Calls()) > 0 {
			t.Errorf("got %s, effects %s, calls %v", got.Outcome, got.Effects, kit.Host("r1").Calls())
		}
	})
	t.Run("what is not read-only is refused", func(t *testing.T) {
		kit := plugintest.New(t, job(fn, sdk.Check()))
		kit.Host("r1").On("*", plugintest.Reply{})
		got := kit.Check(none)
		if got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, "check mode") {
			t.Errorf("got %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
		}
		if calls := kit.Host("r1").Calls(); len(calls) != 1 || calls[0].Command != "read" {
			t.Errorf("calls %v, want read alone", calls)
		}
	})
	t.Run("control: without check mode it is not", func(t *testing.T) {
		kit := plugintest.New(t, job(fn, sdk.Check()))
		kit.Host("r1").On("*", plugintest.Reply{})
		if got := kit.Run(none); got.Outcome != "unchanged" {
			t.Errorf("got %s (%s)", got.Outcome, got.Reason)
		}
	})
}

type phase struct {
	Old  string `json:"old"`
	Done []int  `json:"done"`
}

func TestStateSurvives(t *testing.T) {
	def := sdk.Job("test.state", func(ctx context.Context, r *sdk.Run[noParams, phase]) error {
		if !r.Resumed {
			if err := r.Checkpoint(ctx, "armed", phase{Old: "x", Done: []int{1}}); err != nil {
				return err
			}
			return sdk.Suspend(phase{Old: "x", Done: []int{1, 2}}, 90*time.Second,
				sdk.UntilSignal("booted"), sdk.KeepLocks(), sdk.Because("waits for the boot"))
		}
		r.Output("done", r.State.Done)
		return nil
	}, sdk.StateVersion(2, func(from int, state json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.Replace(string(state), `"was"`, `"old"`, 1)), nil
	}))
	kit := plugintest.New(t, def)
	suspended := kit.Run(none)
	if suspended.Outcome != "suspended" || suspended.ResumeAfter != 90*time.Second || suspended.Signal != "booted" ||
		!suspended.KeepLocks || suspended.Reason != "waits for the boot" || suspended.State.Version != 2 {
		t.Fatalf("got %+v", suspended)
	}
	if len(suspended.Checkpoints) != 1 || suspended.Checkpoints[0].Name != "armed" {
		t.Errorf("checkpoints %+v", suspended.Checkpoints)
	}
	resumed := kit.Run(none, plugintest.Resume(suspended.State))
	if want := map[string]any{"done": []any{1.0, 2.0}}; !reflect.DeepEqual(resumed.Outputs, want) {
		t.Errorf("resumed: got %v, want %v", resumed.Outputs, want)
	}
	migrated := kit.Run(none, plugintest.Resume(&plugintest.State{Version: 1, JSON: json.RawMessage(`{"was":"x","done":[7]}`)}))
	if want := map[string]any{"done": []any{7.0}}; !reflect.DeepEqual(migrated.Outputs, want) {
		t.Errorf("migrated: got %v, want %v", migrated.Outputs, want)
	}
	newer := kit.Run(none, plugintest.Resume(&plugintest.State{Version: 3, JSON: json.RawMessage(`{}`)}))
	if newer.Outcome != "failed" || !strings.Contains(newer.Reason, "this plugin knows 2") {
		t.Errorf("a newer state: got %s (%s)", newer.Outcome, newer.Reason)
	}
}

// The window holds a job only where the job allows a stop.
func TestHeldForTheWindow(t *testing.T) {
	def := sdk.Job("test.held", func(ctx context.Context, r *sdk.Run[noParams, phase]) error {
		if !r.Resumed {
			if err := r.MayStart(ctx, 0); err != nil { // nothing is saved yet
				return err
			}
			if err := r.Checkpoint(ctx, "staged", phase{Old: "staged"}); err != nil {
				return fmt.Errorf("nothing was done: %w", err)
			}
		}
		if err := r.Save(ctx, "armed", phase{Old: "armed"}); err != nil {
			return err
		}
		if err := r.MayStart(ctx, 20*time.Minute); err != nil {
			if !errors.Is(err, sdk.ErrWindowClosed) {
				t.Errorf("not an ErrWindowClosed: %v", err)
			}
			return err
		}
		r.Changed()
		return nil
	}, sdk.Check())
	kit := plugintest.New(t, def)
	for name, tc := range map[string]struct {
		window plugintest.Option
		state  string // of a held job; "-" is one that is not
	}{
		"no window":               {plugintest.Attempt(1), "-"},
		"open":                    {plugintest.Open(time.Hour), "-"},
		"too short for the flash": {plugintest.Open(19 * time.Minute), `{"old":"armed","done":null}`},
		"shut before all":         {plugintest.Shut(), ""},
		"shut at the checkpoint":  {plugintest.ShutAfter(1), `{"old":"staged","done":null}`},
		"shut after it":           {plugintest.ShutAfter(2), `{"old":"armed","done":null}`},
	} {
		got := kit.Run(none, tc.window)
		if tc.state == "-" {
			if got.Outcome != "changed" {
				t.Errorf("%s: %s (%s)", name, got.Outcome, got.Reason)
			}
			continue
		}
		if got.Outcome != "suspended" || !got.Held || got.Reason == "" || string(got.State.JSON) != tc.state {
			t.Errorf("%s: %+v with state %s", name, got, got.State.JSON)
		}
	}
	again := kit.Run(none, plugintest.Resume(&plugintest.State{JSON: []byte(`{"old":"armed"}`)}), plugintest.ShutAfter(0))
	if !again.Held || string(again.State.JSON) != `{"old":"armed","done":null}` {
		t.Errorf("held again: %+v", again)
	}
	if got := kit.Check(none, plugintest.ShutAfter(9)); got.Outcome != "changed" {
		t.Errorf("check mode: %s (%s)", got.Outcome, got.Reason)
	}
}

func TestStateThatIsTooLarge(t *testing.T) {
	kit := plugintest.New(t, sdk.Job("test.state", func(context.Context, *sdk.Run[noParams, phase]) error {
		return sdk.Suspend(phase{Old: strings.Repeat("x", 300<<10)}, 0)
	}))
	if got := kit.Run(none); got.Outcome != "failed" || !strings.Contains(got.Reason, "at most 262144 are kept") {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}

func TestReports(t *testing.T) {
	kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
		fmt.Fprint(r.Stdout(), strings.Repeat("o", 200<<10))
		fmt.Fprint(r.Stderr(), "err")
		r.Progress(0.5, "half")
		r.Log().With("a", 1).WithGroup("g").Warn("careful", "b", time.Second)
		r.ShowDiff("/etc/x", []byte("a\nb\n"), []byte("a\nc\n"))
		r.ShowDiff("/same", []byte("a"), []byte("a"))
		r.ShowDiff("/bin/x", []byte("a\x00"), []byte("b"))
		secret, err := r.Secret(ctx, "token")
		if err != nil {
			return err
		}
		r.Output("length", len(secret))
		_, err = r.SaveFile(ctx, "etc/x", strings.NewReader(strings.Repeat("s", 150<<10)))
		return err
	}))
	kit.Secret("token", "abc")
	got := kit.Run(none)
	if got.Outcome != "unchanged" || len(got.Stdout) != 200<<10 || got.Stderr != "err" || got.Outputs["length"] != 3.0 {
		t.Errorf("got %s (%s), %d bytes of output, %q, %v", got.Outcome, got.Reason, len(got.Stdout), got.Stderr, got.Outputs)
	}
	wantLog := plugintest.Log{Level: "WARN", Message: "careful", Attrs: map[string]string{"a": "1", "g.b": "1s"}}
	if len(got.Logs) != 1 || !reflect.DeepEqual(got.Logs[0], wantLog) {
		t.Errorf("logs %+v, want %+v", got.Logs, wantLog)
	}
	if len(got.Diffs) != 2 || !strings.Contains(got.Diffs[0].Text, "-b\n+c\n") || !strings.Contains(got.Diffs[1].Text, "binary, 2 bytes") {
		t.Errorf("diffs %+v", got.Diffs)
	}
	if saved, _ := kit.Saved("etc/x"); len(saved) != 150<<10 {
		t.Errorf("saved %d bytes", len(saved))
	}
}

func TestDrainTakesNothingNew(t *testing.T) {
	kit := plugintest.New(t, job(func(context.Context, *plain) error { return nil }))
	kit.Drain()
	if _, err := kit.Start(none).Try(); err == nil || !strings.Contains(err.Error(), "draining") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// Short never cuts its input: a file written from it would be cut as well.
func TestShortRefusesInputThatIsTooLarge(t *testing.T) {
	const most = 4 << 20
	for n, want := range map[int]error{most: nil, most + 1: sdk.ErrTooLarge} {
		got := -1
		kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
			err := r.Host().Short(ctx, sdk.Command{Run: "cat", Stdin: strings.NewReader(strings.Repeat("x", n))}).Err()
			if !errors.Is(err, want) {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			return nil
		}))
		kit.Host("r1").OnFunc("cat", func(_ context.Context, c plugintest.Call) plugintest.Reply {
			got = len(c.Stdin)
			return plugintest.Reply{}
		})
		if end := kit.Run(none); end.Outcome != "unchanged" || want == nil && got != n || want != nil && got >= 0 {
			t.Errorf("%d bytes: %s (%s), and the host got %d", n, end.Outcome, end.Reason, got)
		}
	}
}

func TestFilesAndStreams(t *testing.T) {
	content := strings.Repeat("0123456789", 20_000)
	kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
		h := r.Host()
		if _, err := h.Put(ctx, sdk.PutFile{Path: "/a", Mode: 0o600, Backup: ".old"}, strings.NewReader(content)); err != nil {
			return err
		}
		var back strings.Builder
		info, err := h.Get(ctx, "/a", 0, &back)
		if err != nil || back.String() != content || info.Size != int64(len(content)) || info.Mode != 0o600 {
			return fmt.Errorf("get: %d bytes, %+v, %w", back.Len(), info, err)
		}
		if _, err := h.Get(ctx, "/a", 10, io.Discard); !errors.Is(err, sdk.ErrTooLarge) {
			return fmt.Errorf("over the bound: %w", err)
		}
		if _, err := h.Get(ctx, "/none", 0, io.Discard); !errors.Is(err, sdk.ErrNotFound) {
			return fmt.Errorf("a missing file: %w", err)
		}
		var out strings.Builder
		exit, err := h.Exec(ctx, sdk.Command{Run: "cat", Stdin: strings.NewReader(content), Stdout: &out})
		if err != nil || exit.Code != 0 || out.String() != content {
			return fmt.Errorf("cat: %d bytes, %+v, %w", out.Len(), exit, err)
		}
		_, err = h.PutArtifact(ctx, sdk.PutFile{Path: "/b"}, "image")
		return err
	}))
	host := kit.Artifact("image", "bits").Host("r1").Put("/a", plugintest.File{Content: "old", Owner: "root"}).
		OnFunc("cat", func(_ context.Context, c plugintest.Call) plugintest.Reply { return plugintest.Reply{Stdout: c.Stdin} })
	if got := kit.Run(none); got.Outcome != "unchanged" {
		t.Fatalf("got %s (%s)", got.Outcome, got.Reason)
	}
	for path, want := range map[string]string{"/a": content, "/a.old": "old", "/b": "bits"} {
		if f, _ := host.File(path); f.Content != want {
			t.Errorf("%s holds %d bytes, want %d", path, len(f.Content), len(want))
		}
	}
}

// A source that breaks off must never look like the end of the file.
func TestPutOfABrokenSourceWritesNothing(t *testing.T) {
	for _, cause := range []error{io.ErrUnexpectedEOF, errors.New("disk")} {
		kit := plugintest.New(t, job(func(ctx context.Context, r *plain) error {
			_, err := r.Host().Put(ctx, sdk.PutFile{Path: "/a"}, io.MultiReader(strings.NewReader("half"), broken{cause}))
			return err
		}))
		if got := kit.Run(none); got.Outcome != "failed" {
			t.Errorf("%v: got %s (%s)", cause, got.Outcome, got.Reason)
		}
		if _, ok := kit.Host("r1").File("/a"); ok {
			t.Errorf("%v: half a file was written", cause)
		}
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
