package inventory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"
)

// anyLayer has each key that every layer may have.
const anyLayer = `user: turnus, port: 22, become: {always: true, user: app, method: doas}, jump: [a, b], connect_timeout: 1m30s,
  certificate_principals: ops, certificate_source_address: [192.0.2.0/24], certificate_force_command: id, first_contact: pin,
  window_set: nights, pool: eu, labels: {role: web, rack: 7}, vars: {a: [1, {b: }], c: }, identity_file: [~/.ssh/id],
  certificate_file: ~/.ssh/id-cert.pub, password_env: PASS, password_command: [pass, show], credential: fleet`

// everyKey has each key of an inventory in each place.
const everyKey = `x-anchors: {any: thing}
defaults: {` + anyLayer + `}
customers:
  acme: {` + anyLayer + `, sites: {fra: {` + anyLayer + `, hosts: {"f[1:2]": {address: "10.0.0.[1:2]"}}}}, hosts: {hq: {}}}
groups:
  edge: {` + anyLayer + `, hosts: ["f*", hq], children: core, priority: 5}
  core:
hosts:
  w1: {` + anyLayer + `, address: 192.0.2.1, host_key: ssh-ed25519 AAAA, host_key_alias: w, ha_group: p, groups: [edge], customer: acme, site: fra}
  w2:
pools:
  eu: {customers: [acme], sites: acme/fra, groups: [], hosts: ["*.eu"]}
`

// compiled is the schema, and a way to check a file with it.
func compiled(t *testing.T) (*jsonschema.Schema, func(file string) error) {
	t.Helper()
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &schema, func(file string) error {
		var value any
		if err := yaml.Unmarshal([]byte(file), &value); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(value)
	}
}

// loadError reads a file as Load does.
func loadError(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), []string{file})
	return err
}

// The schema takes what Load takes, and refuses what Load refuses of forms, keys and words.
func TestSchemaAgreesWithLoad(t *testing.T) {
	t.Parallel()
	schema, check := compiled(t)
	for _, c := range []struct {
		file string
		good bool
	}{
		{everyKey, true},
		{"hosts:\n", true},
		{"hosts: {a: {port: '22', groups: g, labels: {n: 1.5, b: true}}}", true},
		{"hosts: {a: {become: {always: yes}}}", true},
		{"{}", true},
		{"hosts: {a: {adress: 192.0.2.1}}", false},
		{"hosts: {a: {port: 0}}", false},
		{"hosts: {a: {port: 65536}}", false},
		{"hosts: {a: {port: ssh}}", false},
		{"hosts: {a: {user: }}", false},
		{"hosts: {a: {user: [x]}}", false},
		{"hosts: {a: {labels: {role: [x]}}}", false},
		{"hosts: {a: {labels: [role]}}", false},
		{"hosts: {a: {vars: 5}}", false},
		{"hosts: {a: {groups: {web: }}}", false},
		{"hosts: {a: {first_contact: always}}", false},
		{"hosts: {a: {connect_timeout: soon}}", false},
		{"hosts: {a: {connect_timeout: 10sx}}", false},
		{"hosts: {a: {become: true}}", false},
		{"hosts: {a: {become: {method: su}}}", false},
		{"hosts: {a: {priority: 5}}", false},
		{"hosts: [a, b]", false},
		{"hosts: {a: 192.0.2.1}", false},
		{"defaults: {address: 192.0.2.1}", false},
		{"defaults: {usr: x}", false},
		{"hosts: {}\ngruops: {}", false},
		{"groups: {web: {member: [a]}}", false},
		{"groups: {web: {priority: 0}}", false},
		{"groups: {web: {hosts: {a: }}}", false},
		{"customers: {acme: {site: {}}}", false},
		{"customers: {acme: {sites: {fra: {sites: {}}}}}", false},
		{"customers: {acme: {sites: {fra: {hosts: {a: {x-y: 1}}}}}}", false},
		{"pools: {eu: {customer: [acme]}}", false},
		{"pools: {eu: [acme]}", false},
	} {
		loaded, checked := loadError(t, c.file), check(c.file)
		if (loaded == nil) != c.good || (checked == nil) != c.good {
			t.Errorf("%s\nLoad: %v\nthe schema: %v\nexpected it to be good: %v", c.file, loaded, checked, c.good)
		}
	}
	var all any
	if err := yaml.Unmarshal([]byte(everyKey), &all); err != nil {
		t.Fatal(err)
	}
	everyKeyIsThere(t, schema, schema, all, "")
}

// everyKeyIsThere reports keys of the schema that a value has not, and keys without a description.
func everyKeyIsThere(t *testing.T, root, schema *jsonschema.Schema, value any, at string) {
	t.Helper()
	if schema.Ref != "" {
		schema = root.Defs["host"]
	}
	fields, _ := value.(map[string]any)
	if values := schema.AdditionalProperties; values != nil && values.Not == nil {
		for _, name := range []string{"acme", "fra", "edge", "w1", "eu"} {
			if one, ok := fields[name]; ok {
				everyKeyIsThere(t, root, values, one, at+"/"+name)
			}
		}
	}
	for key, form := range schema.Properties {
		one, ok := fields[key]
		if !ok {
			t.Errorf("the schema has %s/%s, and no file that Load takes has it here", at, key)
		}
		if form.Description == "" {
			t.Errorf("%s/%s has no description", at, key)
		}
		everyKeyIsThere(t, root, form, one, at+"/"+key)
	}
}

// The inventories that people copy have no mistake in an editor.
func TestSchemaTakesTheExamples(t *testing.T) {
	t.Parallel()
	_, check := compiled(t)
	files, err := filepath.Glob("../../examples/*/hosts.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("the examples are %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := check(guideExample(t)); err != nil {
		t.Errorf("docs/inventory.md: %v", err)
	}
}
