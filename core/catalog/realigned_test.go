package catalog

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/playbooks"
)

// A damaged schedule of the project is made again also if a person removes it while schedules are
// brought in line: that pass has read the damaged one and then records that all is done.
func TestADamagedScheduleIsMadeAgainWhoeverAligns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	store, err := ledger.Open(t.Context(), "sqlite:"+file, ledger.Options{})
	must(t, err)
	defer func() { must(t, store.Close()) }()
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	ctl, err := controller.New(controller.Config{Name: "test", Ledger: store, Queue: q, Board: q})
	must(t, err)
	c, err := New(Config{Ledger: store, Board: q, Controller: ctl, Playbooks: playbooks.Options{Types: func(string) (playbooks.Type, bool) { return playbooks.Type{}, true }}})
	must(t, err)
	_, err = c.Apply(t.Context(), "test", []definitions.Document{
		{Path: "inventory/hosts.yaml", Data: []byte("hosts: {a: {address: 192.0.2.1}}\n")},
		{Path: "playbooks/p.yaml", Data: []byte("playbook: patch\ntenant: acme\ntargets: true\nwindow: none\nschedule: {cron: \"0 3 * * 1\"}\nsteps: [{name: look, uses: look}]\n")},
	}, definitions.Revision{}, AnyVersion)
	must(t, err)
	must(t, c.align(t.Context()))
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE schedules SET data = x'00ff'")
	must(t, errors.Join(err, db.Close()))

	id := schedule.ID{Tenant: "acme", Name: "patch"}
	c.aligning.Lock() // a pass that has read the rows
	removed := make(chan error, 1)
	go func() { removed <- c.DeleteSchedule(t.Context(), ledger.AllTenants(), "bob", id, 0) }()
	for len(removed) == 0 && !errors.Is(err, core.ErrNotFound) {
		_, err = c.Schedule(t.Context(), ledger.AllTenants(), id)
	}
	c.mu.Lock()
	c.aligned.version = c.current.Version
	c.mu.Unlock()
	c.aligning.Unlock()
	must(t, <-removed)
	must(t, c.align(t.Context()))
	if s, err := c.Schedule(t.Context(), ledger.AllTenants(), id); err != nil || s.Damaged != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
