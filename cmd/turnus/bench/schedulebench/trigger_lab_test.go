//go:build linux && labs

package schedulebench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// Three processes, two of which are killed (SIGKILL) while they trigger schedules that are due at
// one instant. Every run is launched, and every schedule triggers exactly once.
func TestLabServersKilledAtTheInstant(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func() string{
		"sqlite":   func() string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") },
		"postgres": func() string { return servers.StartPostgres(t).Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := url()
			l, err := ledger.Open(t.Context(), at, ledger.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			const due = 2000
			v, err := Trigger(t.Context(), Params{
				Ledger: l, Due: due, Servers: 3, Kill: 2, Soon: true, Timeout: time.Minute, Report: func(text string) { t.Log(text) },
				Server: func(int) *exec.Cmd {
					cmd := exec.CommandContext(t.Context(), self)
					cmd.Env = append(os.Environ(), serverEnv+"="+at)
					cmd.Stderr = t.Output()
					return cmd
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", v)
			if v.Launched != due || v.Confirmed != due || v.Wrong != 0 || v.Repeated != 0 {
				t.Errorf("%d of %d launched, %d confirmed once, %d of unknown runs, %d twice", v.Launched, due, v.Confirmed, v.Wrong, v.Repeated)
			}
		})
	}
}
