package playbooks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// A comparison that the playbook has as text is refused, and a value that looks like one is not.
func TestComparisonsAreExpressions(t *testing.T) {
	t.Parallel()
	guard := playbooks.Type{Name: "guard", Params: json.RawMessage(`{"type": "object", "properties": {
		"that": {"type": "array", "items": {"x-turnus-condition": true}}, "one": {"type": "string", "x-turnus-condition": true}, "plain": {"type": "string"}}}`)}
	o := playbooks.Options{Types: func(string) (playbooks.Type, bool) { return guard, true }}
	for with, want := range map[string]string{
		`{that: [true, "1.4", "a<b", "aGVsbG8=="], plain: "a == b"}`:  "",
		`{that: ["${{ vars.text }}", "${{ vars.text }} at hand"]}`:    "",
		`{that: "${{ vars.list }}", one: "${{ vars.text }}"}`:         "",
		`{that: ['vars.text == "b"']}`:                                `param "that[0]" is text, which always holds|write ${{ vars.text == "b" }}`,
		`{that: [true, vars.a && vars.b], plain: "${{ vars.text }}"}`: `param "that[1]"|write ${{ vars.a && vars.b }}`,
		`{that: ["${{ vars.text }} == b"]}`:                           "write ${{ vars.text == b }}",
		`{one: vars.text > 1}`:                                        `param "one"`,
	} {
		p, err := playbooks.Parse("a.yaml", []byte("playbook: a\ntargets: true\nvars: {text: disk a > b, list: [a == b]}\nsteps:\n  - {name: s, uses: guard, with: "+with+"}\n"), o)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", with, err)
			} else if _, err := p.Steps[0].With.JSON(playbooks.Env{Vars: map[string]any{"text": "disk a > b", "list": []any{"a == b"}}}); err != nil {
				t.Errorf("%s in a run: %v", with, err)
			}
			continue
		}
		for part := range strings.SplitSeq(want, "|") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %s", with, err, part)
			}
		}
	}
}
