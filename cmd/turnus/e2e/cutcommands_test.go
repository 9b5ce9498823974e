//go:build linux && labs

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/transport/fleet"
)

// cutCommand is a turnus command that changes a ledger. It is killed at a commit, and called again.
type cutCommand struct {
	name      string
	functions []string            // of the ledger; their transactions are this command's
	from      func(*lab)          // makes of a service that has ended what each call begins with
	args      func(*lab) []string // its arguments
	finished  func(*lab) bool     // of a service, which is killed then; nil: the command ends
	between   func(*lab)          // changes the folder after the kill; nil: it stays
	left      func(*lab) []string // what there is at the end, in lines
}

// cutCommands are the commands whose transactions no service of TestLabUpKilledAtEachCommit makes.
func cutCommands() []cutCommand {
	return []cutCommand{
		{
			name: "up", functions: []string{"(*Ledger).Prune", "(*Ledger).prunable", "(*Ledger).removeRows", "(*Ledger).PostponeSchedule"},
			from: (*lab).aged, args: (*lab).retains, finished: (*lab).retained, between: (*lab).dutyEnds, left: (*lab).stored,
		},
		{
			name: "re-encrypt", functions: []string{"(*Ledger).reencryptColumn", "(*Ledger).reencryptObject", "(*Ledger).removeReplaced"},
			from: (*lab).plain, args: (*lab).reencrypts, left: (*lab).encrypted,
		},
		{
			name: "doctor", functions: []string{"(*Ledger).Writable", "(*Ledger).checkRun"},
			from: (*lab).unsound, args: (*lab).repairs, left: (*lab).sound,
		},
		{
			name: "run", functions: []string{"(*Ledger).ImportHandlers", "(*Ledger).ReplaceHandlers"},
			from: (*lab).handlersBefore, args: (*lab).runsOnce, between: (*lab).unchanging, left: (*lab).recordedOnce,
		},
	}
}

// byCommands are the functions of the ledger whose transactions the commands make.
func byCommands() (all []string) {
	for _, c := range cutCommands() {
		all = append(all, c.functions...)
	}
	return all
}

// copied returns a lab over a copy of this one's folder.
func (l *lab) copied(t *testing.T, dir string) *lab {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, l.dir, dir)
	return &lab{t: t, dir: dir, fleet: l.fleet, env: l.env, trace: l.trace}
}

// call calls the command, as one that dies at a point if there is one.
func (c cutCommand) call(l *lab, at *point) {
	l.t.Helper()
	env := l.env
	if at != nil {
		l.cutAt(*at)
	}
	p := l.start(c.args(l)...)
	l.under, l.env = nil, env
	if c.finished != nil {
		until(l.t, "the service to be killed, or to finish", func() bool { return !p.running() || c.finished(l) })
		p.signal(syscall.SIGKILL)
	}
	if code := p.code(); code != 0 && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		l.t.Fatalf("exit code %d: %s", code, p.err)
	}
}

// points are where the command dies: behind each of its commits, and also before those that record
// what has happened outside of the ledger. A service makes other commits also; these are not cut.
func (c cutCommand) points(commits []string) (all []point) {
	had := map[string]int{}
	for _, name := range commits {
		had[name]++
		if c.finished != nil && !slices.Contains(c.functions, name) {
			continue
		}
		if slices.Contains(recordsOutside, name) {
			all = append(all, point{at: had[name], in: name})
		}
		all = append(all, point{at: had[name], in: name, after: true})
	}
	return all
}

// A command that is killed at any of its commits, and called again, leaves what a command leaves
// that was not killed. The commits of a service that removes expired data, and postpones a schedule
// that it cannot read, are cut in the same way.
func TestLabCommandsKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 3, Handle: seesCut}).traced()
	kept := l.keptService(t)
	for _, c := range cutCommands() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			dir := filepath.Join(l.dir, c.name)
			from := kept.copied(t, filepath.Join(dir, "from"))
			c.from(from)
			whole := from.copied(t, filepath.Join(dir, "whole"))
			c.call(whole, &point{})
			commits, want := whole.commits(), c.left(whole)
			for _, name := range c.functions {
				if !slices.Contains(commits, name) {
					t.Errorf("it makes no transaction of %s: %v", name, commits)
				}
			}
			points := c.points(commits)
			t.Cleanup(func() {
				t.Logf("%d cuts at %d commits, in %v", len(points), len(commits), time.Since(began).Round(time.Second))
			})
			for _, at := range points {
				t.Run(at.String(), func(t *testing.T) {
					t.Parallel()
					l := from.copied(t, filepath.Join(dir, at.folder()))
					c.call(l, &at)
					made := slices.DeleteFunc(l.commits(), func(name string) bool { return name != at.in })
					if own := slices.Contains(c.functions, at.in); len(made) < at.at && (own || at.at == 1) { // how often runs are claimed differs
						t.Fatalf("it has ended before that: %v", l.commits())
					}
					if c.between != nil {
						c.between(l)
					}
					c.call(l, nil)
					got := c.left(l)
					for _, line := range got {
						if !slices.Contains(want, line) {
							t.Errorf("there is: %s", line)
						}
					}
					for _, line := range want {
						if !slices.Contains(got, line) {
							t.Errorf("there is no: %s", line)
						}
					}
					if len(got) != len(want) {
						t.Errorf("%d lines, expected %d", len(got), len(want))
					}
				})
			}
		})
	}
}
