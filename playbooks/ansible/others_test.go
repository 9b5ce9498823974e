package ansible

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// Hosts of groups and their vars, as tasks of Ansible read them, and what they become.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	const webs = `hosts('"web" in host.groups')`
	for _, tt := range []struct{ task, want string }{
		{`{command: "ping {{ item }}", loop: "{{ groups['web'] }}"}`, "foreach: " + webs + "\n    with:\n      run: ping \"$VAR_ITEM_NAME\"\n      env:\n        VAR_ITEM_NAME: ${{ item.name }}"},
		{`{command: "ping {{ hostvars[item].port }} {{ hostvars[item]['ansible_host'] }}", with_items: "{{ groups.db }}"}`, "VAR_ITEM_VARS_PORT: ${{ string(item.vars.port) }}\n        VAR_ITEM_ADDRESS: ${{ item.address }}"},
		{`{command: a, loop: "{{ groups['web'] }}", when: item != inventory_hostname}`, "when: item.name != host.name"},
		{`{command: "a {{ hostvars['db1'].port }}"}`, `${{ string(hosts('host.name == "db1"')[0].vars.port) }}`},
		{`{command: "a {{ hostvars[groups['db'][1]].port }}"}`, `${{ string(hosts('"db" in host.groups')[1].vars.port) }}`},
		{`{command: "a {{ groups['all'][0] }}"}`, `${{ hosts('true')[0].name }}`},
		{`{command: "a {{ hostvars[inventory_hostname].port | default(1) }}"}`, `${{ string(host.vars.port ?? 1) }}`},
		{`{command: "a {{ hostvars[inventory_hostname].port }}"}`, "host.vars.port is not defined everywhere"},
		{`{copy: {dest: /a, content: "{{ groups['web'] | join(',') }}"}}`, `${{ join(map(` + webs + `, #.name), ",") }}`},
		{`{command: a, when: "groups['web'] | length > 1"}`, "len(map(" + webs + ", #.name)) > 1"},
		{`{command: a, when: "'db1' in groups['db']"}`, `in map(hosts('"db" in host.groups'), #.name)`},
		{`{command: a, when: "'late' in groups['swapped']"}`, `in map(hosts('"swapped" in host.groups'), #.name)`},

		{`{command: "ping {{ item }}", loop: "{{ groups['swapped'] }}"}`, "group swapped has another order than the inventory"},
		{`{command: "ping {{ item }}", loop: "{{ groups['nobody'] }}"}`, "the inventory has no group nobody"},
		{`{command: "a {{ groups['db'][2] }}"}`, "group db has no host [2]"},
		{`{command: "a {{ hostvars['web2'].ansible_host }}"}`, "the inventory does not define ansible_host of web2"},
		{`{command: "a {{ hostvars['db1'].zone }}"}`, "the inventory does not define zone"},
		{`{command: "a {{ hostvars['web2'].templated }}"}`, "holds Jinja"},
		{`{command: "a {{ hostvars['db3'].port }}"}`, "the inventory has no host db3"},
		{`{command: "a {{ hostvars[item].ansible_os_family }}", loop: "{{ groups['web'] }}"}`, "ansible_os_family of another host is a fact"},
		{`{command: "a {{ hostvars[other].port }}"}`, "the host of hostvars is not known"},
		{`{command: "a {{ hostvars['web1'] }}"}`, "reason:"},
		{`{command: "a {{ groups }}"}`, "groups has no equivalent"},
	} {
		hosts := append(slices.Clone(someHosts), core.Host{Name: "late", Groups: []string{"swapped"}}, core.Host{Name: "later", Groups: []string{"swapped"}})
		hosts[2].Address, hosts[3].Address = "192.0.2.1", "192.0.2.2"
		o := Options{Site: "site.yml", Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - " + tt.task + "\n"}), Hosts: hosts}
		o.Members = func(group string) []string {
			if group == "swapped" {
				return []string{"later", "late"}
			}
			return namesOf(slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return group != "all" && !slices.Contains(h.Groups, group) }))
		}
		if got := strings.ReplaceAll(converted(t, o).Playbooks[0].Text, "''", "'"); !strings.Contains(got, tt.want) {
			t.Errorf("%s becomes\n%s\nwant %s", tt.task, got, tt.want)
		}
		o.Hosts, o.Members = nil, nil
		if p := converted(t, o).Playbooks[0]; len(p.Todos) == 0 {
			t.Errorf("%s converts without an inventory", tt.task)
		}
		o.Hosts = append(hosts, core.Host{Name: "other", Customer: "globex"})
		if p := converted(t, o).Playbooks[0]; len(p.Todos) == 0 && !strings.Contains(tt.task, "inventory_hostname]") {
			t.Errorf("%s converts over several customers", tt.task)
		}
	}
}
