package inventory

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/core"
)

// Schema is the JSON Schema (draft 2020-12) of an inventory in the Turnus format. Its keys are
// those that the parser reads. Editors complete and check by it; Load checks more.
func Schema() ([]byte, error) {
	t := &turnus{file: newBuilder(disk{}).file("")}
	s := &schemas{}
	layer := settingSchemas(s.object(t.becomeFields(&settings{}), becomeSchemas()))
	host := s.object(t.hostFields(), with(layer, hostSchemas()))
	hosts := func() *jsonschema.Schema {
		return named("Hosts by name; a range such as web[1:20] is several.", ref("host"))
	}
	site := s.object(t.siteFields("", "", &settings{}), with(layer, forms{"hosts": hosts()}))
	customer := s.object(t.customerFields("", &customer{}), with(layer, forms{"hosts": hosts(), "sites": named("Sites by name.", site)}))
	group := s.object(t.groupFields(&group{}), with(layer, groupSchemas()))
	pool := s.object(t.poolFields(&pool{}), poolSchemas())
	root := s.object(t.topFields(), forms{
		"defaults":  about("For every host.", s.object(t.settings(&settings{}), layer)),
		"customers": named("Customers by name.", customer),
		"groups":    named("Groups by name.", group),
		"hosts":     hosts(),
		"pools":     named("Pools of workers, and the hosts that they reach.", pool),
	})
	root.Schema, root.Title = "https://json-schema.org/draft/2020-12/schema", "Turnus inventory"
	root.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "A place for anchors; not read."}}
	root.Defs = map[string]*jsonschema.Schema{"host": host}
	if s.err != nil {
		return nil, s.err
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of inventories: %w", err)
	}
	return append(out, '\n'), nil
}

// forms are the schemas of values by their keys.
type forms map[string]*jsonschema.Schema

// with returns forms of which the later ones replace others.
func with(under, over forms) forms {
	all := maps.Clone(under)
	maps.Copy(all, over)
	return all
}

type schemas struct{ err error }

// object is the schema of a mapping that the parser reads by a table. A key without a form, or a
// form without a key, is an error.
func (s *schemas) object(fields []field, of forms) *jsonschema.Schema {
	out := &jsonschema.Schema{Types: []string{"object", "null"}, Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, f := range fields {
		form := of[f.Key]
		if form == nil {
			s.err = fmt.Errorf("the schema of inventories has no form for the key %q", f.Key)
			continue
		}
		out.Properties[f.Key] = form
		out.PropertyOrder = append(out.PropertyOrder, f.Key)
	}
	for key := range of {
		if out.Properties[key] == nil {
			s.err = fmt.Errorf("the parser of inventories does not read the key %q", key)
		}
	}
	return out
}

func ref(def string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + def} }

// about returns a schema with its description.
func about(doc string, s *jsonschema.Schema) *jsonschema.Schema {
	described := *s
	described.Description = doc
	return &described
}

// named is a mapping of names.
func named(doc string, values *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"object", "null"}, Description: doc, AdditionalProperties: values}
}

// text is a single value.
func text(doc string) *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"string", "number", "boolean"}, Description: doc}
}

// texts is a single value, or a list of them.
func texts(doc string) *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"string", "number", "boolean", "array"}, Items: text(""), Description: doc}
}

func number(doc string, most float64) *jsonschema.Schema {
	low := 1.0
	return &jsonschema.Schema{Types: []string{"integer", "string"}, Minimum: &low, Maximum: &most, Pattern: `^\+?[0-9]+$`, Description: doc}
}

func words(doc string, all ...any) *jsonschema.Schema {
	return &jsonschema.Schema{Enum: all, Description: doc}
}

func becomeSchemas() forms {
	return forms{
		"always": words("Steps become the user without become: of their own.", true, false, "true", "false", "yes", "no", "on", "off"),
		"user":   text("The user; root when not given."),
		"method": words("The program; sudo when not given.", core.BecomeSudo, core.BecomeDoas),
	}
}

// settingSchemas are those of the keys that every layer may have.
func settingSchemas(become *jsonschema.Schema) forms {
	return forms{
		"user":             text("User of the login over SSH."),
		"port":             number("Port of SSH.", maxPort),
		"credential":       text("Credential of the worker's own file."),
		"identity_file":    texts("Files with private keys, in your own inventory only."),
		"certificate_file": text("File with an SSH certificate, in your own inventory only."),
		"password_env":     text("Environment variable with the password, in your own inventory only."),
		"password_command": texts("Program that prints the password, in your own inventory only."),
		"become":           about("The user that steps become, and how.", become),
		"jump":             texts("Jump hosts, outermost first; none removes those of outer layers."),
		"connect_timeout": {Type: "string", Pattern: `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$`,
			Description: "Time to connect, up to 1h, such as 10s."},
		"certificate_principals":     texts("Names that a certificate is for; the user when not given."),
		"certificate_source_address": texts("Addresses or networks that a certificate may be used from."),
		"certificate_force_command":  text("The only command that a certificate allows."),
		"first_contact":              words("Whether the key of an unknown host may be pinned; refuse when not given.", core.FirstContactPin, "refuse"),
		"window_set":                 text("Set of maintenance windows."),
		"pool":                       text("Pool of workers that reach the host; it replaces pools:."),
		"labels":                     named("Text by name, for targets:.", text("")),
		"vars":                       {Types: []string{"object", "null"}, Description: "Any values by name, for playbooks."},
	}
}

func hostSchemas() forms {
	return forms{
		"address":        text("Address or DNS name; the name of the host when not given."),
		"host_key":       texts("Public keys that the host must have."),
		"host_key_alias": text("Name under which the key of the host is known."),
		"ha_group":       text("Hosts of one group are never disrupted at the same time."),
		"groups":         texts("Groups that have the host."),
		"customer":       text("Customer of the host."),
		"site":           text("Site of its customer."),
	}
}

func groupSchemas() forms {
	return forms{
		"hosts":    texts("Members: names, ranges and globs."),
		"children": texts("Groups of which the hosts are members also."),
		"priority": number("Of groups at one depth, the higher one wins; 1 when not given.", maxPriority),
	}
}

func poolSchemas() forms {
	const doc = ", as names and globs, that workers of the pool reach."
	return forms{
		"customers": texts("Customers" + doc), "sites": texts("Sites, or CUSTOMER/SITE" + doc),
		"groups": texts("Groups" + doc), "hosts": texts("Hosts" + doc),
	}
}
