package ansible

import (
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// withVars is hosts with more vars: those of groups, then those of hosts, by name.
func withVars(hosts []core.Host, vars map[string]map[string]any) []core.Host {
	var out []core.Host
	for _, h := range hosts {
		h.Vars = maps.Clone(h.Vars)
		for _, of := range append(append([]string{"all"}, h.Groups...), h.Name) {
			maps.Copy(h.Vars, vars[of])
		}
		out = append(out, h)
	}
	return out
}

// Ansible reads group_vars and host_vars beside the playbook; a run of Turnus does not.
func TestVarsBesideThePlaybook(t *testing.T) {
	const files = "group_vars/all.yml"
	for name, one := range map[string]struct {
		play, file, text string
		hosts            []core.Host
		vars             map[string]map[string]any // that the files add
		read             bool                      // the inventory reads the files itself
		want             string
	}{
		"no inventory":    {file: files, text: "tier: gold\n", want: "reason: 'tier is set at group_vars/all.yml:1:1, beside the playbook: Turnus reads vars beside the inventory'"},
		"not used":        {file: files, text: "other: gold\n", want: "reason: tier is not defined in the playbook"},
		"the inventory's": {file: files, text: "tier: gold\n", hosts: withVars(someHosts, map[string]map[string]any{"all": {"tier": "gold"}}), read: true, want: "VAR_TIER: ${{ host.vars.tier }}"},
		"equal to it":     {file: files, text: "tier: gold\n", hosts: withVars(someHosts, map[string]map[string]any{"all": {"tier": "gold"}}), vars: map[string]map[string]any{"all": {"tier": "gold"}}, want: "VAR_TIER: ${{ host.vars.tier }}"},
		"of all":          {file: files, text: "tier: gold\n", hosts: someHosts, vars: map[string]map[string]any{"all": {"tier": "gold"}}, want: "vars:\n  tier: gold\n"},
		"with Jinja":      {file: files, text: "tier: 'a{{ port }}'\n", hosts: someHosts, vars: map[string]map[string]any{"all": {"tier": "a{{ port }}"}}, want: "VAR_PORT: ${{ string(host.vars.port) }}"},
		"of some":         {file: "group_vars/web.yml", text: "\ntier: gold\n", hosts: someHosts, vars: map[string]map[string]any{"web": {"tier": "gold"}}, want: "tier is set at group_vars/web.yml:2:1, beside"},
		"of the group":    {play: "hosts: web", file: "group_vars/web/more.yml", text: "tier: gold\n", hosts: someHosts, vars: map[string]map[string]any{"web": {"tier": "gold"}}, want: "vars:\n  tier: gold\n"},
		"overridden":      {file: files, text: "tier: gold\n", hosts: someHosts, vars: map[string]map[string]any{"all": {"tier": "gold"}, "db1": {"tier": "tin"}}, want: "tier is set at group_vars/all.yml:1:1, beside"},
		"another group":   {file: "group_vars/mail.yml", text: "tier: gold\n", hosts: withVars(someHosts, map[string]map[string]any{"all": {"tier": "tin"}}), vars: map[string]map[string]any{"all": {"tier": "tin"}}, want: "VAR_TIER: ${{ host.vars.tier }}"},
		"of a host":       {file: "host_vars/web1.example.net", text: "tier: gold\n", want: "tier is set at host_vars/web1.example.net:1:1, beside"},
		"the play's":      {play: "hosts: all\nvars: {tier: tin}", file: files, text: "tier: gold\n", want: "vars:\n  tier: tin\n"},
		"a login":         {file: files, text: "ansible_user: deploy\n", want: "reason: 'ansible_user belongs to the inventory: Turnus reads no vars beside the playbook'"},
		"an interpreter":  {play: "hosts: all\nvars: {tier: tin}", file: files, text: "ansible_python_interpreter: /usr/bin/python3\n", want: "steps:\n  - uses: command"},
		"a vault":         {file: "group_vars/all/vault.yml", text: "$ANSIBLE_VAULT;1.1;AES256\n6162\n", want: "reason: group_vars/all/vault.yml is encrypted with Ansible Vault"},
		"hidden":          {file: "group_vars/.all.yml", text: "tier: gold\n", want: "reason: tier is not defined in the playbook"},
		"role default":    {play: "hosts: all\nroles: [r]", file: files, text: "tier: gold\n", hosts: someHosts, vars: map[string]map[string]any{"all": {"tier": "gold"}}, want: "vars:\n  tier: gold\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if one.play == "" {
				one.play = "hosts: all"
			}
			if !strings.Contains(one.play, "roles:") {
				one.play += "\ntasks: [{shell: 'x {{ tier }}'}]"
			}
			text := "- " + strings.ReplaceAll(one.play, "\n", "\n  ") + "\n"
			o := Options{Site: "site.yml", Hosts: one.hosts, Tree: tree(map[string]string{
				"site.yml": text, one.file: one.text,
				"roles/r/tasks/main.yml": "- shell: x {{ tier }}\n", "roles/r/defaults/main.yml": "tier: tin\n",
			})}
			if one.hosts != nil && !one.read {
				o.Beside = withVars(one.hosts, one.vars)
			}
			if got := converted(t, o).Playbooks[0].Text; !strings.Contains(got, one.want) {
				t.Errorf("no %q in\n%s", one.want, got)
			}
		})
	}
}

// Ansible runs a role once a play, unless its uses differ or it allows duplicates.
func TestARoleRunsOnceAPlay(t *testing.T) {
	for name, one := range map[string]struct {
		roles, meta, tasks string
		runs               int
		want               string
	}{
		"twice":            {roles: "[r, {role: r}]", runs: 1},
		"allowed":          {roles: "[r, r]", meta: "allow_duplicates: yes\n", runs: 2},
		"other tags":       {roles: "[r, {role: r, tags: [b]}]", runs: 2},
		"same tags":        {roles: "[{role: r, tags: b}, {role: r, tags: [b]}]", runs: 1},
		"other params":     {roles: "[r, {role: r, size: 1}]", runs: 2},
		"same params":      {roles: "[{role: r, size: 1, on: yes}, {role: r, on: true, size: 1}]", runs: 1},
		"vars, not params": {roles: "[{role: r, size: 1}, {role: r, vars: {size: 1}}]", runs: 2},
		"another user":     {roles: "[r, {role: r, become: true}]", runs: 1},
		"a condition":      {roles: "[r, {role: r, when: inventory_hostname == 'a'}]", runs: 2},
		"conditions":       {roles: "[{role: r, when: inventory_hostname == 'a'}, {role: r, when: inventory_hostname == 'a'}]", runs: 1, want: "Ansible runs it again where the first use ran no task"},
		"all conditional":  {roles: "[r, r]", tasks: "- {command: uptime, when: inventory_hostname == 'a'}\n", runs: 1, want: "Ansible runs it again"},
		"included":         {roles: "[r]\n  tasks: [{import_role: {name: r}}, {include_role: {name: r}}]", runs: 3},
		"not read":         {roles: "[{role: r, public: yes}, r]", runs: 1, want: "public of a role has no equivalent"},
	} {
		t.Run(name, func(t *testing.T) {
			if one.tasks == "" {
				one.tasks = "- command: uptime\n"
			}
			p := converted(t, Options{Site: "site.yml", Tree: tree(map[string]string{
				"site.yml": "- hosts: all\n  roles: " + one.roles + "\n", "roles/r/tasks/main.yml": one.tasks, "roles/r/meta/main.yml": one.meta,
			})}).Playbooks[0]
			if n := strings.Count(p.Text, "run: uptime"); n != one.runs || !strings.Contains(p.Text, one.want) || (one.want == "") != (len(p.Todos) == 0) {
				t.Errorf("%d uses run, want %d; want %q in\n%s", n, one.runs, one.want, p.Text)
			}
		})
	}
}
