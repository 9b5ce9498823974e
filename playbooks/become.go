package playbooks

import (
	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

const wantBecome = "true, false, or {user: NAME}"

// patternUser matches the names that core.Become.Check takes.
const patternUser = `^[A-Za-z0-9._@][A-Za-z0-9._@-]{0,63}$`

func becomeForm() form {
	return form{wantBecome, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "boolean"}, objectSchema(becomeFields())}}}
}

func becomeFields() []field[core.BecomeRule] {
	return []field[core.BecomeRule]{
		{key: "user", doc: "User on the host.", form: form{"a user name", &jsonschema.Schema{Type: "string", Pattern: patternUser}}, required: true,
			read: func(d *decoder, n *yaml.Node, r *core.BecomeRule) { r.User = d.userOf(n) }},
	}
}

func becomeWords() map[string]string {
	return map[string]string{ //nolint:gosec // words, no passwords
		"method": "the inventory says it, of a host or group: become: {method: doas}", "password": "a credential holds it: become_password in the file of --secrets",
		"become_user": `it is called "user"`, "name": `it is called "user"`,
	}
}

// becomeOf reads a become: of a playbook, a step or a handler.
func (d *decoder) becomeOf(n *yaml.Node) *core.BecomeRule {
	target, ok := d.Follow(n)
	if !ok {
		return nil
	}
	if target.Kind != yaml.MappingNode {
		var on bool
		if target.Kind != yaml.ScalarNode || target.Decode(&on) != nil || target.Tag != "!!bool" {
			d.reportNode(n, problem{message: "become is not true, false or a user", expected: wantBecome, hint: "root is written become: true"})
			return nil
		}
		return &core.BecomeRule{On: on}
	}
	r := &core.BecomeRule{On: true}
	readFields(d, n, "become", becomeFields(), becomeWords(), r)
	return r
}

func (d *decoder) userOf(n *yaml.Node) string {
	name := d.textOf(n, 64)
	if name != "" && (core.Become{User: name}).Check() != nil {
		d.reportNode(n, problem{message: quote(name) + " is not a user", expected: "a user name such as app, or a numeric id in quotes"})
		return ""
	}
	return name
}
