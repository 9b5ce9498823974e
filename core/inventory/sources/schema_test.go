package sources_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/inventory/sources"
)

// The schema takes what Parse takes, and refuses what Parse refuses of forms, keys and words.
func TestSchemaAgreesWithParse(t *testing.T) {
	text, err := sources.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	const url = "type: netbox, url: https://nb.example"
	for _, c := range []struct {
		fields string // of the source nb
		good   bool
	}{
		{url, true},
		{url + ", token: nb-token, ca_file: ca.pem, records: [devices, virtual-machines], every: 1m30s, max_age: 2h, tenant: acme", true},
		{url + ", records: devices, review: {removed: 2.5%}", true},
		{url + ", filter: {status: active, role: [a, b], id: 7}, map: {labels.rack: rack.name, vars.x: custom_fields.x, pool: null}", true},
		{"type: http, url: http://127.0.0.1/hosts, token: t", true},
		{"type: exec, program: /usr/local/bin/hosts, token: t", true},
		{"type: ldap, url: https://x", false},
		{"url: https://x", false},
		{"type: netbox", false},
		{"type: exec", false},
		{"type: exec, program: /x, url: https://x", false},
		{"type: http, url: https://x, filter: {a: b}", false},
		{"type: http, url: ftp://x", false},
		{url + ", tokn: x", false},
		{url + ", records: racks", false},
		{url + ", records: [racks]", false},
		{url + ", filter: {limit: 5}", false},
		{url + ", filter: {tag: []}", false},
		{url + ", filter: {tag: ''}", false},
		{url + ", filter: {tag: [a, '']}", false},
		{url + ", filter: {tag: }", false},
		{url + ", map: {colour: x}", false},
		{url + ", map: {site: 'a b'}", false},
		{url + ", every: soon", false},
		{url + ", max_age: 5", false},
		{url + ", review: {removed: 5}", false},
		{url + ", review: {added: 5%}", false},
	} {
		file := "sources:\n  nb: {" + c.fields + "}\n"
		_, err := sources.Parse("sources.yaml", []byte(file))
		var value any
		if err := yaml.Unmarshal([]byte(file), &value); err != nil {
			t.Fatal(err)
		}
		refused := resolved.Validate(value)
		if (err == nil) != c.good || (refused == nil) != c.good {
			t.Errorf("%s: Parse: %v; the schema: %v; expected it to be good: %v", c.fields, err, refused, c.good)
		}
	}
	for _, file := range []string{"sources: {NB: {type: http, url: https://x}}\n", "source: {}\n", "sources: []\n"} {
		_, err := sources.Parse("sources.yaml", []byte(file))
		var value any
		if yaml.Unmarshal([]byte(file), &value) != nil || err == nil || resolved.Validate(value) == nil {
			t.Errorf("%s: Parse: %v; the schema: %v", file, err, resolved.Validate(value))
		}
	}
	// Parse lists its keys when one is unknown: the schema has the same.
	_, err = sources.Parse("sources.yaml", []byte("sources: {nb: {type: http, url: https://x, zz: 1}}\n"))
	source := schema.Properties["sources"].AdditionalProperties
	for key := range source.Properties {
		if source.Properties[key].Description == "" {
			t.Errorf("key %s has no description", key)
		}
	}
	_, list, _ := strings.Cut(err.Error(), "expected one of: ")
	keys := strings.FieldsFunc(strings.SplitN(list, "\n", 2)[0], func(r rune) bool { return r == ',' || r == ' ' })
	for _, key := range keys {
		if source.Properties[key] == nil {
			t.Errorf("Parse knows the key %s, the schema does not", key)
		}
	}
	if len(keys) != len(source.Properties) {
		t.Errorf("Parse lists %v, the schema has %d keys: %v", keys, len(source.Properties), err)
	}
}
