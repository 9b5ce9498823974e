package sources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema (draft 2020-12) of a file of sources. Editors complete and check with
// it; Parse checks more.
func Schema() ([]byte, error) {
	source := &jsonschema.Schema{Type: "object", Properties: fieldSchemas(), Required: []string{"type"}, AdditionalProperties: never()}
	for _, kind := range []Kind{NetBox, HTTP, Exec} {
		var name any = string(kind)
		then := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}, Required: keysOf(kind)[:1]}
		for key := range source.Properties {
			if !slices.Contains(commonKeys(), key) && !slices.Contains(keysOf(kind), key) {
				then.Properties[key] = never()
			}
		}
		source.AllOf = append(source.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"type": {Const: &name}}, Required: []string{"type"}},
			Then: then,
		})
	}
	root := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "Turnus sources of hosts", Type: "object", Required: []string{"sources"}, AdditionalProperties: never(),
		Properties: map[string]*jsonschema.Schema{"sources": {
			Type: "object", Description: "Sources by their names.", MaxProperties: new(maxSources),
			PropertyNames: &jsonschema.Schema{Pattern: nameForm().String()}, AdditionalProperties: source,
		}},
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of sources: %w", err)
	}
	return append(out, '\n'), nil
}

func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// fieldSchemas are those of the keys of a source.
func fieldSchemas() map[string]*jsonschema.Schema {
	text := func(doc string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", MinLength: new(1), Description: doc}
	}
	words := func(all ...string) (out []any) {
		for _, word := range all {
			out = append(out, word)
		}
		return out
	}
	const duration = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	record := &jsonschema.Schema{Enum: words(slices.Sorted(maps.Keys(recordPaths))...)}
	scalar := &jsonschema.Schema{Types: []string{"string", "number", "boolean"}, MinLength: new(1)}
	return map[string]*jsonschema.Schema{
		"type":    {Enum: words(string(NetBox), string(HTTP), string(Exec)), Description: "The kind of system that is asked."},
		"url":     {Type: "string", Pattern: "^https?://", Description: "Of netbox and http, without a user and a password."},
		"program": text("Of exec: an absolute path, or one below the folder of this file."),
		"tenant":  text("Customer of all its hosts; without it each host names its customer."),
		"token":   text("Name of a secret in the file of secrets, not the secret itself."),
		"ca_file": text("Certificate authorities in addition to those of the system."),
		"records": {Description: "Of netbox: what is asked for; devices when not given.", AnyOf: []*jsonschema.Schema{record, {Type: "array", Items: record}}},
		"filter": {Type: "object", Description: "Of netbox: names and values of its filters.", PropertyNames: &jsonschema.Schema{Not: &jsonschema.Schema{Enum: words(ownFilters...)}},
			AdditionalProperties: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{scalar, {Type: "array", MinItems: new(1), Items: scalar}}}},
		"map": {Type: "object", Description: "Of netbox: fields of a host, and the paths of their values in a record; null takes a default away.",
			PropertyNames:        &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Enum: words(plainFields...)}, {Pattern: `^(labels|vars)\..+$`}}},
			AdditionalProperties: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: pathForm().String()}, {Type: "null"}}}},
		"every":   {Type: "string", Pattern: duration, Description: "Time between fetches; 10m when not given."},
		"max_age": {Type: "string", Pattern: duration, Description: "Age of the last good hosts at which launches on them are refused; 24h when not given."},
		"review": {Type: "object", Description: "Changes that wait for approval.", AdditionalProperties: never(), Properties: map[string]*jsonschema.Schema{
			"removed": {Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?%$`, Description: "Share of the hosts that a fetch may lack without approval; 5% when not given."},
		}},
	}
}
