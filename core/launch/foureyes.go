package launch

import (
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
)

// fourEyes finds what demands another person's approval: the playbook, its tenant or that of a
// host, or a window set that a step waits for. A run in check mode changes nothing, and needs none.
func (l *Launch) fourEyes(o Options) string {
	if o.Check {
		return ""
	}
	if l.Playbook.FourEyes {
		return "playbook " + l.Playbook.Name
	}
	if o.FourEyes != nil {
		if o.FourEyes(l.Playbook.Tenant) {
			return "tenant " + l.Playbook.Tenant
		}
		if i := slices.IndexFunc(l.Hosts, func(h core.Host) bool { return o.FourEyes(h.Customer) }); i >= 0 {
			return "tenant " + l.Hosts[i].Customer
		}
	}
	if l.Snapshot.Windows == nil {
		return ""
	}
	defs := o.Windows.Definitions()
	for _, set := range slices.Sorted(maps.Keys(l.Snapshot.Windows.Targets)) {
		for _, name := range defs.Serves(set) {
			if defs.Sets[name].FourEyes {
				return "window set " + name
			}
		}
	}
	return ""
}
