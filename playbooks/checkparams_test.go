package playbooks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// A job type's problem with params has the place of the value that its JSON pointer names; params
// with expressions are not asked about. Red with the pointer left out of diagnose: every place is
// that of with.
func TestFaultP8ProblemsOfAJobTypeHaveTheirPlace(t *testing.T) {
	const file = `playbook: a
targets: "true"
steps:
  - name: one
    uses: lab
    with:
      url: http://a
      headers:
        - x/y: 1
        - z: 2
  - name: two
    uses: lab
    notify: [three]
    with: {url: "${{ host.name }}"}
handlers:
  - {name: three, uses: lab, with: {url: b}}
`
	parse := func(ask func(uses string, params []byte) ([]playbooks.ParamProblem, error)) (*playbooks.Playbook, playbooks.Diagnostics) {
		types := func(name string) (playbooks.Type, bool) { return playbooks.Type{Name: name}, true }
		p, err := playbooks.Parse("a.yaml", []byte(file), playbooks.Options{Types: types, Ask: ask})
		problems, _ := errors.AsType[playbooks.Diagnostics](err)
		return p, problems
	}
	for _, tc := range []struct{ pointer, place, text string }{
		{"", "a.yaml:7:7", `step "one": with: bad`},
		{"/url", "a.yaml:7:12", `step "one": param "url": bad`},
		{"/headers/1/z", "a.yaml:10:14", `step "one": param "headers[1].z": bad`},
		{"/headers/0/x~1y", "a.yaml:9:16", `step "one": param "headers[0].x/y": bad`},
		{"/headers/7/z", "a.yaml:9:9", `step "one": param "headers[7].z": bad`},
		{"/absent", "a.yaml:7:7", `step "one": param "absent": bad`},
		{"nonsense//\x1b", "a.yaml:7:7", `step "one": param "nonsense.\x1b": bad`},
	} {
		asked := 0
		_, problems := parse(func(uses string, params []byte) ([]playbooks.ParamProblem, error) {
			asked++
			if uses != "lab" || !json.Valid(params) {
				t.Errorf("asked %s about %s", uses, params)
			}
			if asked > 1 {
				return nil, nil
			}
			return []playbooks.ParamProblem{{Pointer: tc.pointer, Message: "bad", Hint: "good"}}, nil
		})
		if asked != 2 || len(problems) != 1 {
			t.Fatalf("%s: asked %d times, %v", tc.pointer, asked, problems)
		}
		if d := problems[0]; d.Place() != tc.place || d.Message != tc.text || d.Hint != "good" {
			t.Errorf("%s: %s: %s (%s)", tc.pointer, d.Place(), d.Message, d.Hint)
		}
	}
	p, problems := parse(func(_ string, params []byte) ([]playbooks.ParamProblem, error) {
		if strings.Contains(string(params), `"b"`) {
			return []playbooks.ParamProblem{{Pointer: "/url", Message: "old", Warning: true}}, nil
		}
		return nil, nil
	})
	if len(problems) > 0 || len(p.Warnings) != 1 || p.Warnings[0].Line != 16 || !strings.Contains(p.Warnings[0].Message, `step "three"`) {
		t.Errorf("warnings of %+v; problems %v", p, problems)
	}
	_, problems = parse(func(string, []byte) ([]playbooks.ParamProblem, error) { return nil, errors.New("plugin lab died") })
	if len(problems) != 2 || problems[0].Line != 4 || !strings.Contains(problems[0].Message, `step "one": its params were not checked: plugin lab died`) {
		t.Errorf("%v", problems)
	}
}
