package host

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Red with words.Explain, Plain and Misfit returning the error as it is, and with the %T of before.
func TestFaultP12NoGoTypesInWhatTheRunnerSays(t *testing.T) {
	goish := regexp.MustCompile(`json: |Go (struct|value)|interface \{\}|map\[|\bwire\.|Manifest\.|jsonschema`)
	parse := func(text string) error { _, err := parseManifest([]byte(text)); return err }
	params := func(schema string) error { return checkSchema(json.RawMessage(schema)) }
	outputs := func(schema, given string) error {
		s, err := outputsOf(Type{Name: "lab.x", Outputs: json.RawMessage(schema)})
		if err != nil {
			return err
		}
		out, err := decodeOutputs([]byte(given))
		return errors.Join(err, s.check(out))
	}
	const size = `{"type":"object","properties":{"size":{"type":"object","properties":{"mb":{"type":"integer","minimum":1}}}}}`
	for want, err := range map[string]error{
		"manifest.protocol: expected a whole number, found \"one\"; take the file away": parse(`{"protocol":"one"}`),
		"manifest.types[0].check: expected true or false, found \"yes\"":                parse(`{"types":[{"check":"yes"}]}`),
		"manifest: expected JSON: ":                                         parse(`{"types":[`),
		"not a JSON Schema: #.properties: expected a mapping, found a list": params(`{"properties":[1]}`),
		"not a JSON Schema: #: expected a schema, found the number 5":       params(`5`),
		"pattern: error parsing regexp":                                     params(`{"pattern":"("}`),
		"outputs.size.mb: expected a whole number, found \"1\"":             outputs(size, `{"size":{"mb":"1"}}`),
		"outputs.size: expected a mapping, found a list":                    outputs(size, `{"size":[]}`),
		"outputs.size: /properties/mb: minimum: ":                           outputs(size, `{"size":{"mb":0}}`),
		"its outputs: expected a mapping, found a list":                     outputs(size, `[1]`),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || goish.MatchString(err.Error()) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if got := eventName(&wire.RunEvent{Event: &wire.RunEvent_Output{}}); got != "an event of kind output" {
		t.Errorf("an event is called %q", got)
	}
	if got := eventName(&wire.RunEvent{}); got != "an empty event" {
		t.Errorf("no event is called %q", got)
	}
	if err := parse(`{"protocol":"one"}`); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("%v is not invalid", err)
	}
}
