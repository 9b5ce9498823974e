package launch

import (
	"maps"

	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

func newChecked(p *playbooks.Playbook, o Options) *snapshot.Checked {
	plugins := map[string]string{}
	for _, s := range p.Calls() {
		if o.Types == nil {
			break
		}
		if t, ok := o.Types(s.Uses); ok && t.Plugin != "" {
			plugins[s.Uses] = t.Plugin
		}
	}
	if len(plugins) == 0 {
		return nil
	}
	return &snapshot.Checked{Place: o.Place, Plugins: plugins}
}

func newSnapshot(p *playbooks.Playbook, o Options) snapshot.Snapshot {
	return snapshot.Snapshot{
		Run: o.RunID, Playbook: p.Name, File: p.File, Source: string(p.Source), Included: p.Included,
		Vars: o.Vars, Tags: o.Tags, SkipTags: o.SkipTags, Check: o.Check, Diff: o.Diff, Become: o.Become, Reason: o.Reason,
		Revision: o.Revision, LaunchedBy: o.LaunchedBy, Launched: o.Now.UTC(), Files: o.Files, Trace: o.Trace, Checked: newChecked(p, o), Once: newOnce(p),
	}
}

func mergedVars(p *playbooks.Playbook, o Options) map[string]any {
	if len(o.Vars) == 0 {
		return p.Vars
	}
	vars := make(map[string]any, len(p.Vars)+len(o.Vars))
	maps.Copy(vars, p.Vars)
	maps.Copy(vars, o.Vars)
	return vars
}
