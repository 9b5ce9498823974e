package playbooks

import (
	"cmp"

	"gopkg.in/yaml.v3"
)

// TodoType stands for a task that turnus import ansible did not convert. It is no job type: a
// playbook with it does not validate.
const TodoType = "todo"

// refuseTodo reports a step that a person has to write. Its params have its origin, and why it was
// not converted.
func (d *decoder) refuseTodo(s *draft) {
	said := func(key string) string {
		if s.with == nil {
			return ""
		}
		if n := d.child(s.with, key); n != s.with && n.Kind == yaml.ScalarNode {
			return clip(n.Value, 300)
		}
		return ""
	}
	p := problem{message: "this task is not converted yet", expected: cmp.Or(said("instead"), "uses: and a job type of Turnus"),
		hint: "write the step, and remove uses: todo; turnus plugins ls lists the job types"}
	if source := said("source"); source != "" {
		p.message += ": " + cmp.Or(said("module"), "a task") + " at " + source
	}
	if why := said("reason"); why != "" {
		p.message += ": " + why
	}
	d.reportNode(cmp.Or(s.uses, s.node), p)
}
