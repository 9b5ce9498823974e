package words_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/plugins/sdk/words"
)

type port uint16

type base struct {
	Shared string `json:"shared"`
}

type odd struct{}

func (*odd) UnmarshalJSON([]byte) error { return errors.New("expected an odd number") }

type all struct {
	base
	Path  string                    `json:"path"`
	Ports []struct{ Number port }   `json:"ports"`
	By    map[string]map[string]int `json:"by"`
	When  *time.Time                `json:"when"`
	Odd   *odd                      `json:"odd"`
	On    bool                      `json:"on"`
	Small int8                      `json:"small"`
	Key   []byte                    `json:"key"`
	Any   any                       `json:"any"`
}

// Red with Explain returning the error of encoding/json as it is.
func TestFaultP12DecodersSpeakOfThePlaybook(t *testing.T) {
	for raw, want := range map[string]string{
		`{"path": 5}`:    `with.path: expected text, found the number 5`,
		`{"shared": []}`: `with.shared: expected text, found a list`,
		`{"ports": [{"Number":1},{"number":7e5}]}`: `with.ports[1].number: expected a whole number from 0 to 65535, found the number 7e5`,
		`{"by": {"a/b": {"c": "x"}}}`:              `with.by.a/b.c: expected a whole number, found "x"`,
		`{"by": {"a": 1}}`:                         `with.by.a: expected a mapping, found the number 1`,
		`{"when": 5}`:                              `with.when: expected a time such as "2026-01-02T15:04:05Z", found the number 5`,
		`{"when": "noon"}`:                         `with.when: expected a time such as "2026-01-02T15:04:05Z", found "noon"`,
		`{"odd": 2}`:                               `with.odd: expected an odd number`,
		`{"on": "yes"}`:                            `with.on: expected true or false, found "yes"`,
		`{"small": 128}`:                           `with.small: expected a whole number from -128 to 127, found the number 128`,
		`{"key": {}}`:                              `with.key: expected text in base64, found a mapping`,
		`[]`:                                       `with: expected a mapping, found a list`,
		`{"path":`:                                 `with: expected JSON: unexpected end of JSON input`,
		`{"any": [1]}`:                             ``,
	} {
		err := words.Unmarshal("with", []byte(raw), new(all))
		if fmt.Sprint(err) != want && (err != nil || want != "") {
			t.Errorf("%s:\n got %v\nwant %s", raw, err, want)
		}
		if err != nil && errors.Unwrap(err) == nil {
			t.Errorf("%s: the decoder's error is gone", raw)
		}
	}
}

func TestFaultP12EncodersAndOthersNameNoTypes(t *testing.T) {
	encode := func(v any) error { _, err := json.Marshal(v); return err }
	type node struct{ Next *node }
	loop := &node{}
	loop.Next = loop
	for want, err := range map[string]error{
		"a channel cannot be written as JSON":                     encode(make(chan all)),
		"a function cannot be written as JSON":                    encode(map[string]any{"f": func() {}}),
		"NaN cannot be written as JSON":                           encode(math.NaN()),
		"a value that holds itself cannot be written as JSON":     encode(loop),
		"reading the answer: path: expected text, found a number": fmt.Errorf("reading the answer: %w", json.Unmarshal([]byte(`{"path":5}`), new(all))),
		"line 3: unknown key answrs; line 7: unknown key a":       errors.New("yaml: unmarshal errors:\n  line 3: field answrs not found in type conformance.Lab\n  line 7: field a not found in type conformance.Lab"),
		"line 4: expected a whole number, found text `x`":         errors.New("yaml: unmarshal errors:\n  line 4: cannot unmarshal !!str `x` into int"),
		"line 5: expected a mapping, found a list":                errors.New("yaml: unmarshal errors:\n  line 5: cannot unmarshal !!seq into map[string]interface {}"),
		"the disk is full":                                        errors.New("the disk is full"),
	} {
		got := words.Plain(err)
		if got.Error() != want || !errors.Is(got, err) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if words.Plain(nil) != nil {
		t.Error("an error out of nothing")
	}
}

func TestFaultP12SchemasSpeakOfThePlaybook(t *testing.T) {
	var s jsonschema.Schema
	schema := `{"type":"object","properties":{"sizes":{"type":"array","items":{"type":"integer","minimum":2}},"name":{"type":["string","null"]}},"additionalProperties":false}`
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		`{"sizes": [4, "x"]}`:          `outputs.sizes[1]: expected a whole number, found "x"`,
		`{"sizes": [2.5]}`:             `outputs.sizes[0]: expected a whole number, found the number 2.5`,
		`{"sizes": {"a": 1}}`:          `outputs.sizes: expected a list, found a mapping`,
		`{"name": {"a": true}}`:        `outputs.name: expected text or nothing, found a mapping`,
		`{"sizes": [1]}`:               `outputs: /properties/sizes/items: minimum: 1/1 is less than 2`,
		`{"sizes": [2], "name": null}`: ``,
	} {
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatal(err)
		}
		err := words.Misfit("outputs", &s, v, resolved.Validate(v))
		if want == "" && err != nil || want != "" && !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s:\n got %v\nwant %s", raw, err, want)
		}
	}
}
