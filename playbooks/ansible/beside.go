package ansible

import (
	"errors"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// maxBeside is how many files of group_vars and host_vars are read.
const maxBeside = 20_000

// beside is the vars in group_vars and host_vars beside the playbook. Ansible reads them after
// those beside the inventory. A run of Turnus reads the latter only.
type beside struct {
	hosts  map[string]core.Host // of the inventory, with these vars; nil without an inventory
	vars   map[string][]besideVar
	logins []besideVar // connection vars, such as ansible_user
	vaults []besideVar // encrypted files, whose names nobody knows
}

// besideVar is one var of one file.
type besideVar struct {
	file     string
	name     string
	at, node *yaml.Node
}

// readBeside reads group_vars and host_vars in the folder of the playbook that is imported. Nothing
// is read if the inventory has them already.
func (c *converter) readBeside(o Options) error {
	if o.Hosts != nil && o.Beside == nil {
		return nil
	}
	b := &c.beside
	b.vars = map[string][]besideVar{}
	if o.Hosts != nil {
		b.hosts = map[string]core.Host{}
		for _, h := range o.Beside {
			b.hosts[h.Name] = h
		}
	}
	r := newReader(o)
	r.most = maxBeside
	for _, kind := range []string{"group_vars", "host_vars"} {
		root := path.Join(path.Dir(o.Site), kind)
		err := fs.WalkDir(o.Tree, root, func(file string, d fs.DirEntry, err error) error {
			switch {
			case file == root && errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return c.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: " + reason(err)})
			case file != root && ignoredVars(d.Name()) && d.IsDir():
				return fs.SkipDir
			case d.IsDir() || ignoredVars(d.Name()) || !c.concerns(kind, strings.TrimPrefix(file, root+"/")):
				return nil
			}
			return b.read(r, file)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ignoredVars reports whether Ansible leaves out a file of group_vars or host_vars.
func ignoredVars(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		slices.Contains([]string{".orig", ".bak", ".cfg", ".retry", ".pyc", ".pyo", ".swp", ".rpm", ".md", ".rst"}, path.Ext(name))
}

// concerns reports whether a file below group_vars or host_vars may be one of a host that is known.
func (c *converter) concerns(kind, file string) bool {
	name, _, _ := strings.Cut(file, "/")
	stem := name
	if slices.Contains([]string{".yml", ".yaml", ".json"}, path.Ext(name)) {
		stem = strings.TrimSuffix(name, path.Ext(name))
	}
	if c.hosts == nil || kind == "group_vars" && (stem == "all" || stem == "ungrouped") {
		return true
	}
	return slices.ContainsFunc(c.hosts, func(h core.Host) bool {
		if kind == "host_vars" {
			return h.Name == stem || h.Name == name
		}
		return slices.Contains(h.Groups, stem) || slices.Contains(h.Groups, name)
	})
}

// pythonVars are the settings of Python on hosts. Turnus needs none.
var pythonVars = []string{"ansible_python_interpreter", "ansible_pipelining", "ansible_ssh_pipelining"}

func (b *beside) read(r *reader, file string) error {
	root, ok, err := r.yaml(file)
	switch {
	case err != nil:
		return err
	case !ok:
		return r.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: it is not a regular file"})
	case root != nil && root.Tag == "!vault":
		b.vaults = append(b.vaults, besideVar{file: file, name: path.Base(file), at: root, node: root})
	}
	for _, e := range entries(root) {
		switch v := (besideVar{file, e.key, e.at, e.value}); {
		case slices.Contains(pythonVars, e.key):
		case strings.HasPrefix(e.key, "ansible_"):
			b.logins = append(b.logins, v)
		default:
			b.vars[e.key] = append(b.vars[e.key], v)
		}
	}
	return nil
}

// besideTodos adds a todo for each file or login beside the playbook that concerns the whole play.
func (p *play) besideTodos() {
	for _, v := range p.beside.logins {
		d := doubtf("%s belongs to the inventory: Turnus reads no vars beside the playbook", v.name).hint("%s in the inventory; then remove this step", v.name)
		p.blocked(v.file, v.at, v.name, d)
	}
	for _, v := range p.beside.vaults {
		p.blocked(v.file, v.at, v.name, &doubt{reason: p.show(v.file) + " is encrypted with Ansible Vault", instead: vaulted().instead})
	}
}

// besideVar returns the binding of a name if files beside the playbook set it; nil if the
// inventory alone decides.
func (s *scope) besideVar(name string) (*binding, *doubt) {
	p := s.play
	from := p.beside.vars[name]
	if len(from) == 0 {
		return nil, nil
	}
	d := doubtf("%s is set at %s, beside the playbook: Turnus reads vars beside the inventory", name, place(p.show(from[0].file), from[0].at.Line, from[0].at.Column))
	if p.beside.hosts == nil {
		return nil, d.hint("the var in group_vars beside the inventory; or import with --inventory FILE")
	}
	var vals []any
	same, everywhere := true, true
	for _, h := range p.selected() {
		ours, have := h.Vars[name]
		theirs, set := p.beside.hosts[h.Name].Vars[name]
		same = same && have == set && reflect.DeepEqual(ours, theirs)
		everywhere = everywhere && set
		vals = append(vals, theirs)
	}
	equal := !slices.ContainsFunc(vals, func(v any) bool { return !reflect.DeepEqual(v, vals[0]) })
	switch {
	case same:
		return nil, nil
	case len(from) == 1 && everywhere && equal: // a host has it from this file, and so all have its value
		return &binding{name: name, node: from[0].node, rank: ofPlay}, nil
	}
	return nil, d.hint("the var in group_vars or host_vars beside the inventory")
}

// selected is the hosts of a pattern that is one name, and all hosts for every other pattern.
func (p *play) selected() []core.Host {
	name := p.hostsText()
	if group, host := p.knows(name); !group && !host {
		return p.hosts
	}
	return slices.DeleteFunc(slices.Clone(p.hosts), func(h core.Host) bool { return h.Name != name && !slices.Contains(h.Groups, name) })
}
