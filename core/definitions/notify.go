package definitions

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// loadNotify reads channels and routes.
func (l *loader) loadNotify() {
	docs := core.Map(l.of(partNotify), func(d Document) policy.Document { return policy.Document{File: d.Path, Data: d.Data} })
	found, problems := policy.Parse(docs...)
	l.set.Notify = found
	for _, p := range problems {
		l.fail(at(p.File, l.data(p.File), p.Line, p.Col, p.Error(), p.Hint))
	}
}

// checkNotify finds channels that a playbook names and its tenant does not have.
func (l *loader) checkNotify(p *playbooks.Playbook) {
	if l.set.Notify == nil {
		return
	}
	for i, r := range p.Notify {
		for j, name := range r.To {
			if l.set.Notify.Knows(p.Tenant, name) {
				continue
			}
			known := l.set.Notify.Visible(p.Tenant)
			line, col := placeOf(l.data(p.File), "notify", i, "to", j)
			hint := "expected one of " + strings.Join(known, ", ") + "; notify.yaml defines channels"
			if near := yamlread.DidYouMean(name, known); near != "" {
				hint = near + " " + hint
			}
			l.fail(at(p.File, l.data(p.File), line, col, fmt.Sprintf("playbook %s names the channel %q, which %s does not have", p.Name, yamlread.Clip(name), whose(p.Tenant)), hint))
		}
	}
}

func whose(tenant string) string {
	if tenant == "" {
		return "the service"
	}
	return "tenant " + tenant
}

// diffNotify reports which channels and routes differ. It leaves out addresses: they may be
// secrets.
func diffNotify(before, after *policy.Policy) []Change {
	was, is := channelsOf(before), channelsOf(after)
	out := diffNamed(KindChannel, was, is, func(c *policy.Channel) string { return c.Medium() }, func(c *Change, old, now *policy.Channel) {
		if old.Medium() != now.Medium() {
			c.report("%s -> %s", old.Medium(), now.Medium())
			return
		}
		c.report("where it leads, or by which secret")
	})
	return append(out, diffNamed(KindRoutes, routesOf(before), routesOf(after), func(r *routes) string { return core.Plural(len(r.All), "route") }, func(c *Change, old, now *routes) {
		c.report("%s -> %s", old.text(), now.text())
	})...)
}

// routes are those of one owner.
type routes struct{ All []policy.Route }

func (r *routes) text() string {
	var all []string
	for _, one := range r.All {
		what := cmp.Or(strings.Join(one.Kinds, ", "), "everything")
		if one.Severity != "" {
			what += " of " + string(one.Severity)
		}
		if len(one.Playbooks) > 0 {
			what += " of " + strings.Join(one.Playbooks, ", ")
		}
		all = append(all, what+" to "+strings.Join(one.To, ", "))
	}
	return strings.Join(all, "; ")
}

// serviceName is how routes of the service are named in a list of changes; a tenant's have its
// name.
const serviceName = "service"

func channelsOf(p *policy.Policy) map[string]*policy.Channel {
	out := map[string]*policy.Channel{}
	if p == nil {
		return out
	}
	maps.Copy(out, p.Service.Channels)
	for tenant, section := range p.Tenants {
		for name, c := range section.Channels {
			out[tenant+":"+name] = c
		}
	}
	return out
}

func routesOf(p *policy.Policy) map[string]*routes {
	out := map[string]*routes{}
	if p == nil {
		return out
	}
	if len(p.Service.Routes) > 0 {
		out[serviceName] = &routes{p.Service.Routes}
	}
	for tenant, section := range p.Tenants {
		if len(section.Routes) > 0 {
			out["tenant "+tenant] = &routes{section.Routes}
		}
	}
	return out
}
