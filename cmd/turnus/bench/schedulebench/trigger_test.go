package schedulebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// serverEnv marks the re-executed test as a server, and names its ledger.
const serverEnv = "TURNUS_TEST_SCHEDULES"

func TestMain(m *testing.M) {
	url := os.Getenv(serverEnv)
	if url == "" {
		m.Run()
		return
	}
	if err := serve(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(url string) (err error) {
	l, err := ledger.Open(context.Background(), url, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return Serve(context.Background(), l, Maker{Run: func(f schedule.Trigger) (ledger.NewRun, error) {
		return ledger.NewRun{
			ID: f.RunID, Tenant: f.Schedule.Tenant, Playbook: "backup", LaunchedBy: "schedule:" + f.Schedule.String(), Request: []byte(f.RunID),
			Jobs: []ledger.JobHost{{Host: "host-1", Tenant: f.Schedule.Tenant}}, Snapshot: make([]byte, 1200), Queue: make([]byte, 300),
		}, nil
	}}, os.Stdin, os.Stdout)
}

// Schedules are made as asked, are not due for two hours, and have a history that can be read.
func TestPut(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	began, err := l.Now(t.Context()) // the minute may turn while the ledger is filled
	if err != nil {
		t.Fatal(err)
	}
	fill, err := Put(t.Context(), l, 2*tenants)
	if err != nil || fill.Schedules != 2*tenants || fill.PerSecond <= 0 {
		t.Fatal(fill, err)
	}
	due, err := l.DueSchedules(t.Context(), 1)
	if err != nil || len(due.Rows) > 0 || due.Next.Before(began.Add(nearest-time.Minute)) || due.Next.After(due.Now.Add(farthest)) {
		t.Errorf("the first is due at %v, it is %v (%v)", due.Next, due.Now, err)
	}
	all, _, err := schedule.NewControl(l).List(t.Context(), ledger.AllTenants(), ledger.Page{Limit: 100})
	if err != nil || len(all) != 100 {
		t.Fatal(len(all), err)
	}
	for _, s := range all {
		if len(s.Definition.ID.String()) != 24 || len(s.Definition.Payload) < 40 || len(s.State.Last) != schedule.MaxLast {
			t.Fatalf("%+v", s)
		}
	}
}
