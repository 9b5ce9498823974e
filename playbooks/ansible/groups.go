package ansible

import (
	"cmp"

	"gopkg.in/yaml.v3"
)

// maxNested is how deep Turnus nests groups.
const maxNested = 8

// group is the parts of a step that is a group.
type group struct{ steps, rescue, always []*step }

// has reports whether a part of a block has tasks.
func has(n *yaml.Node, part string) bool {
	list := child(n, part)
	return list != nil && len(list.Content) > 0
}

// group converts a block with rescue or always. Ansible's rescue lets the host continue, which is
// recover: true. In both, a host that does not answer is not rescued, and runs no always.
func (p *play) group(n *yaml.Node, inh inherited) error {
	outer, section := p.steps, p.section
	s := &step{name: p.stepName(cmp.Or(title(n), "block")), group: &group{}, comment: comment(n)}
	p.nested++
	defer func() { p.nested-- }()
	for _, part := range []struct {
		key  string
		into *[]*step
	}{{"block", &s.group.steps}, {"rescue", &s.group.rescue}, {"always", &s.group.always}} {
		p.steps = nil
		if err := p.tasks(child(n, part.key), inh); err != nil {
			return err
		}
		*part.into = p.steps
		p.doubtRegisters(n, part.key)
	}
	if !has(n, "rescue") { // what follows runs where all of the block has run
		p.eachIn(child(n, "block"), func(t *yaml.Node) {
			if v := child(t, "register"); v != nil {
				delete(p.unsure, v.Value)
			}
		})
	}
	p.steps, p.section = outer, section
	if len(s.group.steps) == 0 { // nothing can fail
		p.steps = append(p.steps, s.group.always...)
		return nil
	}
	if has(n, "rescue") && len(s.group.rescue) == 0 { // its tasks only print, and the host continues all the same
		s.group.rescue = []*step{{name: p.stepName(s.name + " rescued"), uses: "command", with: fields{{"run", "true"}, {"changed", false}}}}
	}
	for _, part := range [][]*step{s.group.steps, s.group.rescue, s.group.always} {
		for _, one := range part {
			s.notify = append(s.notify, one.notify...)
		}
	}
	p.steps = append(p.steps, s)
	return nil
}

// doubtRegisters notes the results that tasks of a part register: in Ansible a name is undefined
// where its task did not run.
func (p *play) doubtRegisters(n *yaml.Node, part string) {
	p.eachIn(child(n, part), func(t *yaml.Node) {
		if v := child(t, "register"); v != nil {
			p.unsure[v.Value] = true
		}
	})
}
