package host

import (
	"fmt"
	"strings"
	"testing"
)

// A manifest is read wherever a playbook is validated: no schema may end the process, as a stack
// that overflows does.
func TestSchemasThatDoNotEndAreRefused(t *testing.T) {
	chain := &strings.Builder{} // each half as many as the one before
	for i := range 40 {
		fmt.Fprintf(chain, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"size":{"$ref":"#/$defs/size"},"more":{"$ref":"#/$defs/size"}},"$defs":{"size":{"type":"integer"}}}`: "",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                                           "", // as deep as the value
		`{"type":"object","properties":{"$ref":{"type":"string"},"allOf":{"type":"string"},"$id":{"type":"string"}}}`: "",
		`{"type":"object","default":{"$ref":"#"}}`:                                                                    "",
		`{"$defs":{"a/b":{"not":{"type":"null"}}},"properties":{"x":{"$ref":"#/$defs/a~1b/not"}}}`:                    "",
		`{"$ref":"#"}`:                                 "refers to itself",
		`{"allOf":[{"$ref":"#"}]}`:                     "refers to itself",
		`{"not":{"anyOf":[{"oneOf":[{"$ref":"#"}]}]}}`: "refers to itself",
		`{"if":{"type":"null"},"then":{"$ref":"#"}}`:   "refers to itself",
		`{"dependentSchemas":{"a":{"$ref":"#"}}}`:      "refers to itself",
		`{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/%61"}}}`: "refers to itself",
		`{"properties":{"x":{"$ref":"#me"}},"$defs":{"a":{"$anchor":"me","$ref":"#me"}}}`:                         "reference",
		`{"$dynamicAnchor":"m","$dynamicRef":"#m"}`:                                                               "not supported",
		`{"properties":{"x":{"$id":"http://example.org/x","$ref":"#"}}}`:                                          "not supported", // its # is itself
		`{` + `"$defs":{` + chain.String() + `"d40":{}},"properties":{"x":{"$ref":"#/$defs/d0"}}}`:                "more than 10000",
	} {
		err := checkSchema([]byte(schema))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: %v, expected %q", schema, err, want)
		}
	}
}
