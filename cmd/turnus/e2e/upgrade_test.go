//go:build linux && (labs || record)

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// recorded is the state that a service of an earlier version showed just before it was stopped.
type recorded struct {
	Commit    string                  `json:"commit"`
	At        time.Time               `json:"at"`
	Runs      map[string]recordedRun  `json:"runs"`      // by what they are for
	Schedules map[string]api.Schedule `json:"schedules"` // by name
	Tokens    []string                `json:"tokens"`
	Audit     int                     `json:"audit"` // entries, at least
}

// recordedRun is a run with the jobs that had an outcome.
type recordedRun struct {
	ID    string               `json:"id"`
	Phase api.Phase            `json:"phase"`
	Ended map[int]core.Outcome `json:"ended"`
}

// upgradeOps copies the definitions of the recordings into the lab's folder.
func (l *lab) upgradeOps() {
	l.t.Helper()
	if err := os.CopyFS(filepath.Join(l.dir, "ops"), os.DirFS(filepath.Join("testdata", "upgrade", "ops"))); err != nil {
		l.t.Fatal(err)
	}
}

// poll reads what a service shows of these runs.
func poll(t *testing.T, c *client.Client, runs map[string]string) recorded {
	t.Helper()
	ctx := context.Background()
	seen := recorded{At: time.Now().UTC(), Runs: map[string]recordedRun{}, Schedules: map[string]api.Schedule{}}
	for name, id := range runs {
		run, err := c.Run(ctx, id)
		if err != nil {
			t.Fatalf("run %s: %v", name, err)
		}
		jobs, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Job], error) {
			return c.Jobs(ctx, id, client.JobFilter{State: "done"}, p)
		})
		if err != nil {
			t.Fatalf("jobs of run %s: %v", name, err)
		}
		r := recordedRun{ID: id, Phase: run.Phase, Ended: map[int]core.Outcome{}}
		for _, j := range jobs {
			r.Ended[j.Index] = j.Outcome
		}
		seen.Runs[name] = r
	}
	schedules, err := client.All(ctx, 0, c.Schedules)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schedules {
		seen.Schedules[s.Name] = s
	}
	tokens, err := client.All(ctx, 0, c.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		seen.Tokens = append(seen.Tokens, fmt.Sprint(token.Name, " ", token.Role))
	}
	entries, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Entry], error) {
		return c.Audit(ctx, client.AuditFilter{}, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	seen.Audit = len(entries)
	return seen
}
