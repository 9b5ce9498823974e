package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/ledger"
)

// Bounds of what is answered of kept configurations.
const (
	configVersions = 100
	configDiff     = 256 << 10 // bytes of a file's diff
)

// configs registers the routes of kept configurations.
func (s *Server) configs() {
	const where = "This server must have the repository: turnus up has that of its --config-dir. A tenant sees versions that runs kept while the host was its own."
	handle(s, route{
		id: "list-config-versions", method: http.MethodGet, path: "/v1/hosts/{host}/configs", summary: "List kept versions of a host's configuration, newest first", role: Operator,
		detail: "The newest 100. " + where,
	}, s.listConfigs)
	handle(s, route{
		id: "diff-config-versions", method: http.MethodGet, path: "/v1/hosts/{host}/configs/diff", summary: "Compare two kept versions of a host's configuration", role: Operator,
		detail: "Without to it is the newest one, without from the one before that. Both are among those that are listed. " + where,
	}, s.diffConfigs)
}

func (s *Server) listConfigs(ctx context.Context, by caller, in *HostPath) (*list[api.ConfigVersion], error) {
	versions, jobs, err := s.configVersions(ctx, by, in.Host)
	if err != nil {
		return nil, err
	}
	items := make([]api.ConfigVersion, len(versions))
	for i, v := range versions {
		items[i] = api.ConfigVersion{Version: v.Version, At: v.At, Author: v.Author, Playbook: v.Playbook, Run: v.Run, Changed: v.Changed, Gone: v.Gone}
		if index, ok := jobs[v.Run]; ok {
			items[i].Index = &index
		}
	}
	return listOf(items, ""), nil
}

// configVersions lists those of a host that the caller may see. A name may have been another
// tenant's host before: a tenant sees the versions of runs whose job on the host it sees.
// Jobs has the index of that job by run. It is nil for a caller of all tenants, who may see each
// run.
func (s *Server) configVersions(ctx context.Context, by caller, host string) (versions []configs.Version, jobs map[string]int, err error) {
	set, err := s.set()
	if err != nil {
		return nil, nil, err
	}
	h, ok := set.Inventory.Host(host)
	if !ok || !by.scope.Allows(h.Customer) {
		return nil, nil, noHost(host)
	}
	if s.cfg.Configs == nil {
		return nil, nil, fmt.Errorf("this server has no repository of configurations: turnus hosts config ls %s shows them where the worker keeps them: %w", h.Name, core.ErrNotFound)
	}
	versions, err = s.cfg.Configs.History(ctx, configs.Query{Host: h.Name, Limit: configVersions})
	if err != nil || by.scope.All() {
		return versions, nil, err
	}
	history, _, err := s.cfg.Ledger.HostHistory(ctx, by.scope, h.Name, ledger.Page{Limit: ledger.MaxPage})
	if err != nil {
		return nil, nil, err
	}
	jobs = map[string]int{}
	for i := range history {
		jobs[history[i].Run] = history[i].Index
	}
	return slices.DeleteFunc(versions, func(v configs.Version) bool {
		_, seen := jobs[v.Run]
		return !seen
	}), jobs, nil
}

func (s *Server) diffConfigs(ctx context.Context, by caller, in *struct {
	HostPath
	From string `query:"from" maxLength:"40" doc:"a version"`
	To   string `query:"to" maxLength:"40" doc:"a version"`
},
) (*body[api.ConfigDiff], error) {
	versions, _, err := s.configVersions(ctx, by, in.Host)
	if err != nil {
		return nil, err
	}
	to, err := versionAmong(versions, in.Host, in.To, 0)
	if err != nil {
		return nil, err
	}
	out, from := api.ConfigDiff{Host: in.Host, To: versions[to].Version, Files: []api.ConfigFileDiff{}}, len(versions)
	if in.From != "" || to+1 < len(versions) {
		if from, err = versionAmong(versions, in.Host, in.From, to+1); err != nil {
			return nil, err
		}
		out.From = versions[from].Version
	}
	changed := map[string]bool{} // other files are of versions that the caller does not see
	for _, v := range versions[min(from, to):max(from, to)] {
		for _, name := range slices.Concat(v.Changed, v.Gone) {
			changed[name] = true
		}
	}
	differences, err := s.cfg.Configs.Differences(ctx, in.Host, "", out.From, out.To)
	if err != nil {
		return nil, err
	}
	for i := range differences {
		if !changed[differences[i].Name] {
			continue
		}
		d := differences[i].Diff(in.Host)
		file := api.ConfigFileDiff{Name: d.Name, Change: d.Change, Added: d.Added, Removed: d.Removed, Diff: d.Diff}
		if len(file.Diff) > configDiff {
			file.Diff, file.Cut = strings.ToValidUTF8(file.Diff[:configDiff], ""), true
		}
		out.Files = append(out.Files, file)
	}
	return &body[api.ConfigDiff]{out}, nil
}

// versionAmong finds a listed version by its commit or the beginning of that; "" is the one at a
// place.
func versionAmong(versions []configs.Version, host, name string, at int) (int, error) {
	if name != "" {
		at = slices.IndexFunc(versions, func(v configs.Version) bool { return strings.HasPrefix(v.Version, name) })
	}
	if at < 0 || at >= len(versions) {
		return 0, fmt.Errorf("host %s has no version %q of its configuration: GET /v1/hosts/%s/configs lists them: %w", host, clip(name, 40), host, core.ErrNotFound)
	}
	return at, nil
}
