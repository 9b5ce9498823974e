package ansible

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// role is one use of a role in a play.
type role struct {
	name, folder   string
	vars, defaults frame
	given          frame      // vars: of a role that the play lists
	params         *yaml.Node // keys of a role that the play lists
	inh            inherited
	node           *yaml.Node
	blocked        *doubt
	use            string // name, folder, params, conditions and tags: the parts that make uses different
	repeats        bool   // allow_duplicates: each use runs
}

// findRoles reads the roles that the play lists.
func (p *play) findRoles(inh inherited) error {
	list := child(p.node, "roles")
	if list == nil {
		return nil
	}
	for _, n := range list.Content {
		r, d := p.useRole(n, n, inh)
		if d != nil && d.fatal != nil {
			return d.fatal
		}
		if d != nil {
			r = &role{node: n, inh: inh, blocked: d}
		}
		if d == nil && p.repeated(r) {
			if p.surelyRuns(r) {
				continue
			}
			r.blocked = doubtf("role %s is listed twice, and Ansible runs it again where the first use ran no task", r.name).hint("the role once, at the place where it has to run")
		}
		p.roles = append(p.roles, r)
	}
	return nil
}

// useRole reads a role in a play or an include: its name, or a mapping with params.
func (p *play) useRole(n, at *yaml.Node, inh inherited) (*role, *doubt) {
	r := &role{node: at, params: &yaml.Node{Kind: yaml.MappingNode}}
	name := n
	if n.Kind == yaml.MappingNode {
		name = child(n, "role")
		if name == nil {
			name = child(n, "name")
		}
		for _, e := range entries(n) {
			switch e.key {
			case "role", "name":
			case "when", "tags", "environment", "become", "become_user", "become_method", "ignore_errors":
				if d := inh.keyword(e); d != nil {
					return nil, d
				}
			case "vars":
				r.given = vars(e.value, ofRole)
			case "tasks_from", "vars_from", "defaults_from", "handlers_from", "public", "apply", "allow_duplicates", "rolespec_validate":
				return nil, doubtf("%s of a role has no equivalent", e.key)
			default:
				if slices.Contains(keywords, e.key) {
					return nil, doubtf("%s of a role has no equivalent", e.key)
				}
				r.params.Content = append(r.params.Content, e.at, e.value)
			}
		}
	}
	if name == nil || name.Kind != yaml.ScalarNode || hasJinja(name.Value) || name.Value == "" || strings.Contains(name.Value, "..") {
		return nil, doubtf("the role is not a literal name")
	}
	r.name = name.Value
	for _, root := range []string{path.Join(path.Dir(p.file), "roles"), "roles", path.Dir(p.file)} {
		folder := path.Join(root, name.Value)
		if _, ok := p.first(folder+"/tasks/main.yml", folder+"/tasks/main.yaml", folder+"/handlers/main.yml", folder+"/meta/main.yml"); ok {
			r.folder = folder
			break
		}
	}
	r.use = useOf(r, n)
	if r.folder == "" {
		return nil, doubtf("there is no role %s beside the playbook", clip(name.Value)).hint("ansible-galaxy role install -p roles %s, and import again", clip(name.Value))
	}
	return r, p.readRole(r, inh)
}

func (p *play) readRole(r *role, inh inherited) *doubt {
	meta, d := p.roleFile(r, "meta")
	if d != nil {
		return d
	}
	if n := child(meta, "allow_duplicates"); n != nil {
		if r.repeats, d = truth(n); d != nil {
			return d
		}
	}
	if deps := child(meta, "dependencies"); deps != nil && len(deps.Content) > 0 {
		return doubtf("role %s depends on other roles", r.name).hint("the roles it depends on, listed in the play before it")
	}
	if d := p.otherFiles(r); d != nil {
		return d
	}
	defaults, d := p.roleFile(r, "defaults")
	if d != nil {
		return d
	}
	own, d := p.roleFile(r, "vars")
	if d != nil {
		return d
	}
	r.defaults, r.vars = vars(defaults, ofDefaults), vars(own, ofRole)
	for _, f := range []frame{r.defaults, r.vars, r.given, vars(r.params, ofParams)} {
		if d := f.login(); d != nil {
			return d
		}
	}
	for _, name := range sortedKeys(r.given) {
		if r.vars[name] != nil {
			return doubtf("vars/main.yml of role %s also sets %s, and versions of Ansible differ in which one wins", r.name, name).hint("%s as a key of the role in place of vars", name)
		}
	}
	inh.scope = inh.scope.with(r.defaults).with(r.vars).with(r.given).with(vars(r.params, ofParams))
	inh.role = r
	r.inh = inh
	return nil
}

// repeated reports whether the play has listed the role in the same way before: Ansible runs it
// once.
func (p *play) repeated(r *role) bool {
	return !r.repeats && slices.ContainsFunc(p.roles, func(before *role) bool { return before.blocked == nil && before.use == r.use })
}

// surelyRuns reports whether each use of a role runs a task: one that has no condition.
func (p *play) surelyRuns(r *role) bool {
	file, ok := p.first(path.Join(r.folder, "tasks", "main.yml"), path.Join(r.folder, "tasks", "main.yaml"))
	if !ok || len(r.inh.when) > 0 {
		return false
	}
	root, _, err := p.yaml(file)
	if err != nil || root == nil { // roleTasks reports the error
		return false
	}
	return slices.ContainsFunc(root.Content, func(n *yaml.Node) bool {
		module, _ := moduleOf(n)
		for _, key := range []string{"when", "tags", "loop", "block"} {
			if child(n, key) != nil {
				return false
			}
		}
		return module != "" && !includes[base(module)] && base(module) != "meta" && !strings.HasPrefix(module, "with_")
	})
}

// useOf returns the parts that make two uses of a role different for Ansible, as text. It leaves
// out become, environment and ignore_errors.
func useOf(r *role, n *yaml.Node) string {
	parts := map[string]any{"role": r.name, "folder": r.folder}
	for _, e := range entries(n) {
		switch e.key {
		case "role", "name", "become", "become_user", "become_method", "environment", "ignore_errors":
		case "when", "tags":
			list := []any{asRead(e.value)}
			if e.value.Kind == yaml.SequenceNode {
				list, _ = asRead(e.value).([]any)
			}
			parts["of "+e.key] = list
		case "vars":
			parts["of vars"] = asRead(e.value)
		default:
			parts["param "+e.key] = asRead(e.value)
		}
	}
	return fmt.Sprintf("%#v", parts) // prints maps in the order of their keys
}

// asRead is a value as Ansible's YAML reads it, with Jinja as text.
func asRead(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, e := range entries(n) {
			out[e.key] = asRead(e.value)
		}
		return out
	case yaml.SequenceNode:
		return core.Map(n.Content, asRead)
	}
	if v, d := scalar(n); d == nil {
		return v
	}
	return n.Value
}

// otherFiles refuses what Ansible reads instead of main.yml, or beside it.
func (p *play) otherFiles(r *role) *doubt {
	for _, kind := range []string{"tasks", "handlers", "defaults", "vars", "meta"} {
		for _, name := range []string{"main", "main.json"} {
			if _, err := fs.Stat(p.tree, path.Join(r.folder, kind, name)); err == nil {
				return doubtf("role %s has %s, which the import does not read", r.name, path.Join(kind, name)).hint("one file %s", path.Join(kind, "main.yml"))
			}
		}
	}
	return nil
}

// roleFile reads main.yml of a folder of the role; nil where there is none.
func (p *play) roleFile(r *role, kind string) (*yaml.Node, *doubt) {
	name, ok := p.first(path.Join(r.folder, kind, "main.yml"), path.Join(r.folder, kind, "main.yaml"))
	if !ok {
		return nil, nil
	}
	root, _, err := p.yaml(name)
	if err != nil {
		return nil, unread(err)
	}
	if root != nil && root.Tag == "!vault" {
		return nil, &doubt{reason: p.show(name) + " is encrypted with Ansible Vault", instead: vaulted().instead}
	}
	return root, nil
}

func (p *play) roleTasks(r *role) error {
	if r.blocked != nil {
		p.out.Tasks++
		p.steps = append(p.steps, p.todo(r.inh, r.node, "role", r.blocked))
		return nil //nolint:nilerr // the doubt is in the playbook now
	}
	file, ok := p.first(path.Join(r.folder, "tasks", "main.yml"), path.Join(r.folder, "tasks", "main.yaml"))
	if !ok {
		return nil
	}
	inh := r.inh
	inh.stack, inh.file = append(slices.Clip(inh.stack), inh.file), file
	if len(inh.stack) > maxDepth || slices.Contains(inh.stack, file) {
		_, d := p.included(path.Dir(file), &yaml.Node{Kind: yaml.ScalarNode, Value: path.Base(file), Line: 1, Column: 1}, append(inh.stack, file))
		return d.fatal
	}
	root, _, err := p.yaml(file)
	if err != nil {
		return err
	}
	return p.tasks(root, inh)
}

// includedRole is a role that a task names. Its handlers are not those of the play yet, so it may
// have none.
func (p *play) includedRole(n, arg *yaml.Node, inh inherited) (*role, *doubt) {
	if arg.Kind == yaml.MappingNode && len(arg.Content) != 2 {
		return nil, doubtf("only the name of an included role is converted")
	}
	r, d := p.useRole(arg, n, inh)
	if d != nil {
		return nil, d
	}
	if handlers, d := p.roleFile(r, "handlers"); d != nil || handlers != nil {
		return nil, cmpDoubt(d, doubtf("the handlers of role %s are not converted where a task includes it", r.name).hint("the role in roles: of the play"))
	}
	return r, nil
}
