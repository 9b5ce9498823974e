package ansible

import (
	"regexp"
	"sync"

	"gopkg.in/yaml.v3"
)

var packageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]*$`) })

// packages translates the modules for packages, if the task has the names of packages and a state
// only.
func packages(t *draft) *doubt {
	t.step.uses = "package"
	state, d := t.literal("present", "state")
	if d != nil {
		return d
	}
	n := t.args.node("name", "pkg", "package")
	if n == nil {
		return doubtf("%s without packages has no equivalent", t.module).hint("uses: package, with: {names: [NAME], refresh: 1h}")
	}
	names, d := t.packageNames(n)
	if d != nil {
		return d
	}
	t.step.with.add("names", names)
	switch state {
	case "present", "installed":
	case "absent", "removed", "latest":
		t.step.with.add("state", map[string]string{"absent": "absent", "removed": "absent", "latest": "latest"}[state])
	default:
		return doubtf("state: %s has no equivalent", clip(state))
	}
	if d := t.refresh(); d != nil {
		return d
	}
	return t.noEnvironment()
}

// refresh translates how old the lists of packages may be.
func (t *draft) refresh() *doubt {
	valid, d := t.seconds(0, "cache_valid_time")
	if d != nil {
		return d
	}
	update, d := t.flag(valid != "", "update_cache")
	switch {
	case d != nil:
		return d
	case update && valid == "":
		return doubtf("update_cache without cache_valid_time has no exact equivalent").hint("uses: package, with: {names: […], refresh: 1h}")
	case update:
		t.step.with.add("refresh", valid)
	}
	return nil
}

// packageNames are plain names, an item of a loop over such, or a var with a list of such.
func (t *draft) packageNames(n *yaml.Node) (any, *doubt) {
	if n.Kind == yaml.ScalarNode && hasJinja(n.Value) {
		whole, d := t.known(n)
		if d == nil && whole.known && whole.kinds == kindList && namesOnly(whole.vals, packageName()) {
			return "${{ " + whole.text + " }}", nil
		}
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var out []string
	for _, item := range items {
		v, d := scalar(item)
		if d != nil {
			return nil, d
		}
		text, ok := v.(string)
		if !ok {
			return nil, doubtf("a package is not a text")
		}
		parts, d := t.scope.parts(text)
		if d != nil {
			return nil, d
		}
		whole, d := joined(parts)
		if len(parts) == 1 && parts[0].expr == nil {
			whole = constant(text)
		}
		if d != nil {
			return nil, d
		}
		for _, v := range whole.vals {
			if _, list := v.([]any); list {
				return nil, doubtf("%s is not a list with plain names of packages only", whole.text).hint("uses: package, with: {names: [NAME]}")
			}
			if name, ok := v.(string); !ok || !packageName().MatchString(name) {
				return nil, doubtf("%s is not the plain name of a package", clip(shown(v))).hint("uses: package, with: {names: [NAME]}")
			}
		}
		if !whole.known {
			return nil, doubtf("the packages of %s are not known", whole.text)
		}
		name, d := rendered(parts)
		if d != nil {
			return nil, d
		}
		out = append(out, name)
	}
	return out, nil
}
