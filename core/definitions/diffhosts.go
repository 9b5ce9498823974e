package definitions

import (
	"strings"

	"github.com/turnus/turnus/core"
)

func diffHosts(before, after *Set) []Change {
	hosts := func(s *Set) map[string]*core.Host {
		out := make(map[string]*core.Host, len(s.Inventory.Hosts))
		for i := range s.Inventory.Hosts {
			out[s.Inventory.Hosts[i].Name] = &s.Inventory.Hosts[i]
		}
		return out
	}
	return diffNamed(KindHost, hosts(before), hosts(after), describeHost, changedHost)
}

func describeHost(h *core.Host) string {
	parts := []string{h.Target()}
	for _, p := range [][2]string{{"customer", h.Customer}, {"site", h.Site}, {"window set", h.WindowSet}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

func changedHost(c *Change, old, now *core.Host) {
	was, is := fieldsOf(old), fieldsOf(now)
	join, leave := comeAndGo(old.Groups, now.Groups)
	if len(join) > 0 {
		c.report("joins group %s", some(join))
	}
	if len(leave) > 0 {
		c.report("leaves group %s", some(leave))
	}
	delete(was, "groups")
	delete(is, "groups")
	reportFields(c, "", was, is, []string{"vars", "ssh"}) // values of vars may be what should not be shown
}
