package ansible

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
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
		return t.refreshOnly()
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

// refresh translates how old the lists of packages may be. Without a time Ansible always updates
// them.
func (t *draft) refresh() *doubt {
	valid, d := t.seconds(0, "cache_valid_time")
	if d != nil {
		return d
	}
	update, d := t.flag(valid != "", "update_cache", "update-cache")
	if before := t.scope.play.lists; before != nil {
		if update && valid != before.valid {
			return doubtf("the task before it also updates the lists, with another cache_valid_time").hint("update_cache in one of them")
		}
		update, valid = true, before.valid
	}
	if update {
		t.step.with.add("refresh", cmp.Or(valid, "1s"))
	}
	return d
}

// lists is a task that only updates the lists of packages, for the step after it.
type lists struct{ valid string }

// refreshOnly translates a task that only updates the lists: the next step does, if it is a task
// with packages and everything around both is the same.
func (t *draft) refreshOnly() *doubt {
	no := doubtf("%s without packages has no equivalent", t.module).hint("uses: package, with: {names: [NAME], refresh: 1h}")
	next := t.scope.play.next
	if next == nil || !slices.Equal(t.args.keys("update_cache", "update-cache", "cache_valid_time"), t.args.keys()) {
		return no
	}
	module, arg := moduleOf(next)
	if base(module) != t.module {
		return no
	}
	others, d := argsOf(arg, child(next, "args"), false)
	if d != nil || others.node("name", "pkg", "package") == nil {
		return no
	}
	for _, key := range sortedKeys(keysOf(t.node, next)) {
		one, other := child(t.node, key), child(next, key)
		if same := one != nil && other != nil && reflect.DeepEqual(asRead(one), asRead(other)); !same && (key != "register" && key != "notify" || one != nil) {
			return no
		}
	}
	valid, d := t.seconds(0, "cache_valid_time")
	if d != nil {
		return d
	}
	update, d := t.flag(valid != "", "update_cache", "update-cache")
	if d != nil || !update {
		return cmpDoubt(d, no)
	}
	t.scope.play.lists = &lists{valid}
	t.step.uses = ""
	t.note("the lists of packages are refreshed by the step after it")
	return nil
}

// keysOf are the keys of two tasks beside their names and modules.
func keysOf(tasks ...*yaml.Node) map[string]bool {
	keys := map[string]bool{}
	for _, n := range tasks {
		module, _ := moduleOf(n)
		for _, e := range entries(n) {
			if e.key != "name" && e.key != module && e.key != "args" {
				keys[e.key] = true
			}
		}
	}
	return keys
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
	} else if v, d := literal(n); d == nil {
		if text, ok := v.(string); ok && strings.Contains(text, ",") {
			items = nil
			for name := range strings.SplitSeq(text, ",") {
				items = append(items, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: strings.TrimSpace(name)})
			}
		}
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
