package ansible

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// pattern translates hosts: into targets:.
func (p *play) pattern(n *yaml.Node) (string, *doubt) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var parts []string
	for _, item := range items {
		v, d := literal(item)
		if d != nil {
			return "", d
		}
		text, ok := v.(string)
		if !ok || strings.ContainsAny(text, "[]?~") || strings.Contains(text, "::") {
			return "", doubtf("the pattern is not a group or a host").hint("targets: an expression over host (docs/playbooks-steps.md#expressions)")
		}
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ':' || r == ',' }) {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	var any, all, not []string
	for _, part := range parts {
		into, name := &any, part
		switch part[:min(1, len(part))] {
		case "&":
			into, name = &all, part[1:]
		case "!":
			into, name = &not, part[1:]
		}
		text, d := p.selector(name)
		if d != nil {
			return "", d
		}
		*into = append(*into, text)
	}
	if len(any) == 0 { // as Ansible does
		any = []string{"true"}
	}
	return conjunction(any, all, not), nil
}

func conjunction(any, all, not []string) string {
	first := strings.Join(any, " || ")
	if slices.Contains(any, "true") {
		first = "true"
	}
	var out []string
	if first != "true" {
		if len(all)+len(not) > 0 {
			first = brackets(first)
		}
		out = append(out, first)
	}
	for _, text := range all {
		if text != "true" {
			out = append(out, brackets(text))
		}
	}
	for _, text := range not {
		out = append(out, "!("+text+")")
	}
	if len(out) == 0 {
		return "true"
	}
	return strings.Join(out, " && ")
}

func brackets(text string) string {
	if strings.Contains(text, " || ") {
		return "(" + text + ")"
	}
	return text
}

// selector translates one name of a pattern.
func (p *play) selector(name string) (string, *doubt) {
	group := quoted(name) + " in host.groups"
	host := "host.name == " + quoted(name)
	switch {
	case name == "all" || name == "*":
		return "true", nil
	case name == "" || name == "ungrouped" || strings.HasPrefix(name, "@"):
		return "", doubtf("the pattern %q has no equivalent", name)
	case name == "localhost" || name == "127.0.0.1":
		return "", doubtf("Turnus reaches hosts with SSH, and does not run steps on its own machine").hint("a host of the inventory in targets:")
	case strings.Contains(name, "*"):
		return wildcard(name)
	case p.hosts == nil:
		return group + " || " + host, nil
	}
	switch inGroup, isHost := p.knows(name); {
	case inGroup:
		return group, nil
	case isHost:
		return host, nil
	}
	return "", doubtf("the inventory has no group or host %s", name)
}

// wildcard translates a name with one * at an end, which Ansible compares with groups and hosts.
func wildcard(name string) (string, *doubt) {
	word := strings.Trim(name, "*")
	if strings.Contains(word, "*") {
		return "", doubtf("the pattern %s has no equivalent", name).hint("host.name matches \"…\"")
	}
	op := "startsWith"
	switch {
	case strings.HasPrefix(name, "*") && strings.HasSuffix(name, "*"):
		op = "contains"
	case strings.HasPrefix(name, "*"):
		op = "endsWith"
	}
	return "host.name " + op + " " + quoted(word) + " || any(host.groups, # " + op + " " + quoted(word) + ")", nil
}

func (p *play) knows(name string) (group, host bool) {
	for _, h := range p.hosts {
		group = group || slices.Contains(h.Groups, name)
		host = host || h.Name == name
	}
	return group, host
}

// count is how many hosts of the inventory the play selects.
func (p *play) count() (int, *doubt) {
	name := p.hostsText()
	switch {
	case name == "all":
		return len(p.hosts), nil
	case strings.ContainsAny(name, ":,*!&[]~") || name == "":
		return 0, doubtf("the number of hosts of this pattern is not known").hint("strategy: in Turnus, for a number of hosts or a share")
	}
	n := 0
	for _, h := range p.hosts {
		if slices.Contains(h.Groups, name) || h.Name == name {
			n++
		}
	}
	if n == 0 {
		return 0, doubtf("the inventory has no group or host %s", name)
	}
	return n, nil
}
