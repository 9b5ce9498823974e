package playbooks

import (
	"strings"
	"testing"
)

// A step that an import left is refused with its source, whatever else it has, and is no unknown
// job type.
func TestTodoNamesItsSource(t *testing.T) {
	types := Options{Types: func(string) (Type, bool) { return Type{}, false }, TypeNames: []string{"command"}}
	for name, one := range map[string]struct{ step, want string }{
		"whole": {"{name: a, uses: todo, with: {source: 'site.yml:3:5', module: apt, reason: no job type, instead: 'uses: command', was: 'x: {{ y }} ${{ z }}'}}",
			"this task is not converted yet: apt at site.yml:3:5: no job type"},
		"bare":  {"{uses: todo}", "expected uses: and a job type of Turnus"},
		"wrong": {"{uses: todo, with: [1]}", "this task is not converted yet"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "playbook: p\ntargets: true\nsteps:\n  - " + one.step + "\n"
			_, err := Parse("p.yaml", []byte(text), types)
			if err == nil || !strings.Contains(err.Error(), one.want) || !strings.Contains(err.Error(), "p.yaml:4:") {
				t.Fatalf("%v, expected %q", err, one.want)
			}
			if strings.Contains(err.Error(), "unknown job type") || strings.Contains(err.Error(), "Jinja") || strings.Count(err.Error(), "p.yaml:") > 1 {
				t.Errorf("more than one problem: %v", err)
			}
		})
	}
	_, err := Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n  - {uses: comand}\n"), types)
	if err == nil || !strings.Contains(err.Error(), "unknown job type") {
		t.Errorf("negative control: %v", err)
	}
}
