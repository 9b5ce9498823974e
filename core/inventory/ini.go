package inventory

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/turnus/turnus/core/yamlread"
)

var (
	iniSection = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?$`) })
	iniChild   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([^:\]\s]+)\s*(?:#.*)?$`) })
)

// iniReader reads Ansible's INI inventory.
type iniReader struct {
	*file
	group    *group
	kind     string // hosts, vars or children
	declared map[string]bool
	pending  []pendingGroup
}

// pendingGroup is a group that a section names and no section has declared yet.
type pendingGroup struct {
	name, section string
	line          int
	parent        *group // nil: only its vars were given
}

func (f *file) ini(data []byte) {
	r := &iniReader{file: f, kind: "hosts", declared: map[string]bool{"all": true, "ungrouped": true}}
	r.group = f.b.group("ungrouped", f.at(1, 1))
	if !utf8.Valid(data) {
		f.fail(1, 1, "not UTF-8 text: an inventory is YAML, INI, or an executable file")
		return
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		text := strings.TrimSpace(line)
		col := 1 + len(line) - len(strings.TrimLeft(line, " \t"))
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if text[0] == '[' && !strings.Contains(text, "=") || iniSection().MatchString(text) {
			if m := iniSection().FindStringSubmatch(text); m != nil {
				r.section(m[1], m[2], n, col)
				continue
			}
		}
		switch r.kind {
		case "hosts":
			r.host(text, n, col)
		case "vars":
			r.variable(text, n, col)
		case "children":
			r.child(text, n, col)
		}
	}
	for _, p := range r.pending {
		if r.declared[p.name] || r.b.known.groups[p.name] {
			continue
		}
		var known []string
		for name := range r.declared {
			known = append(known, name)
		}
		e := r.problem(p.line, 1, "section [%s] names the group %q, which is not defined", p.section, p.name)
		e.Hint = yamlread.DidYouMean(p.name, known)
	}
}

func (r *iniReader) section(name, kind string, line, col int) {
	kind = cmp.Or(kind, "hosts")
	r.kind = kind
	switch kind {
	case "hosts", "children":
		r.declared[name] = true
	case "vars":
		if !r.declared[name] && r.b.groups[name] == nil {
			r.pending = append(r.pending, pendingGroup{name, name + ":vars", line, nil})
		}
	default:
		r.problem(line, col, "section [%s:%s] has the unknown kind %q", name, kind, kind).Hint = "known kinds: children, hosts, vars"
		r.kind = "skip"
	}
	r.group = r.b.group(name, r.at(line, col))
	for _, p := range r.pending { // as in Ansible, a group follows its siblings by where it is declared
		if p.name == name && p.parent != nil && kind != "vars" {
			p.parent.addChild(r.group)
		}
	}
}

// host reads "web[01:50]:2222 key=value …".
func (r *iniReader) host(text string, line, col int) {
	words, err := splitWords(text, true)
	if err != nil || len(words) == 0 {
		r.fail(line, col, "%v", err)
		return
	}
	hosts := r.namedHosts(r.group, words[0], line, col)
	if len(hosts) == 0 {
		return
	}
	for _, w := range words[1:] {
		key, val, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			r.fail(line, col+max(strings.Index(text, w), 0), "expected key=value, got %q", shorten(w))
			continue
		}
		value := literalOrText(val)
		for _, e := range hosts {
			r.ansibleVar(&e.own, nil, key, value, line, col)
		}
	}
}

func (r *iniReader) variable(text string, line, col int) {
	key, val, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		r.fail(line, col, "expected key=value, got %q", shorten(text))
		return
	}
	r.ansibleVar(&r.group.inline, r.group, key, literalOrText(strings.TrimSpace(val)), line, col)
}

func (r *iniReader) child(text string, line, col int) {
	m := iniChild().FindStringSubmatch(text)
	if m == nil {
		r.fail(line, col, "expected the name of a group, got %q", shorten(text))
		return
	}
	if !r.declared[m[1]] && r.b.groups[m[1]] == nil {
		r.pending = append(r.pending, pendingGroup{m[1], r.group.name + ":children", line, r.group})
		return
	}
	r.group.addChild(r.b.group(m[1], r.at(line, col)))
}
