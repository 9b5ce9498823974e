package playbooks

import (
	"encoding/json"
	"strings"
	"testing"
)

// Words of Ansible have a hint with the words of Turnus. A hint that names another key also
// explains why that one is missing, so each mistake is one problem.
func TestHabitsOfAnsible(t *testing.T) {
	t.Parallel()
	params := map[string]string{"command": `"run": {"type": "string"}`, "sysctl": `"key": {"type": "string"}`, "cron": `"name": {"type": "string"}, "command": {"type": "string"}, "schedule": {"type": "string"}`,
		"user": `"name": {"type": "string"}, "groups": {"type": "array"}, "exact": {"type": "boolean"}`, "service": `"enabled": {"type": "boolean"}`, "package": `"names": {"type": "array"}`}
	o := Options{TypeNames: sortedKeys(params), Types: func(name string) (Type, bool) {
		own, ok := params[name]
		return Type{Name: name, Params: json.RawMessage(`{"type": "object", "properties": {` + own + `}, "additionalProperties": false}`)}, ok
	}}
	for step, want := range map[string]string{
		"{uses: sysctl, with: {name: a}}":                                `it is called "key"`,
		"{uses: package, with: {pkg: [a]}}":                              `it is called "names"`,
		"{uses: cron, with: {name: a, job: b}}":                          `it is called "command"`,
		"{uses: cron, with: {name: a, minute: 5}}":                       `schedule: "30 2 * * *"`,
		"{uses: user, with: {name: a, append: true}}":                    "leave it out: groups adds",
		"{uses: service, with: {enabled: yes}}":                          "write true",
		"{uses: service, with: {enabled: Off}}":                          "write false",
		"{uses: command, changed_when: false, with: {run: a}}":           "write changed: false",
		"{uses: command, failed_when: false, with: {run: a}}":            "write ok_codes",
		"{uses: command, environment: {A: b}, with: {run: a}}":           "write env:",
		"{uses: command, run: a}":                                        `params of command stand under "with": with: {run: …}`,
		"{name: a, command: uptime}":                                     "uses: command, with: {…}",
		"{name: a, ansible.builtin.shell: uptime}":                       "write uses: command",
		"{name: a, apt: {name: b}}":                                      "write uses: package",
		"{block: [{uses: command}]}":                                     `a group has "steps"`,
		"{include_tasks: a.yml}":                                         "write include: steps/NAME.yaml",
		"{uses: command, when: '{{ a }}', with: {run: a}}":               "this is Jinja",
		"{uses: command, when: '{{ a }} == 1', with: {run: a}}":          "this is Jinja",
		"{uses: command, foreach: '{{ a }}', with: {run: a}}":            "this is Jinja",
		"{uses: command, when: 'a is changed', with: {run: a}}":          `"is changed" is Jinja, which Turnus does not evaluate`,
		"{uses: command, when: 'a is not defined', with: {run: a}}":      "expected !(…) of NAME != nil",
		`{uses: command, when: '"a is changed" == "b"', with: {run: a}}`: "",
	} {
		_, err := Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n  - "+step+"\n"), o)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Count(got, "p.yaml:") > 1 {
			t.Errorf("%s:\n%s\nexpected %q once", step, got, want)
		}
	}
}

// The hint of a value that YAML reads otherwise shows the quotes that it needs, and the line with
// these quotes is read.
func TestQuotesAroundExpressions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`targets: "web" in host.groups`:              `as a whole: targets: '"web" in host.groups'`,
		`targets: 'web' in host.groups`:              `as a whole: targets: '''web'' in host.groups'`,
		`targets: ${{ map(hosts('true'), #.name) }}`: `begins a comment`,
	} {
		text := "playbook: p\n" + line + "\nsteps: [{uses: x}]\n"
		if strings.Contains(line, "${{") {
			text = "playbook: p\ntargets: true\nsteps:\n  - uses: x\n    with:\n      a: " + strings.TrimPrefix(line, "targets: ") + "\n"
		}
		_, err := Parse("p.yaml", []byte(text), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nexpected %q", line, err, want)
			continue
		}
		if _, fixed, ok := strings.Cut(err.Error(), "as a whole: "); ok {
			fixed, _, _ = strings.Cut(fixed, "\n")
			if _, err := Parse("p.yaml", []byte("playbook: p\n"+fixed+"\nsteps: [{uses: x}]\n"), Options{}); err != nil {
				t.Errorf("%s: %v", fixed, err)
			}
		}
	}
}
