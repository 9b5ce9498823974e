//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// seesCut has hosts write down which command of cut.yaml they saw, in the folder of the cut.
func seesCut(_ context.Context, c fleet.Command) (code int, handled bool) {
	line, ok := strings.CutPrefix(strings.TrimSpace(c.Script), "cut-")
	if !ok {
		return 0, false
	}
	name, dir, _ := strings.Cut(line, " ")
	f, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, c.Host, name)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return 1, true
	}
	return 0, true
}

// handlersBefore makes the files of a user of turnus run whom an earlier version left two pending
// handlers, one of them of the playbook that runs.
func (l *lab) handlersBefore() {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Join(l.dir, "state", "handlers"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	last := l.fleet.Hosts()[2].Name
	l.file("state/handlers/before.json", fmt.Sprintf(`{"pending": [
		{"playbook": "cut", "host": %q, "handler": "follow", "run": "before", "since": "2024-01-02T03:04:05Z"},
		{"playbook": "other", "host": %[1]q, "handler": "restart", "run": "before", "since": "2024-01-02T03:04:05Z"}]}`, last))
	l.file("cut.yaml", fmt.Sprintf(`playbook: cut
targets: true
params: {dir: {type: string}}
steps:
  - {name: change, when: host.vars.changes && host.name != %q, uses: command, notify: [follow], with: {run: "cut-change ${{ params.dir }}"}}
  - {name: second, uses: command, with: {run: "cut-second ${{ params.dir }}"}}
handlers:
  - {name: follow, uses: command, with: {run: "cut-follow ${{ params.dir }}"}}
`, last))
	l.changing(true)
}

// changing writes the inventory: a run changes all hosts except the last one, or no host.
func (l *lab) changing(changes bool) {
	l.t.Helper()
	text := "hosts:\n"
	for _, h := range l.fleet.Hosts() {
		text += l.entry(h, fmt.Sprintf(", vars: {changes: %t}", changes))
	}
	l.file("hosts.yaml", text)
}

// unchanging has the next run find nothing to change: a handler is called only if it is pending.
func (l *lab) unchanging() { l.changing(false) }

func (l *lab) runsOnce() []string {
	return []string{"run", "-i", filepath.Join(l.dir, "hosts.yaml"), "-f", "1", "--cpu-limit", "0", "--memory-limit", "0", "-e", "dir=" + l.dir, filepath.Join(l.dir, "cut.yaml")}
}

// recordedOnce returns the pending handlers and the files of the record. It fails the test unless
// each run has ended, and hosts saw the handler after the change.
func (l *lab) recordedOnce() (lines []string) {
	l.t.Helper()
	var pending []api.PendingHandler
	l.local(&pending, "hosts", "handlers", "ls")
	for _, h := range pending {
		lines = append(lines, fmt.Sprintf("pending: %s of %s on %s, from %s", h.Handler, h.Playbook, h.Host, h.Run))
	}
	var runs []api.Run
	l.local(&runs, "runs", "ls")
	slices.SortFunc(runs, func(a, b api.Run) int { return a.Created.Compare(b.Created) })
	for i, r := range runs {
		last, ended := i == len(runs)-1, 0
		for _, n := range r.Outcomes {
			ended += n
		}
		if over(r) && ended == r.Total && (r.Phase == api.Finished || !last && r.Phase == api.Cancelled && r.Outcomes[core.Failed] == 0) {
			continue
		}
		l.t.Errorf("run %d of %d is %s, with %v of %d", i+1, len(runs), r.Phase, r.Outcomes, r.Total)
	}
	for _, folder := range []string{"state/handlers", "state/record/running"} {
		files, err := os.ReadDir(filepath.Join(l.dir, folder))
		if err != nil {
			l.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%d files in %s", len(files), folder))
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "seen"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	saw := strings.Fields(string(text)) // host and name, in turn
	for i, h := range l.fleet.Hosts() {
		var seen []string
		for at := 0; at+1 < len(saw); at += 2 {
			if saw[at] == h.Name {
				seen = append(seen, saw[at+1])
			}
		}
		change, calls := slices.Index(seen, "change"), 0
		for _, name := range seen {
			if name == "follow" {
				calls++
			}
		}
		if owed := change >= 0 || i == 2; calls > 2 || owed && !slices.Contains(seen[change+1:], "follow") {
			l.t.Errorf("%s saw %v: its handler is to follow the change, or what was pending", h.Name, seen)
		}
	}
	return lines
}
