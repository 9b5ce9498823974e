package plugintest_test

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

type bootState struct {
	Phase string `json:"phase,omitempty"`
	Boot  string `json:"boot,omitempty"`
	Soak  int    `json:"soak,omitempty"`
}

type bootRun = sdk.Run[params, bootState]

// rebooter has an irreversible step. A careless one does not check whether it has happened; a
// forgetful one keeps its intent to itself.
func rebooter(careless, forgetful bool) sdk.Def {
	boot := func(ctx context.Context, r *bootRun) (string, error) {
		result := r.Host().Query(ctx, "boot_id")
		return result.Stdout, result.Err()
	}
	phase := func(name string, run func(context.Context, *bootRun) error) sdk.Phase[params, bootState] {
		return sdk.Phase[params, bootState]{Name: name, Run: run}
	}
	return sdk.Job("test.boot", func(ctx context.Context, r *bootRun) error {
		if err := r.Phases(ctx, &r.State.Phase,
			phase("intend", func(ctx context.Context, r *bootRun) (err error) {
				if !forgetful {
					r.State.Boot, err = boot(ctx, r)
				}
				return err
			}),
			phase("reboot", func(ctx context.Context, r *bootRun) error {
				now, err := boot(ctx, r)
				if err != nil || !careless && !forgetful && now != r.State.Boot {
					return err
				}
				return r.Host().Short(ctx, sdk.Command{Run: "reboot"}).Err()
			}),
			phase("soak", func(_ context.Context, r *bootRun) error {
				if r.State.Soak++; r.State.Soak <= 2 {
					return r.Wait(time.Hour)
				}
				return nil
			})); err != nil {
			return err
		}
		r.Changed()
		return nil
	}, sdk.OnLost("retry"))
}

// rebooted is the scene of a rebooter. broken is set if the host was rebooted twice.
func rebooted(broken *atomic.Bool, careless, forgetful bool) func(*testing.T) plugintest.Scene {
	return func(t *testing.T) plugintest.Scene {
		t.Helper()
		var boots atomic.Int64
		kit := plugintest.New(t, rebooter(careless, forgetful)).FakeTime()
		kit.Host("r1").
			OnFunc("boot_id", func(context.Context, plugintest.Call) plugintest.Reply {
				return plugintest.Reply{Stdout: strings.Repeat("x", int(boots.Load()))}
			}).
			OnFunc("reboot", func(context.Context, plugintest.Call) plugintest.Reply {
				boots.Add(1)
				return plugintest.Reply{}
			})
		begun := time.Now()
		return plugintest.Scene{Kit: kit, Params: params{}, Check: func(t *testing.T, end *plugintest.Result) {
			if boots.Load() != 1 {
				broken.Store(true)
				if !careless && !forgetful {
					t.Errorf("the host was rebooted %d times", boots.Load())
				}
			}
			if soaked := time.Since(begun); soaked != 2*time.Hour || end.Outcome != "changed" {
				t.Errorf("%s after a soak of %v, expected 2h", end.Outcome, soaked)
			}
		}}
	}
}

func TestKillAtEach(t *testing.T) {
	var broken atomic.Bool
	t.Run("checkpoint", func(t *testing.T) {
		plugintest.KillAtEachCheckpoint(t, rebooted(&broken, false, false), synctest.Test)
	})
	t.Run("call", func(t *testing.T) { plugintest.KillAtEachCall(t, rebooted(&broken, false, false), synctest.Test) })
	if broken.Load() {
		t.Error("a sound job type was found to be broken")
	}
	for name, scene := range map[string]func(*testing.T) plugintest.Scene{
		"careless (control)": rebooted(&broken, true, false), "forgetful (control)": rebooted(&broken, false, true),
	} {
		for kind, kill := range map[string]func(*testing.T, func(*testing.T) plugintest.Scene, ...func(*testing.T, func(*testing.T))){
			" at checkpoints": plugintest.KillAtEachCheckpoint, " at calls": plugintest.KillAtEachCall,
		} {
			broken.Store(false)
			t.Run(name+kind, func(t *testing.T) { kill(t, scene, synctest.Test) })
			if !broken.Load() {
				t.Errorf("%s%s: nobody found that it reboots twice", name, kind)
			}
		}
	}
}

func TestResumeUntilDoneTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := plugintest.New(t, sdk.Job("test.wait", func(ctx context.Context, r *sdk.Run[params, bootState]) error {
			if err := sdk.Sleep(ctx, 10*time.Minute); err != nil { // longer than a real test may take
				return err
			}
			if r.State.Soak++; r.State.Soak < 4 {
				return r.Wait(24*time.Hour, sdk.UntilSignal("go"))
			}
			return nil
		})).FakeTime()
		begun := time.Now()
		calls := kit.ResumeUntilDone(params{})
		if len(calls) != 4 || calls[3].Outcome != "unchanged" || calls[0].Signal != "go" || time.Since(begun) != 72*time.Hour+40*time.Minute {
			t.Errorf("%d calls in %v, the last %+v", len(calls), time.Since(begun), calls[len(calls)-1])
		}
	})
}

// A session is recorded on this machine, and played again without it.
func TestGoldenSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "run.session")
	lines := []string{"echo one; echo two >&2; exit 3", "printf 'no newline'", "cat /proc/uptime # id-1234"}
	play := func(t *testing.T, last string) (out []string) {
		t.Helper()
		k := kit(t)
		k.Host("r1").Golden(t, file, plugintest.Shell, regexp.MustCompile(`id-[0-9]+`))
		for _, line := range append(lines[:2:2], last) {
			got := k.Run(params{Run: line})
			out = append(out, got.Outcome+got.Reason+got.Stdout+got.Stderr)
		}
		return out
	}
	var first []string
	t.Run("record", func(t *testing.T) {
		t.Setenv(plugintest.RecordEnv, "1")
		first = play(t, lines[2])
	})
	t.Run("replay", func(t *testing.T) {
		for range 2 {
			if got := play(t, "cat /proc/uptime # id-9"); !slices.Equal(got, first) {
				t.Errorf("got  %q\nwant %q", got, first)
			}
		}
	})
}
