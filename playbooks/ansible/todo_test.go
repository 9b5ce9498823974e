package ansible

import (
	"strings"
	"testing"
)

// A todo has the keys that its task inherits, and those of the todo step are Turnus's. Without them
// a person who replaces the step runs it on more hosts, or as another user. around has what does
// not translate. Taken out of todo, inherit leaves every case with a bare step.
func TestTodosInherit(t *testing.T) {
	t.Parallel()
	const block = "hosts: all\ntasks: [{block: [{no.such: {a: b}}], when: inventory_hostname == 'web1', become: yes, become_user: postgres, tags: [db]}]"
	for name, one := range map[string]struct{ play, want string }{
		"block":        {block, "- uses: todo\n    when: host.name == \"web1\"\n    become:\n      user: postgres\n    with:\n"},
		"tags":         {block, "\n    tags: [db]\n"},
		"role":         {"hosts: all\nroles: [{role: r, when: port == 80, tags: [base]}]", "- uses: todo\n    when: host.vars.port == 80\n    with:\n"},
		"include":      {"hosts: all\ntasks: [{include_tasks: more.yml, when: port > 80}]", "- uses: todo\n    when: host.vars.port > 80\n"},
		"no include":   {"hosts: all\ntasks: [{block: [{include_tasks: none.yml}], when: port > 80}]", "- uses: todo\n    when: host.vars.port > 80\n"},
		"inner block":  {"hosts: all\ntasks: [{block: [{block: [{command: a}], no_such: x}], ignore_errors: yes}]", "\n    continue_on_failure: true\n"},
		"notify":       {"hosts: all\ntasks: [{block: [{no.such: {}}], notify: h}]\nhandlers: [{name: h, command: b}]", "\n    notify: [h]\n"},
		"handler":      {"hosts: all\nbecome: yes\ntasks: [{command: a, notify: h}]\nhandlers: [{name: h, no.such: {}}]", "- name: h\n    uses: todo\n    with:\n"},
		"around":       {"hosts: all\ntasks: [{block: [{no.such: {}}], when: [x | bool, port > 80], environment: {A: b}}]", "    when: host.vars.port > 80\n    with:\n"},
		"around words": {"hosts: all\ntasks: [{block: [{no.such: {}}], when: [x | bool, port > 80], environment: {A: b}}]", "      around: |\n        when: [x | bool]\n        environment: {A: b}\n"},
		"own keys":     {"hosts: all\ntasks: [{no.such: {}, when: port > 80, tags: [x]}]", "- uses: todo\n    with:\n"},
	} {
		files := map[string]string{"site.yml": "- " + strings.ReplaceAll(one.play, "\n", "\n  ") + "\n", "more.yml": "- no.such: {}\n", "roles/r/tasks/main.yml": "- no.such: {}\n"}
		p := converted(t, Options{Tree: tree(files), Site: "site.yml", Hosts: someHosts}).Playbooks[0]
		if !strings.Contains(p.Text, one.want) {
			t.Errorf("%s: no %q in\n%s", name, one.want, p.Text)
		}
	}
}
