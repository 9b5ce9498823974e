package localrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/playbooks"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == node.ServeVerb { // as the process of a built-in plugin
		os.Exit(node.ServePlugin(os.Args[2], os.Args[3:], os.Stderr))
	}
	os.Exit(m.Run())
}

func quiet(t *testing.T) (*console.Console, *strings.Builder) {
	t.Helper()
	var said strings.Builder
	return console.New(strings.NewReader(""), &strings.Builder{}, &said), &said
}

func openTest(t *testing.T) *Record {
	t.Helper()
	con, _ := quiet(t)
	r, err := OpenRecord(t.Context(), con)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A record that breaks in the middle of a run ends neither the run nor what is known of it.
func TestARunGoesOnWithoutItsRecord(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	const hosts = 6
	fl, err := fleet.Start(t.Context(), fleet.Config{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fl.Close() }()
	con, said := quiet(t)
	f := node.Flags{Concurrency: 4, Login: node.UserLoginFlags{Keys: []string{fl.IdentityFile()}, Agent: "none"}, SSH: node.SSHFlags{ConnectTimeout: 30 * time.Second, Warnings: con.Warnings()}}
	n, err := f.Reach(t.Context(), node.ByUserLogins, func() *inventory.Inventory { return nil }, con.Logger(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Stop() }()
	opts := node.PlaybookOptions(n.Plugins, nil)
	playbook, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: \"true\"\nstrategy: {waves: [1, 3, 100%], pause_between: approve}\nsteps: [{uses: command, with: {run: hostname}}]\n"), opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := launch.Prepare(playbook, fl.Hosts(), launch.Options{Types: opts.Types})
	if err != nil {
		t.Fatal(err)
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	c := NewConductor(con, q)
	c.record = openTest(t)
	file, asked := c.record, map[int]int{}
	c.approve = func(_ context.Context, _ *launch.Launch, wave int) error {
		if asked[wave]++; wave == 1 && asked[wave] == 1 {
			file.breaks(errors.New("no space left"))
		}
		return nil
	}
	p := c.Add(l)
	if err := n.Work(&f, node.WorkOptions{Queue: q, Events: c.WorkerEvent}, con.Logger(false)); err != nil {
		t.Fatal(err)
	}
	end, err := c.Begin(t.Context(), opts.Types)
	if err != nil {
		t.Fatal(err)
	}
	report, err := c.Drive(t.Context(), p)
	if err := errors.Join(err, end()); err != nil {
		t.Fatal(err)
	}
	if report.Outcomes[core.Changed] != hosts || report.Exit != 0 || !report.Unrecorded || fl.Stats().Commands != hosts {
		t.Errorf("%v, exit %d, unrecorded %v, %d commands", report.Outcomes, report.Exit, report.Unrecorded, fl.Stats().Commands)
	}
	if n := strings.Count(said.String(), "the run is not recorded: no space left"); n != 1 {
		t.Errorf("it is reported %d times: %s", n, said)
	}
	after := openTest(t)
	defer func() { _ = after.Close(t.Context()) }()
	run, err := after.Ledger.Run(t.Context(), ledger.AllTenants(), l.Run.ID)
	if err != nil || !run.Complete() || run.Reason != interrupted {
		t.Errorf("the record has %+v, %v", run, err)
	}
}

func addRun(t *testing.T, r *Record, id string, created time.Time, over bool) {
	t.Helper()
	ctx := t.Context()
	_, _, err := r.Ledger.Accept(ctx, ledger.NewRun{ID: id, Playbook: "p", LaunchedBy: "me", Created: created, Jobs: []ledger.JobHost{{Host: "h"}}})
	if err == nil && over {
		_, err = r.Ledger.Cancel(ctx, ledger.AllTenants(), "", id, "over")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func runIDs(t *testing.T, r *Record) (list string) {
	t.Helper()
	runs, _, err := r.Ledger.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		list += fmt.Sprintf("%s:%s ", run.ID, run.Phase)
	}
	return list
}

// A run that a process holds is that process's; the next process that opens the record ends the run
// of a process that was killed. No file of that process stays, also of a run that had ended.
func TestOnlyTheRunsOfTheDeadAreEnded(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	living := openTest(t)
	if err := errors.Join(living.hold("held"), living.hold("over")); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	addRun(t, living, "held", now, false)
	addRun(t, living, "over", now.Add(-time.Minute), true)
	addRun(t, living, "orphan", now.Add(-time.Second), false)
	other := openTest(t)
	if got := runIDs(t, other); got != "held:queued orphan:cancelled over:cancelled " {
		t.Errorf("beside: %s", got)
	}
	if err := errors.Join(living.Ledger.Close(), living.letGo()); err != nil { // as its process dies
		t.Fatal(err)
	}
	third := openTest(t)
	if got := runIDs(t, third); got != "held:cancelled orphan:cancelled over:cancelled " {
		t.Errorf("after: %s", got)
	}
	if err := errors.Join(other.Close(t.Context()), third.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TURNUS_STATE"), "record", runningFolder, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The file of a run shows until when its process may have lived.
func TestTheFileOfARunIsAHeartbeat(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	r := openTest(t)
	for _, id := range []string{"long", "just", "older"} {
		if err := r.hold(id); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	died := now.Add(-time.Hour)
	r.touch(died)
	if lives, _, err := r.driven("long"); !lives || err != nil {
		t.Errorf("a run of a live process: %v, %v", lives, err)
	}
	if err := errors.Join(r.letGo(), os.Truncate(r.runFile("older"), 0), os.Chtimes(r.runFile("older"), died, died), os.Chtimes(r.runFile("just"), now, now)); err != nil {
		t.Fatal(err)
	}
	for id, known := range map[string]bool{"long": true, "just": false, "older": false, "none": false} {
		lives, until, err := r.driven(id)
		if want := died.Add(beatLate); lives || err != nil || known && !until.Equal(want) || !known && until.Before(now) {
			t.Errorf("%s: %v, until %v, %v", id, lives, until, err)
		}
	}
	if err := r.Ledger.Close(); err != nil {
		t.Error(err)
	}
}

// Old runs go, except the newest one.
func TestOldRunsArePruned(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	r := openTest(t)
	long := time.Now().Add(-keepFor)
	addRun(t, r, "ancient", long.Add(-time.Hour), true)
	addRun(t, r, "old", long.Add(-time.Minute), true)
	if err := r.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runIDs(t, r); got != "old:cancelled " {
		t.Errorf("alone: %s", got)
	}
	addRun(t, r, "young", long.Add(time.Hour), true)
	if err := errors.Join(r.prune(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := runIDs(t, r); got != "young:cancelled " {
		t.Errorf("with a newer one: %s", got)
	}
	if entries, _, err := r.Ledger.AuditLog(t.Context(), ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{}); err != nil || len(entries) > 0 {
		t.Errorf("a record of one's own keeps an audit log that nothing prunes: %v, %v", entries, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A folder that belongs to somebody else is refused; root's own processes see the owner.
func TestForeignFoldersAreRefused(t *testing.T) {
	con, _ := quiet(t)
	dir := t.TempDir()
	t.Setenv("TURNUS_STATE", dir)
	record := filepath.Join(dir, "record")
	if err := os.Mkdir(record, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(record, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(record, 0o770); err != nil {
		t.Fatal(err)
	}
	_, err := OpenRecord(t.Context(), con)
	exit, ok := errors.AsType[*console.Exit](err)
	if !ok || exit.Code != console.ExitInvalid {
		t.Fatalf("%v", err)
	}
	if _, mode := errors.AsType[*securefile.ModeError](err); !mode && !errors.Is(err, securefile.ErrForeign) {
		t.Errorf("%v", err)
	}
}
