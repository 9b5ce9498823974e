package definitions

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// layoutFile names the folders of a tree that does not follow the convention.
const layoutFile = "turnus.yaml"

// The parts of a tree, which are also the keys of turnus.yaml.
const (
	partPlaybooks = "playbooks"
	partInventory = "inventory"
	partWindows   = "windows"
	partSecrets   = "secrets"
	partNotify    = "notify"
)

var parts = []string{partPlaybooks, partInventory, partWindows, partSecrets, partNotify}

// Keys of turnus.yaml that are no places: the tenants whose runs need another person's approval,
// and what share of the workers tenants have. And the defaults of the flags of turnus run.
const (
	keyFourEyes = "four_eyes"
	keyWeights  = "tenant_weights"
	keyRun      = "run"
)

const maxTenantWeight = 1000

// optional reports whether a tree may do without a part.
func optional(part string) bool {
	return part == partWindows || part == partSecrets || part == partNotify
}

// layout has the paths of the parts of a tree.
type layout map[string][]string

// usualNames are the places where a part is looked for.
func usualNames(part string) []string {
	if part == partPlaybooks {
		return []string{part}
	}
	return []string{part, part + ".yaml", part + ".yml"}
}

// convention finds the parts by their usual names.
func (l *loader) convention(part string) {
	if l.set.layout[part] != nil {
		return
	}
	names := usualNames(part)
	var found []string
	for _, name := range names {
		if l.has(part, name) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) > 1:
		l.fail(playbooks.Diagnostic{File: found[0], Message: fmt.Sprintf("%s are there both", strings.Join(found, " and ")),
			Expected: "one place", Hint: fmt.Sprintf("name what is meant in %s: %s: [%s]", layoutFile, part, strings.Join(found, ", "))})
	case len(found) == 0 && !optional(part):
		// A folder that was renamed must not take every schedule away.
		l.fail(playbooks.Diagnostic{File: layoutFile, Message: "the tree has no " + part, Expected: strings.Join(names, ", or "),
			Hint: fmt.Sprintf("name another place in %s at the root, or write %s: [] if there is none", layoutFile, part)})
	}
	l.set.layout[part] = found
}

// readLayout reads turnus.yaml.
func (l *loader) readLayout(data []byte) {
	var problems yamlread.Problems
	r, root := problems.Open(layoutFile, data)
	if root != nil {
		fields := make([]yamlread.Field, 0, len(parts)+1)
		for _, part := range parts {
			fields = append(fields, yamlread.Field{Key: part, Want: "a path or a list of paths", Read: func(n *yaml.Node) {
				l.set.layout[part] = l.places(r, part, n)
			}})
		}
		fourEyes := yamlread.Field{Key: keyFourEyes, Want: "a list of tenants, such as [acme]"}
		fourEyes.Read = func(n *yaml.Node) {
			l.set.fourEyes = []string{}
			for _, item := range r.List(n, fourEyes.Want) {
				l.readFourEyes(data, r, item)
			}
		}
		weights := yamlread.Field{Key: keyWeights, Read: func(n *yaml.Node) { l.readWeights(data, r, n) }}
		run := yamlread.Field{Key: keyRun, Want: "a mapping of known_hosts and concurrency"}
		run.Read = func(n *yaml.Node) { new(runDefaults).read(r, n) }
		r.Mapping(root, "the file", append(fields, fourEyes, weights, run)...)
	}
	for _, p := range problems {
		l.failAt(data, &yaml.Node{Line: p.Line, Column: p.Col}, p.Error(), p.Hint)
	}
}

// readFourEyes reads the name of a tenant. Its existence is checked when hosts and playbooks are
// known.
func (l *loader) readFourEyes(data []byte, r *yamlread.Reader, n *yaml.Node) {
	v, ok := r.Scalar(n, "the name of a tenant")
	if !ok {
		return
	}
	tenant := v.Value
	l.set.fourEyes = append(l.set.fourEyes, tenant)
	l.checkTenant(data, n, keyFourEyes, tenant)
}

// readWeights reads a weight for each named tenant; others have 1.
func (l *loader) readWeights(data []byte, r *yamlread.Reader, n *yaml.Node) {
	l.set.weights = map[string]int{}
	var fields []yamlread.Field
	into := map[string]*int{}
	for _, p := range r.Pairs(n, keyWeights) {
		tenant := p.Key.Value
		into[tenant] = new(1)
		fields = append(fields, r.Int(tenant, into[tenant], 1, maxTenantWeight))
		l.checkTenant(data, p.Key, keyWeights, tenant)
	}
	r.Mapping(n, keyWeights, fields...)
	for tenant, weight := range into {
		l.set.weights[tenant] = *weight
	}
}

// checkTenant notes a problem where no host, no playbook and no source is of the tenant, once they
// are known. Where a source may have hosts of any tenant it is a warning.
func (l *loader) checkTenant(data []byte, n *yaml.Node, key, tenant string) {
	l.later = append(l.later, func() {
		known := map[string]bool{}
		for _, h := range l.set.Inventory.Hosts {
			known[h.Customer] = true
		}
		for _, p := range l.set.Playbooks {
			known[p.Tenant] = true
		}
		anyTenant := len(l.sources) == 0 && len(l.set.Inventory.Hosts) == 0 // all hosts are of sources
		for _, s := range l.sources {
			known[s.Tenant] = true
			anyTenant = anyTenant || s.Tenant == ""
		}
		if tenant != "" && known[tenant] {
			return
		}
		report, message := l.fail, fmt.Sprintf("%s: no host and no playbook is of tenant %q", key, yamlread.Clip(tenant))
		if tenant != "" && anyTenant {
			report, message = l.warn, message+", so only hosts of a source can be"
		}
		report(at(layoutFile, data, n.Line, n.Column, message, yamlread.DidYouMean(tenant, slices.Sorted(maps.Keys(known)))))
	})
}

// places reads one path or a list of them.
func (l *loader) places(r *yamlread.Reader, part string, v *yaml.Node) []string {
	out := []string{}
	for _, n := range r.OneOrMore(v, "a path or a list of paths") {
		p, shown := path.Clean(n.Value), yamlread.Quote(n.Value)
		switch {
		case n.Tag != "!!str" || n.Value == "":
			r.Failf(n, "%s: expected a path or a list of paths", part)
		case !fs.ValidPath(p):
			r.Fail(n, yamlread.Fault{Message: fmt.Sprintf("%s: %s is not in the tree", part, shown), Hint: "paths are relative to the root of the tree"})
		case !l.has(part, p):
			r.Fail(n, yamlread.Fault{Message: fmt.Sprintf("%s: there is no %s, or nothing to read in it", part, shown), Hint: yamlread.DidYouMean(p, l.folders())})
		case slices.Contains(out, p):
			r.Failf(n, "%s: %s is there twice", part, shown)
		default:
			out = append(out, p)
		}
	}
	return out
}

// folders are the names at the root, for suggestions.
func (l *loader) folders() []string {
	var out []string
	for _, e := range l.entries {
		name, _, _ := strings.Cut(e.path, "/")
		if len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
	}
	return out
}

// has reports whether a place holds something to read for a part.
func (l *loader) has(part, root string) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return holds(part, root, e.path) })
}

// holds reports whether a file is read for a part that lies at root.
func holds(part, root, p string) bool {
	if !under(p, root) || p == layoutFile {
		return false
	}
	if p == root {
		return true
	}
	if root != "." {
		p = strings.TrimPrefix(p, root+"/")
	}
	return !hidden(p) && (part == partInventory || isYAML(p))
}

// includable reports whether a playbook that is named by its file, at root, may include a file.
func includable(root, p string) bool {
	return isYAML(root) && under(p, path.Join(path.Dir(root), playbooks.StepsFolder)) && isYAML(p) && !hidden(p)
}

// beside reports whether a file is one of Ansible's, beside an inventory at root.
func beside(root, p string) bool {
	dir := path.Dir(root)
	return root != "." && (under(p, path.Join(dir, "group_vars")) || under(p, path.Join(dir, "host_vars"))) && !hidden(p)
}

// documents reports whether a file is read at all.
func (lay layout) documents(p string) bool {
	if p == layoutFile {
		return true
	}
	for part, roots := range lay {
		for _, root := range roots {
			if holds(part, root, p) || part == partInventory && beside(root, p) || part == partPlaybooks && includable(root, p) {
				return true
			}
		}
	}
	return false
}
