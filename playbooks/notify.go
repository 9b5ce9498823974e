package playbooks

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of notify:.
const (
	maxNotify   = 20
	maxChannels = 20
)

// notifyOf reads the routes of notifications of the playbook's runs. The project defines the
// channels.
func (d *decoder) notifyOf(n *yaml.Node) []policy.Route {
	items := d.List(n, wantNotify)
	if len(items) > maxNotify {
		d.reportNode(n, problem{message: fmt.Sprintf("%d entries", len(items)), expected: fmt.Sprintf("%d at most", maxNotify)})
		return nil
	}
	var out []policy.Route
	for _, item := range items {
		var r policy.Route
		readFields(d, item, "an entry of notify", notifyFields(), notifyWords(), &r)
		out = append(out, r)
	}
	return out
}

const wantNotify = "a list such as [{to: [noc], kinds: [run_failed]}]"

func notifyForm() form {
	return form{wantNotify, &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: new(maxNotify), Items: objectSchema(notifyFields())}}
}

// tenantKinds are those that are about a playbook's runs, windows and schedule.
func tenantKinds() []string {
	var names []string
	for _, name := range policy.Names() {
		if k, ok := policy.Find(name); ok && k.Tenant {
			names = append(names, name)
		}
	}
	return names
}

func severities() []string {
	return core.Map(policy.Severities(), func(s policy.Severity) string { return string(s) })
}

func notifyFields() []field[policy.Route] {
	return []field[policy.Route]{
		{key: "to", doc: "Names of channels: of the playbook's tenant, or of the service.", required: true,
			form: form{"a list of channels", &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: new(maxChannels), Items: nameForm().schema}},
			read: func(d *decoder, n *yaml.Node, r *policy.Route) {
				r.To = d.namesOf(n, "a list of channels", func(item *yaml.Node) string { return d.nameOf(item) })
			}},
		{key: "kinds", doc: "Kinds of notifications; all but run_succeeded and run_recovered when not given.",
			form: form{"a list of kinds", &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: new(maxChannels), Items: enumForm(tenantKinds()...).schema}},
			read: func(d *decoder, n *yaml.Node, r *policy.Route) {
				r.Kinds = d.namesOf(n, "a list of kinds", func(item *yaml.Node) string { return d.kindOf(item) })
			}},
		{key: "severity", doc: "The least severity; info when not given.", form: enumForm(severities()...),
			read: func(d *decoder, n *yaml.Node, r *policy.Route) {
				r.Severity = policy.Severity(d.enumOf(n, severities()...))
			}},
	}
}

func (d *decoder) namesOf(n *yaml.Node, want string, read func(*yaml.Node) string) []string {
	items := d.List(n, want)
	if len(items) > maxChannels {
		d.reportNode(n, problem{message: fmt.Sprintf("%d entries", len(items)), expected: fmt.Sprintf("%d at most", maxChannels)})
		return nil
	}
	var out []string
	for _, item := range items {
		out = append(out, read(item))
	}
	return out
}

// kindOf reads a kind. One that is the provider's is not unknown, and gets its own word.
func (d *decoder) kindOf(n *yaml.Node) string {
	if k, ok := policy.Find(n.Value); ok && !k.Tenant {
		d.reportNode(n, problem{message: fmt.Sprintf("%s is not about a playbook's runs", k.Name), expected: yamlread.OneOf(tenantKinds()),
			hint: "routes of the service, in notify.yaml, may name it"})
		return ""
	}
	target, ok := d.Scalar(n, yamlread.OneOf(tenantKinds()))
	if !ok {
		return ""
	}
	for _, name := range tenantKinds() {
		if name == target.Value {
			return name
		}
	}
	d.Mismatch(n, target, yamlread.OneOf(tenantKinds()), yamlread.DidYouMean(target.Value, tenantKinds()))
	return ""
}

func notifyWords() map[string]string {
	return map[string]string{
		"on": `it is called "kinds"`, "events": `it is called "kinds"`, "channels": `it is called "to"`, "channel": `it is called "to", a list`,
		"email": `channels, with their addresses, are in notify.yaml`, "webhook": `channels, with their addresses, are in notify.yaml`, "slack": `channels, with their addresses, are in notify.yaml`,
	}
}
