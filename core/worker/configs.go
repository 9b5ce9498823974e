package worker

import (
	"context"
	"time"

	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/plugins/host"
)

// keepIn lets a call read and keep versions of the configuration of the host that it is for.
func (a *attempts) keepIn(repo *configs.Repo, c *host.Call) {
	j, snap, name := a.m.job, a.m.prog.snapshot, a.host.Name
	c.Kept = func(ctx context.Context, file string) ([]byte, bool, error) { return repo.File(ctx, name, file) }
	c.Keep = func(ctx context.Context, files []host.KeptFile) (string, []string, error) {
		change := configs.Change{Host: name, Author: snap.LaunchedBy, At: time.Now(), Playbook: snap.Playbook, Run: j.lease.Job.Run, Step: a.name}
		for _, f := range files {
			change.Files = append(change.Files, configs.File(f))
		}
		kept, err := repo.Keep(ctx, change)
		return kept.Version, kept.Changed, err
	}
}
