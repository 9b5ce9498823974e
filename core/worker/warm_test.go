package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// A worker that takes up a run's program has its plugins started before the first step ends: those
// of the selected steps, once each and in their order, but of no step that may never run.
func TestPluginsAreStartedWithTheProgram(t *testing.T) {
	inLab(t, func(l *lab) {
		var before [][]string
		l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
			l.plugins.mu.Lock()
			defer l.plugins.mu.Unlock()
			if len(l.plugins.calls) == 1 {
				before = slices.Clone(l.plugins.warmed)
			}
			return host.Outcome{}, nil
		}
		l.one(`
steps:
  - {name: a, uses: file, with: {path: /a}}
  - {name: b, uses: command, with: {run: x}, tags: [never]}
  - {name: c, uses: file, with: {path: /c}, notify: [h]}
  - name: g
    steps: [{name: d, uses: api, with: {url: u}}]
    rescue: [{name: r, uses: reboot}]
    always: [{name: z, uses: firmware.set}]
handlers:
  - {name: h, uses: command, with: {run: x}}
`, func(o *launch.Options, _ *queue.Run) { o.SkipTags = []string{"never"} })
		if want := [][]string{{"file", "api", "firmware.set"}}; fmt.Sprint(before) != fmt.Sprint(want) {
			t.Errorf("when the first step is called, %v are started; expected %v", before, want)
		}
		if len(l.plugins.warmed) != 1 {
			t.Errorf("started %d times for one program", len(l.plugins.warmed))
		}
	})
}
