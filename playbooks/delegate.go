package playbooks

import (
	"slices"

	"github.com/turnus/turnus/core"
)

// Delegate returns the name of the host on which the step is called for env.Host, "" for none. env
// has the host, vars and params. Errors are Diagnostics.
func (s Step) Delegate(env Env) (string, error) {
	if s.On.code == nil {
		return env.Host.Name, nil
	}
	v, err := s.On.code.run(env)
	if err != nil {
		return "", err
	}
	name, ok := v.(string)
	if !ok && v != nil {
		return "", s.On.code.fail(env, span{}, problem{message: "gives " + describe(v), expected: "the name of a host"})
	}
	return name, nil
}

// Misplaced returns the error for a step that cannot be called on what its on gives for h.
func (s Step) Misplaced(h core.Host, message, expected, hint string) error {
	return s.On.code.fail(Env{Host: h}, span{}, problem{message, expected, hint})
}

// Delegates reports whether a step of the playbook has on.
func (p *Playbook) Delegates() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.On.Absent() })
}

// MaySkip reports whether a when decides if step i is called: its own, or one around it.
func (p *Playbook) MaySkip(i int) bool {
	s := p.Steps[i]
	return !s.When.Absent() || slices.ContainsFunc(s.Within, func(block int) bool { return !p.Blocks[block].When.Absent() })
}

// onScope returns the scope of on: what is known of a host before any step runs, and not its facts,
// which may change until then.
func (d *decoder) onScope() scope {
	s := scope{root: &shape{label: "the expression", closed: true, fields: map[string]*shape{"host": hostShape()}}, elsewhere: map[string]string{}}
	if d.within == "" {
		s.root.fields["vars"], s.root.fields["params"] = d.varsShape(), d.paramsShape()
	} else {
		for _, name := range []string{"vars", "params"} {
			s.elsewhere[name] = "in an included file on reads host only: its params may come from a step"
		}
	}
	for _, name := range []string{"steps", "item", "run", "error", "secrets"} {
		s.elsewhere[name] = "the host is chosen at the launch, before any step runs"
	}
	return s
}
