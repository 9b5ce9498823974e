package service

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Runs go so long after their end, and without --keep-runs never.
func TestRunsAreForgottenInTime(t *testing.T) {
	for _, keep := range []time.Duration{0, 48 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			_, _, err = l.Accept(t.Context(), ledger.NewRun{
				ID: "r", Playbook: "p", LaunchedBy: "test", Snapshot: []byte("{}"), Queue: []byte("{}"), Jobs: []ledger.JobHost{{Host: "h"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Record(t.Context(), ledger.Batch{Run: "r", Outcomes: []ledger.Outcome{{Outcome: core.Changed, Attempt: 1}}}); err != nil {
				t.Fatal(err)
			}
			f := &Flags{}
			f.retention.base.Runs = keep
			s := &service{f: f, name: "s", ledger: l, log: slog.New(slog.DiscardHandler)}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); s.forget(ctx) }()
			there := func() bool {
				_, err := l.Run(t.Context(), ledger.AllTenants(), "r")
				return !errors.Is(err, core.ErrNotFound)
			}
			<-time.After(47 * time.Hour)
			if !there() {
				t.Errorf("kept for %v: it is gone too early", keep)
			}
			<-time.After(3 * time.Hour)
			if there() != (keep == 0) {
				t.Errorf("kept for %v: it is there after 50 hours: %v", keep, there())
			}
			stop()
			<-done
		})
	}
}
