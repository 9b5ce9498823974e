//go:build linux && labs

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// A handler that a run left pending is run by whatever comes next through the service: a retry, a
// schedule's next run, and the next run after the queue was lost (red with forgotten calling
// Unqueue alone). The host notes each run of a handler; the step that notifies it changes nothing
// by then.
func TestLabFaultW1ThePendingHandlerRunsNextThroughTheService(t *testing.T) {
	p := project{hosts: []string{"retried", "scheduled", "lost"}, entry: func(string) string { return "" }, windows: "window_sets: {}\n", playbooks: map[string]string{}}
	for _, name := range p.hosts {
		gate := "test -e /mnt/open"
		if name == "lost" {
			gate = "touch /mnt/waits; until test -e /mnt/open; do sleep 0.1; done"
		}
		p.playbooks[name] = fmt.Sprintf(`playbook: %s
targets: host.name == '%[1]s'
window: none
schedule: {cron: "0 3 1 1 *", timezone: UTC}
steps:
  - {name: conf, uses: file, with: {path: /mnt/conf, content: a}, notify: [web]}
  - {name: gate, uses: command, with: {run: "%s"}}
handlers:
  - {name: web, uses: command, with: {run: "echo handled ${{ run.id }} >>/mnt/log"}}
`, name, gate)
	}
	c := newCluster(t, shape{ledger: "sqlite", servers: 1, workers: 1}, p)
	ask := c.client(0, c.token, true)
	defer ask.Close()
	over := func(id string) api.Run {
		t.Helper()
		var run api.Run
		until(t, "run "+id+" to end", func() (ended bool) {
			var err error
			run, err = ask.Run(t.Context(), id)
			return err == nil && !run.Ended.IsZero()
		})
		return run
	}
	pending := func(name string) (n int) {
		t.Helper()
		list, err := ask.Handlers(t.Context(), client.HandlerFilter{Playbook: name}, client.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	for i, name := range p.hosts {
		h := c.hosts[i]
		t.Run(name, func(t *testing.T) {
			var first api.Run
			var err error
			until(t, "the server to have definitions", func() bool {
				first, err = ask.CreateRun(t.Context(), name, api.NewRun{Playbook: name})
				return !errors.Is(err, core.ErrUnavailable)
			})
			if err != nil {
				t.Fatal(err)
			}
			open := func() {
				if err := os.WriteFile(filepath.Join(h.dir, "open"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if name == "lost" {
				until(t, "the step behind the change", func() bool { _, err := os.Stat(filepath.Join(h.dir, "waits")); return err == nil })
				admin := c.admin()
				defer func() { _ = admin.Close() }()
				if err := admin.FlushAll(context.Background()).Err(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(c.allLogs(), "\n"))
					}
				}()
				until(t, "the handler of the lost queue's job to be pending", func() bool { return pending(name) == 1 })
				if _, err := ask.CancelRun(t.Context(), first.ID, "the host was looked at"); err != nil {
					t.Fatal(err)
				}
				until(t, "the worker to give up the job of the lost queue", func() bool { return strings.Contains(strings.Join(c.allLogs(), ""), "session_lost") })
				open()
			}
			if ended := over(first.ID); name == "lost" && ended.Outcomes[core.Lost] != 1 {
				t.Errorf("its job ended as %v, expected lost", ended.Outcomes)
			}
			if n := pending(name); n != 1 || strings.Contains(h.log(t), "handled") {
				t.Fatalf("%d handlers are pending, expected 1; the host noted %q", n, h.log(t))
			}
			open()
			var next string
			switch name {
			case "retried":
				run, failed := ask.RetryRun(t.Context(), first.ID, name+"-again", api.Retry{})
				next, err = run.ID, failed
			case "scheduled":
				launched, failed := ask.TriggerSchedule(t.Context(), name, name+"-again", "")
				next, err = launched.Run, failed
			default:
				run, failed := ask.CreateRun(t.Context(), name+"-again", api.NewRun{Playbook: name})
				next, err = run.ID, failed
			}
			if err != nil {
				t.Fatal(err)
			}
			over(next)
			if got, want := h.log(t), "handled "+next+"\n"; got != want || pending(name) != 0 {
				t.Errorf("the host noted %q and %d are pending, expected %q and none", got, pending(name), want)
			}
		})
	}
}
