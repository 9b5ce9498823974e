package host

import (
	"encoding/json"
	"strings"
	"testing"
)

// Outputs of a plugin are checked against its type, before a later step reads them. Red with the
// check in once taken out.
func TestFaultW12OutputsAreHeldToTheirSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"host":{"type":"integer"}},"additionalProperties":false}`:      `output "attempt" is not declared`,
		`{"type":"object","properties":{"host":{"type":"integer"}}}`:                                   `output "host" is not what the job type declares`,
		`{"type":"object","properties":{"host":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`: "",
		``: "",
	} {
		b := open(t, &fleet{}, func(_ *Config, m *Manifest, _ *[]string) {
			for i := range m.Types {
				if m.Types[i].Name == "lab.echo" && schema != "" {
					m.Types[i].Outputs = json.RawMessage(schema)
				}
			}
		})
		out, err := b.Run(t.Context(), call("echo", labParams{}))
		if err != nil || out.Failed != (want != "") || out.Misfit != out.Failed || !strings.Contains(out.Reason, want) {
			t.Errorf("%s: %+v, %v, expected %q", schema, out, err, want)
		}
	}
}
