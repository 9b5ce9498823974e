//go:build linux

package sdk_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// A guarded command runs twice, and an edit ends as unchanged, if a file in a folder that the login
// may not enter counts as absent. Each step fails, after one round trip, and names the folder.
// Controls: root sees the file, and a file that is not there is absent for both.
func TestAHiddenFileIsNotAbsent(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		able(t, "a folder of another user", syscall.EPERM)
	}
	base, err := os.MkdirTemp("/tmp", "hidden") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	closed := base + "/closed"
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(closed, 0o700), os.WriteFile(closed+"/f", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	asNobody := plugintest.ShellAs(65534, 65534)
	// Each reports by its outcome whether the path is there.
	said := func(r *sdk.Run[editParams, sdk.NoState], there bool, err error) error {
		if err == nil && there {
			r.Changed()
		}
		return err
	}
	for name, def := range map[string]sdk.Def{
		"creates": sdk.Job("test.creates", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
			reason, err := sdk.Guard{Creates: r.Params.Path}.Satisfied(ctx, r.Host())
			return said(r, reason != "", err)
		}),
		"removes": sdk.Job("test.removes", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
			reason, err := sdk.Guard{Removes: r.Params.Path}.Satisfied(ctx, r.Host())
			return said(r, reason == "", err)
		}),
		"text": sdk.Job("test.text", func(ctx context.Context, r *sdk.Run[editParams, sdk.NoState]) error {
			was, err := r.Host().ReadText(ctx, r.Params.Path)
			return said(r, was.Exists, err)
		}),
	} {
		for _, c := range []struct {
			as            plugintest.Handler
			path, outcome string
		}{
			{asNobody, closed + "/f", "failed"},
			{asNobody, closed + "/nosuch/f", "failed"},
			{asNobody, base + "/nosuch", "unchanged"},
			{plugintest.Shell, closed + "/f", "changed"},
			{plugintest.Shell, closed + "/nosuch/f", "unchanged"},
		} {
			kit := plugintest.New(t, def)
			host := kit.Host("r1").Handle(c.as)
			got := kit.Run(sdk.With{"path": c.path})
			if got.Outcome != c.outcome || len(host.Calls()) != 1 || c.outcome == "failed" && !strings.Contains(got.Reason, closed+" cannot be entered by this login") {
				t.Errorf("%s of %s: %s (%s) after %d calls, expected %s", name, c.path, got.Outcome, got.Reason, len(host.Calls()), c.outcome)
			}
		}
	}
}
