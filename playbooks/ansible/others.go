package ansible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// otherHost is a host that a task reads through hostvars: one of hosts, whichever it is.
type otherHost struct {
	text  string // the host as an expression
	hosts []core.Host
}

// groupOf returns the group of groups.NAME or groups['NAME'].
func groupOf(n *node) (string, bool) {
	if n.op == "attr" && n.args[0].op == "name" && n.args[0].name == "groups" {
		return n.name, true
	}
	return "", false
}

const importWithInventory = "the inventory, so that the import can look there: turnus import ansible … --inventory FILE"

// group translates the hosts of a group. Where their order counts, it must be that of the
// inventory.
func (s *scope) group(name string, ordered bool) (otherHost, *doubt) {
	p := s.play
	if p.hosts == nil {
		return otherHost{}, doubtf("the hosts of group %s are not known", name).hint(importWithInventory)
	}
	of, where := p.hosts, "true"
	if name != "all" {
		of = slices.DeleteFunc(slices.Clone(p.hosts), func(h core.Host) bool { return !slices.Contains(h.Groups, name) })
		where = quoted(name) + " in host.groups"
	}
	switch {
	case name == "ungrouped":
		return otherHost{}, doubtf("the group ungrouped has no equivalent")
	case len(of) == 0:
		return otherHost{}, doubtf("the inventory has no group %s", name)
	case severalCustomers(p.hosts):
		return otherHost{}, doubtf("the inventory has several customers, and hosts() gives only hosts of the same customer")
	case ordered && (p.members == nil || !slices.Equal(p.members(name), namesOf(of))):
		return otherHost{}, doubtf("group %s has another order than the inventory, and hosts() has that of the inventory", name).hint("foreach: hosts('%s'), if the order does not matter", where)
	}
	text, d := listOf(where)
	return otherHost{text, of}, d
}

func listOf(where string) (string, *doubt) {
	if strings.ContainsAny(where, `'\`) {
		return "", doubtf("the name in %s has characters that need care", where)
	}
	return "hosts('" + where + "')", nil
}

func severalCustomers(hosts []core.Host) bool {
	return slices.ContainsFunc(hosts, func(h core.Host) bool { return h.Customer != hosts[0].Customer })
}

func namesOf(hosts []core.Host) []string {
	return core.Map(hosts, func(h core.Host) string { return h.Name })
}

func anyNames(hosts []core.Host) []any {
	return core.Map(hosts, func(h core.Host) any { return h.Name })
}

// groupNames translates groups.NAME as a list of names.
func (s *scope) groupNames(name string, ordered bool) (term, *doubt) {
	g, d := s.group(name, ordered)
	if d != nil {
		return term{}, d
	}
	return term{text: "map(" + g.text + ", #.name)", vals: []any{anyNames(g.hosts)}, known: true, kinds: kindList}, nil
}

// unordered is the value of an expression where the order of a list does not count.
func (s *scope) unordered(n *node) (term, *doubt) {
	if name, ok := groupOf(n); ok {
		return s.groupNames(name, false)
	}
	return s.value(n)
}

// oneOf translates groups.NAME[0], the name of one host of a group.
func (s *scope) oneOf(n *node) (term, *doubt) {
	if h, ok, d := s.member(n); ok {
		return term{text: h.text + ".name", vals: anyNames(h.hosts), known: true, kinds: kindText}, d
	}
	return term{}, doubtf("a part of the expression has no equivalent")
}

// member is one host of a group: groups.NAME[0]. ok reports whether n is that.
func (s *scope) member(n *node) (h otherHost, ok bool, d *doubt) {
	if n.op != "item" {
		return h, false, nil
	}
	name, isGroup := groupOf(n.args[0])
	at, isIndex := n.args[1].val.(int)
	if !isGroup || n.args[1].op != "lit" || !isIndex {
		return h, false, nil
	}
	if h, d = s.group(name, true); d != nil {
		return h, true, d
	}
	if at < 0 || at >= len(h.hosts) {
		return h, true, doubtf("group %s has no host [%d]", name, at)
	}
	return otherHost{fmt.Sprintf("%s[%d]", h.text, at), h.hosts[at : at+1]}, true, nil
}

// hostOf returns the host of hostvars[KEY] or hostvars.KEY. ok reports whether n is one.
func (s *scope) hostOf(n *node) (h otherHost, ok bool, d *doubt) {
	if n.op != "attr" && n.op != "item" || n.args[0].op != "name" || n.args[0].name != "hostvars" {
		return h, false, nil
	}
	if n.op == "attr" {
		h, d = s.named(n.name)
		return h, true, d
	}
	key := n.args[1]
	switch {
	case key.op == "name" && key.name == "item" && s.item != nil && s.item.hosts != nil:
		return otherHost{"item", s.item.hosts}, true, nil
	case key.op == "name" && key.name == "inventory_hostname" && s.play.hosts != nil:
		return otherHost{"host", s.play.hosts}, true, nil
	}
	if h, isMember, d := s.member(key); isMember {
		return h, true, d
	}
	return h, true, doubtf("the host of hostvars is not known").hint("hosts('…') in an expression (docs/hosts.md)")
}

// named is a host by its name.
func (s *scope) named(name string) (h otherHost, d *doubt) {
	if s.play.hosts == nil {
		return h, doubtf("host %s is not known", name).hint(importWithInventory)
	}
	i := slices.IndexFunc(s.play.hosts, func(h core.Host) bool { return h.Name == name })
	switch {
	case i < 0:
		return h, doubtf("the inventory has no host %s", name)
	case severalCustomers(s.play.hosts):
		return h, doubtf("the inventory has several customers, and hosts() gives only hosts of the same customer")
	}
	text, d := listOf("host.name == " + quoted(name))
	return otherHost{text + "[0]", s.play.hosts[i : i+1]}, d
}

// hostVar translates a var of a host of hostvars.
func (s *scope) hostVar(h otherHost, name string) (term, *doubt) {
	p := s.play
	switch name {
	case "inventory_hostname":
		return term{text: h.text + ".name", vals: anyNames(h.hosts), known: true, kinds: kindText}, nil
	case "ansible_host":
		return h.address()
	case "group_names":
		return term{text: h.text + ".groups", kinds: kindList, groups: true}, nil
	}
	if strings.HasPrefix(name, "ansible_") {
		return term{}, doubtf("%s of another host is a fact or a setting of Ansible", name).hint("facts on record: map(hosts('…'), #.facts.os?.family) (docs/hosts.md)")
	}
	if place, ok := p.set[name]; ok || p.registers[name] != nil {
		return term{}, doubtf("%s of another host may be set by a task %s", name, place)
	}
	if place, ok := p.before[name]; ok {
		return term{}, doubtf("%s of another host may be set by an earlier play, at %s", name, place)
	}
	if own, d := s.besideVar(name); d != nil || own != nil {
		return term{}, doubtf("files beside the playbook set %s", name).hint("the value in the inventory")
	}
	vals, all := inventoryVals(h.hosts, name)
	switch {
	case len(vals) == 0:
		return term{}, doubtf("the inventory does not define %s of %s", name, h.text)
	case jinjaIn(vals):
		return term{}, doubtf("the value of %s in the inventory holds Jinja", name)
	case slices.Contains(vals, nil):
		return term{}, doubtf("%s is null on some hosts", name).hint("leave it out of the inventory there, or give it a value")
	}
	return term{text: member(h.text+".vars", name), vals: vals, known: true, kinds: kindsOf(vals, true), optional: !all}, nil
}

func (h otherHost) address() (term, *doubt) {
	var vals []any
	for _, one := range h.hosts {
		if one.Address == "" {
			return term{}, doubtf("the inventory does not define ansible_host of %s", one.Name)
		}
		vals = append(vals, one.Address)
	}
	return term{text: h.text + ".address", vals: vals, known: true, kinds: kindText}, nil
}

// join translates the filter of a list of texts.
func (t term) join(separator any) (term, *doubt) {
	sep, ok := separator.(string)
	for _, v := range t.vals {
		list, _ := v.([]any)
		ok = ok && !slices.ContainsFunc(list, func(item any) bool { _, text := item.(string); return !text })
	}
	if !ok || !t.known || t.kinds != kindList {
		return t, doubtf("%s is not known to be a list of texts", t.text)
	}
	return term{text: "join(" + t.text + ", " + quoted(sep) + ")", kinds: kindText}, nil
}
