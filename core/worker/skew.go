package worker

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/host"
)

// skew returns a text for the end of a failure if the run was checked with another version of the
// job type's plugin than this worker has; "" where it is the same, or not known.
func (m *machine) skew(uses string) string {
	c := m.prog.snapshot.Checked
	if c == nil || c.Plugins[uses] == "" {
		return ""
	}
	checked, w := c.Plugins[uses], m.job.w
	t, ok := w.cfg.Plugins.Type(uses)
	here := t.Plugin
	if !ok {
		name, _, _ := strings.Cut(checked, " ")
		here = has(w.cfg.Plugins, name)
	}
	if here == "" || ok && here == checked {
		return ""
	}
	return fmt.Sprintf("; %s checked the playbook with plugin %s, worker %s has %s\nhint: use the same version on both; `turnus plugins ls` prints the versions",
		escape(cmp.Or(c.Place, "another turnus")), escape(checked), w.cfg.Name, here)
}

// has is the version of a plugin that a worker has without the job type.
func has(plugins Plugins, name string) string {
	if all, ok := plugins.(interface{ Plugins() []host.Plugin }); ok {
		for _, p := range all.Plugins() {
			if p.Name == name {
				return name + " " + p.Version
			}
		}
	}
	return "no plugin of that name"
}
