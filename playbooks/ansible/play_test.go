package ansible

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/turnus/turnus/core"
)

func converted(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Convert(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Playbooks {
		holds(t, p)
	}
	return r
}

var someHosts = []core.Host{
	{Name: "web1", Groups: []string{"shop", "web"}, Vars: map[string]any{"port": 80, "zone": "a", "odd": "a b"}},
	{Name: "web2", Groups: []string{"shop", "web"}, Vars: map[string]any{"port": 81, "zone": "b", "templated": "{{ port }}"}},
	{Name: "db1", Groups: []string{"db", "shop"}, Vars: map[string]any{"port": 5432}},
	{Name: "db2", Groups: []string{"db", "shop"}, Vars: map[string]any{"port": 5432}},
}

// Each keyword of a play, and what it becomes: a part of the playbook, or of the reason of a todo.
func TestPlaysBecomePlaybooks(t *testing.T) {
	for name, one := range map[string]struct {
		play  string
		hosts []core.Host
		want  string
	}{
		"all":           {play: "hosts: all", want: "\ntargets: true\n"},
		"group or host": {play: "hosts: web", want: `targets: '"web" in host.groups || host.name == "web"'`},
		"group":         {play: "hosts: web", hosts: someHosts, want: `targets: '"web" in host.groups'`},
		"host":          {play: "hosts: web1", hosts: someHosts, want: `targets: host.name == "web1"`},
		"nothing":       {play: "hosts: wev", hosts: someHosts, want: "reason: the inventory has no group or host wev"},
		"union":         {play: "hosts: web:db", hosts: someHosts, want: `targets: '"web" in host.groups || "db" in host.groups'`},
		"intersection":  {play: "hosts: shop:&web:!web1", hosts: someHosts, want: `targets: '"shop" in host.groups && "web" in host.groups && !(host.name == "web1")'`},
		"union in all":  {play: "hosts: ['web', 'db:!web1']", hosts: someHosts, want: `targets: ("web" in host.groups || "db" in host.groups) && !(host.name == "web1")`},
		"wildcard":      {play: "hosts: 'web*'", want: `host.name startsWith "web"`},
		"local":         {play: "hosts: localhost", want: "reason: Turnus reaches hosts with SSH"},
		"range":         {play: "hosts: 'web[0]'", want: "reason: the pattern is not a group or a host"},
		"jinja":         {play: "hosts: '{{ x }}'", want: "reason: the value {{ x }} holds Jinja, and only a literal value converts here"},

		"serial one":      {play: "hosts: all\nserial: 1", want: "  max_in_flight: 1\n  stop_after: 1\n  stop_unreachable: 1\n"},
		"serial to all":   {play: "hosts: all\nserial: [1, 5, '100%']", want: "  waves: [1, 6, 100%]\n"},
		"serial open":     {play: "hosts: all\nserial: 2", want: "reason: batches of 2 end where the hosts end"},
		"serial counted":  {play: "hosts: all\nserial: 1\nany_errors_fatal: false", want: "max_in_flight: 1"},
		"serial hosts":    {play: "hosts: all\nserial: [1, 2]", hosts: someHosts, want: "  waves: [1, 3, 100%]\n"},
		"serial share":    {play: "hosts: all\nserial: '50%'", hosts: someHosts, want: "  waves: [2, 100%]\n"},
		"fail share":      {play: "hosts: all\nmax_fail_percentage: 25", hosts: someHosts, want: "  stop_after: 2\n"},
		"fail unknown":    {play: "hosts: all\nmax_fail_percentage: 25", want: "reason: 'Ansible stops above 25%"},
		"fail none":       {play: "hosts: all\nany_errors_fatal: true", want: "  stop_after: 1\n  stop_unreachable: 1\n"},
		"become":          {play: "hosts: all\nbecome: true\ntasks: [{command: a}, {command: b, become_user: app}, {command: c, become: no}]", want: "become: true\n\nsteps:\n  - uses: command\n    with:\n      run: a\n\n  - uses: command\n    become:\n      user: app\n    with:\n      run: b\n\n  - uses: command\n    become: false\n"},
		"become user":     {play: "hosts: all\nbecome: true\nbecome_user: app", want: "become:\n  user: app\n"},
		"become method":   {play: "hosts: all\nbecome_method: doas", want: "belongs to the inventory"},
		"become su":       {play: "hosts: all\nbecome_method: su", want: "reason: 'Turnus has no become_method: su'\n      instead: sudo or doas on the hosts (docs/become.md)\n"},
		"become false":    {play: "hosts: all\nbecome: no", want: "steps:\n  - uses: command\n"},
		"connection":      {play: "hosts: all\nconnection: local", want: "reason: Turnus reaches hosts with SSH only"},
		"tags":            {play: "hosts: all\ntags: [web, blue]", want: "    tags: [web, blue]\n"},
		"ignore":          {play: "hosts: all\nignore_errors: yes", want: "    continue_on_failure: true\n"},
		"unknown":         {play: "hosts: all\nmodule_defaults: {}", want: "reason: module_defaults of a play has no equivalent"},
		"prompt":          {play: "hosts: all\nvars_prompt: [{name: release, prompt: Which release, private: no}]\nvars: {release: old}\ntasks: [{command: 'deploy {{ release }}', when: release != 'x'}]", want: "params:\n  release:\n    type: string\n    description: Which release\n    required: true\n\nsteps:\n  - uses: command\n    when: params.release != \"x\"\n    with:\n      run: deploy \"$VAR_PARAMS_RELEASE\"\n"},
		"prompt default":  {play: "hosts: all\nvars_prompt: [{name: n, private: no, default: 3, confirm: yes}]", want: "params:\n  n:\n    type: string\n    default: \"3\"\n"},
		"prompt secret":   {play: "hosts: all\nvars_prompt: [{name: pass, prompt: Password}]\ntasks: [{copy: {dest: /x, content: '{{ pass }}'}}]", want: "    type: secret\n    description: Password\n    required: true\n\nsteps:\n  - uses: todo\n    with:\n      source: site.yml:3:11\n      module: copy\n      reason: pass is a secret, and an expression cannot read it\n      instead: 'secrets: {PASS: \"${{ params.pass }}\"} in the step, and \"$PASS\" in run (docs/params.md)'\n"},
		"prompt text":     {play: "hosts: all\nvars_prompt: [{name: pass, default: secret}]", want: "reason: the default of pass is a secret in plain text"},
		"prompt hash":     {play: "hosts: all\nvars_prompt: [{name: pass, encrypt: sha512_crypt}]\ntasks: [{command: 'x {{ pass }}'}]", want: "reason: encrypt of vars_prompt has no equivalent"},
		"prompt and file": {play: "hosts: all\nvars_prompt: [{name: colour, private: no}]\nvars_files: [v.yml]\ntasks: [{shell: 'echo {{ colour }}'}]", want: "reason: colour is also a var of vars_prompt"},
		"description":     {play: "name: Web servers, all\nhosts: all", want: "playbook: web-servers-all\ndescription: Web servers, all\n"},
		"comment":         {play: "hosts: all # every one", want: "# From site.yml:1:3, by turnus import ansible.\n"},
		"strategy free":   {play: "hosts: all\nstrategy: free", want: "steps:\n  - uses: command\n"},
		"vars file":       {play: "hosts: all\nvars_files: [v.yml]\ntasks: [{shell: 'echo {{ colour }}'}]", want: "vars:\n  colour: red\n"},
		"vars file vault": {play: "hosts: all\nvars_files: vault.yml", want: "encrypted with Ansible Vault"},

		"host var":         {play: "hosts: all\ntasks: [{command: 'nc {{ port }}'}]", hosts: someHosts, want: "run: nc \"$VAR_PORT\"\n      env:\n        VAR_PORT: ${{ string(host.vars.port) }}\n"},
		"host name":        {play: "hosts: all\ntasks: [{command: 'lb drain {{ inventory_hostname }}'}]", hosts: someHosts, want: "run: lb drain \"$VAR_HOST_NAME\"\n      env:\n        VAR_HOST_NAME: ${{ host.name }}\n"},
		"odd host name":    {play: "hosts: all\ntasks: [{command: 'lb drain {{ inventory_hostname }}'}]", hosts: []core.Host{{Name: "a;b"}}, want: `host.name may hold "a;b", which a shell reads differently`},
		"no host name":     {play: "hosts: all\ntasks: [{command: 'lb drain {{ inventory_hostname }}'}]", want: "reason: host.name may hold characters that a shell interprets"},
		"packages":         {play: "hosts: all\nvars: {list: [nginx, curl]}\ntasks: [{apt: {name: '{{ list }}'}}]", want: "names: ${{ vars.list }}"},
		"packages of some": {play: "hosts: web\ntasks: [{apt: {name: '{{ list }}'}}]", hosts: []core.Host{{Name: "web1", Groups: []string{"web"}, Vars: map[string]any{"list": []any{"nginx"}}}, {Name: "db1"}}, want: "names: ${{ host.vars.list }}"},
		"odd packages":     {play: "hosts: all\nvars: {list: [nginx, -y]}\ntasks: [{apt: {name: '{{ list }}'}}]", want: "reason: vars.list is not a list with plain names of packages only"},
		"host var in sh":   {play: "hosts: all\ntasks: [{command: 'x {{ odd }}'}]", hosts: someHosts, want: `reason: host.vars.odd may hold "a b", which a shell reads differently`},
		"host var jinja":   {play: "hosts: all\ntasks: [{command: 'x {{ templated }}'}]", hosts: someHosts, want: "reason: the value of templated in the inventory holds Jinja"},
		"defined":          {play: "hosts: all\ntasks: [{command: x, when: zone is defined}]", hosts: someHosts, want: "when: host.vars.zone != nil"},
		"undefined":        {play: "hosts: all\ntasks: [{command: x, when: nowhere is not defined}]", hosts: someHosts, want: "steps:\n  - uses: command\n    with:\n"},
		"default":          {play: "hosts: all\ntasks: [{shell: 'x {{ zone | default(\"c\") }}'}]", hosts: someHosts, want: `VAR_ZONE: ${{ host.vars.zone ?? "c" }}`},
		"skipped defined":  {play: "hosts: all\ntasks: [{command: a, register: s, when: 1 == 2 or zone is defined}, {command: b, when: s.skipped is defined}, {command: c, when: s.skipped is not defined}]", hosts: someHosts, want: "when: steps.s.outcome == \"skipped\"\n    with:\n      run: b\n\n  - uses: command\n    when: '!(steps.s.outcome == \"skipped\")'"},
		"not everywhere":   {play: "hosts: all\ntasks: [{command: x, when: zone == 'a'}]", hosts: someHosts, want: "reason: host.vars.zone is not defined on every host"},
		"mixed types":      {play: "hosts: all\ntasks: [{command: x, when: port == '80'}]", hosts: someHosts, want: "reason: the types of host.vars.port and \"80\" are not known to be the same"},
		"managed":          {play: "hosts: all\ntasks: [{copy: {content: '# {{ ansible_managed }}', dest: /etc/a}}]", hosts: someHosts, want: "content: '# ${{ \"Ansible managed\" }}'"},
		"managed var":      {play: "hosts: all\nvars: {ansible_managed: x}\ntasks: [{copy: {content: '{{ ansible_managed }}', dest: /etc/a}}]", hosts: someHosts, want: "ansible_managed is a fact or a setting"},
		"play beats host":  {play: "hosts: all\nvars: {port: 1}\ntasks: [{shell: 'x {{ port }}'}]", hosts: someHosts, want: "VAR_PORT: ${{ string(vars.port) }}"},
		"yaml 1.1":         {play: "hosts: all\nvars: {a: 0644}\ntasks: [{shell: 'x {{ a }}'}]", want: "reason: 'a: YAML 1.1 and 1.2 read 0644 differently'"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(one.play, "tasks:") {
				one.play += "\ntasks: [{command: uptime}]"
			}
			text := "- " + strings.ReplaceAll(one.play, "\n", "\n  ") + "\n"
			r := converted(t, Options{Tree: tree(map[string]string{"site.yml": text, "v.yml": "colour: red\n", "vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"}), Site: "site.yml", Hosts: one.hosts})
			if got := r.Playbooks[0].Text; !strings.Contains(got, one.want) {
				t.Errorf("no %q in\n%s", one.want, got)
			}
		})
	}
}

func TestHandlersKeepOrderAndTopics(t *testing.T) {
	r := converted(t, Options{Site: "site.yml", Tree: tree(map[string]string{
		"site.yml": `
- hosts: all
  force_handlers: true
  roles: [base]
  pre_tasks:
    - {command: a, notify: first}
  tasks:
    - {command: b, notify: [topic]}
    - {command: c, notify: nobody}
    - {command: d, notify: Topik}
  handlers:
    - {name: second, command: two, listen: topic}
    - {name: third, command: three, listen: [topic, other]}
    - {name: fourth, command: four, notify: first}
    - {name: first, command: newer}
`,
		"roles/base/tasks/main.yml":    "- {command: r, notify: of role}\n",
		"roles/base/handlers/main.yml": "- {name: of role, command: role}\n- {name: first, command: one}\n",
	})})
	p := r.Playbooks[0]
	for _, want := range []string{"notify: [first]", "- flush: handlers", "notify: [second, third]", "reason: no handler is named nobody\n", "reason: no handler is named Topik\n      instead: 'notify: topic'", "notify: [of role]", "run: newer", "on_failure: run"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("no %q in\n%s", want, p.Text)
		}
	}
	_, handlers, _ := strings.Cut(p.Text, "handlers:\n")
	at := -1
	for _, name := range []string{"of role", "second", "third", "fourth", "first"} {
		next := strings.Index(handlers, "- name: "+name)
		if next <= at {
			t.Errorf("handler %s is not behind the one before it:\n%s", name, handlers)
		}
		at = next
	}
	if strings.Contains(p.Text, "run: one\n") || p.Tasks != 10 || p.Converted != 8 || len(p.Todos) != 2 {
		t.Errorf("%d of %d\n%s", p.Converted, p.Tasks, p.Text)
	}
}

// Ansible runs the first handler of a name in one list, and those of the innermost notify.
func TestWhichHandlersRun(t *testing.T) {
	t.Parallel()
	const handlers = "  handlers: [{name: a, command: /bin/a}, {name: b, command: /bin/b}]\n"
	for play, want := range map[string]string{
		"  tasks: [{block: [{command: x, notify: b}], notify: a}, {command: y, notify: a}]\n" + handlers:                    "notify: [b]\n",
		"  tasks: [{block: [{command: x}], notify: a}, {command: y, notify: b}]\n" + handlers:                               "notify: [a]\n",
		"  tasks: [{block: [{block: [{command: x}], notify: b}], notify: a}, {command: y, notify: a}]\n" + handlers:         "notify: [b]\n",
		"  tasks: [{command: x, notify: a}]\n  handlers:\n  - {name: a, command: /bin/a}\n  - {name: a, command: /bin/b}\n": "reason: 'the handler at site.yml:5:5 has the same name",
	} {
		p := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n" + play}), Site: "site.yml"}).Playbooks[0]
		if !strings.Contains(p.Text, want) || strings.Contains(p.Text, "notify: [a, b]") || strings.Contains(p.Text, "notify: [b, a]") {
			t.Errorf("%s: no %q in\n%s", play, want, p.Text)
		}
		if len(p.Todos) > 0 && p.Todos[0].Place != "site.yml:4:5" {
			t.Errorf("%v", p.Todos)
		}
	}
}

// A handler that no task notifies never runs in Ansible, and is an error in a playbook.
func TestHandlersWithoutNotify(t *testing.T) {
	t.Parallel()
	const handlers = "  handlers: [{name: a, command: /bin/a, notify: b}, {name: b, command: /bin/b}, {name: c, command: /bin/c}]\n"
	for tasks, want := range map[string]string{
		"[{command: x, notify: a}]":                  "[site.yml:3:81]",
		"[{command: x, notify: b}]":                  "[site.yml:3:14 site.yml:3:81]",
		"[{command: x}, {meta: flush_handlers}]":     "[site.yml:3:14 site.yml:3:53 site.yml:3:81]",
		"[{command: x, notify: a}, {no_such: task}]": "[]",
	} {
		p := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks: " + tasks + "\n" + handlers}), Site: "site.yml"}).Playbooks[0]
		var places []string
		for _, n := range p.Notes {
			places = append(places, n.Place)
		}
		if got := fmt.Sprint(places); got != want || p.Tasks-p.Converted != len(p.Todos) {
			t.Errorf("%s: %s, expected %s\n%s", tasks, got, want, p.Text)
		}
	}
}

// A handler that a later one notifies stays: the person who corrects the later one needs it.
func TestHandlerThatALaterOneNotifies(t *testing.T) {
	t.Parallel()
	const site = "- hosts: all\n  tasks: [{command: x, notify: two}]\n" +
		"  handlers: [{name: one, command: /bin/a}, {name: two, command: /bin/b, notify: one}]\n"
	p := converted(t, Options{Tree: tree(map[string]string{"site.yml": site}), Site: "site.yml"}).Playbooks[0]
	if len(p.Notes) != 0 || len(p.Todos) != 1 || !strings.Contains(p.Text, "/bin/a") {
		t.Errorf("notes %v, todos %v\n%s", p.Notes, p.Todos, p.Text)
	}
}

// Ansible flushes no handlers where the condition around it is false.
func TestFlushUnderACondition(t *testing.T) {
	t.Parallel()
	const refused = "handlers are not flushed under a condition"
	wantReasons(t, map[string]string{
		"site.yml":  "- hosts: all\n  tasks: [{command: a, notify: h}, CASE]\n  handlers: [{name: h, command: b}]\n",
		"flush.yml": "- meta: flush_handlers\n",
	}, someHosts, map[string]string{
		"{meta: flush_handlers}":                                "",
		"{block: [{meta: flush_handlers}], tags: [x]}":          "",
		"{block: [{meta: flush_handlers}], when: x is defined}": refused,
		"{import_tasks: flush.yml, when: x is defined}":         refused,
		"{include_tasks: flush.yml, when: x is defined}":        refused,
		"{block: [{import_tasks: flush.yml}], when: 1 == 1}":    refused,
	})
}

// share converts the playbooks of testdata, and counts.
func share(t *testing.T) (tasks, done, plays int) {
	t.Helper()
	folders, err := filepath.Glob("testdata/plays/*")
	if err != nil || len(folders) != 5 {
		t.Fatalf("%v, %v", folders, err)
	}
	for _, folder := range folders {
		hosts := map[string][]core.Host{
			"lamp":  {{Name: "web1", Groups: []string{"webservers"}}, {Name: "db1", Groups: []string{"dbservers"}}},
			"patch": {{Name: "s1", Groups: []string{"servers"}}, {Name: "s2", Groups: []string{"servers"}}, {Name: "s3", Groups: []string{"frozen", "servers"}}},
		}[filepath.Base(folder)]
		r := converted(t, Options{Tree: os.DirFS(folder), Site: "site.yml", Hosts: hosts})
		for _, p := range r.Playbooks {
			tasks, done, plays = tasks+p.Tasks, done+p.Converted, plays+1
			if len(p.Todos) < p.Tasks-p.Converted {
				t.Errorf("%s: %d todos for %d tasks that are not converted", p.Name, len(p.Todos), p.Tasks-p.Converted)
			}
		}
	}
	return tasks, done, plays
}

func TestHandlersThatCallNothing(t *testing.T) {
	for _, module := range []string{"debug: {msg: done}", "ansible.builtin.debug: {msg: done}", "setup: {}"} {
		r := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - {command: /bin/x, notify: say}\n  handlers:\n    - name: say\n      " + module + "\n"}), Site: "site.yml"})
		if text := r.Playbooks[0].Text; !strings.Contains(text, "only prints or gathers facts") {
			t.Errorf("%s:\n%s", module, text)
		}
	}
}

// Which value of a name a task of role r sees, as ansible-playbook 2.14 decides.
func TestWhichVarsOfRolesWin(t *testing.T) {
	t.Parallel()
	const (
		plain   = "- command: /bin/say {{ x }}\n"
		ofTask  = "- {command: '/bin/say {{ x }}', vars: {x: task}}\n"
		ofBlock = "- {block: [{command: '/bin/say {{ x }}'}], vars: {x: block}}\n"
		include = "- {include_tasks: more.yml, vars: {x: include}}\n"
		imports = "- {import_tasks: more.yml, vars: {x: import}}\n"
	)
	for name, one := range map[string]struct{ play, tasks, own, want string }{
		"param":                {"roles: [{role: r, x: param}]", plain, "role", "param"},
		"param, task":          {"roles: [{role: r, x: param}]", ofTask, "", "param"},
		"param, block":         {"roles: [{role: r, x: param}]", ofBlock, "", "param"},
		"param, import":        {"roles: [{role: r, x: param}]", imports, "", "param"},
		"param, include":       {"roles: [{role: r, x: param}]", include, "", "include"},
		"param and vars":       {"roles: [{role: r, x: param, vars: {x: given}}]", ofTask, "", "param"},
		"vars":                 {"roles: [{role: r, vars: {x: given}}]", plain, "", "given"},
		"vars, own":            {"roles: [{role: r, vars: {x: given}}]", plain, "role", "todo"},
		"vars, task":           {"roles: [{role: r, vars: {x: given}}]", ofTask, "", "task"},
		"include":              {"tasks: [{include_role: {name: r}, vars: {x: of}}]", plain, "role", "of"},
		"import":               {"tasks: [{import_role: {name: r}, vars: {x: of}}]", plain, "role", "of"},
		"include, task":        {"tasks: [{include_role: {name: r}, vars: {x: of}}]", ofTask, "role", "of"},
		"import, task":         {"tasks: [{import_role: {name: r}, vars: {x: of}}]", ofTask, "role", "task"},
		"include, block":       {"tasks: [{include_role: {name: r}, vars: {x: of}}]", ofBlock, "role", "of"},
		"include, include":     {"tasks: [{include_role: {name: r}, vars: {x: of}}]", include, "role", "include"},
		"include, import":      {"tasks: [{include_role: {name: r}, vars: {x: of}}]", imports, "role", "of"},
		"block around include": {"tasks: [{block: [{include_role: {name: r}}], vars: {x: around}}]", plain, "role", "around"},
		"block around import":  {"tasks: [{block: [{import_role: {name: r}}], vars: {x: around}}]", plain, "role", "around"},
		"block around, task":   {"tasks: [{block: [{include_role: {name: r}}], vars: {x: around}}]", ofTask, "role", "task"},
		"param around include": {"roles: [{role: p, x: param}]", plain, "role", "param"},
	} {
		files := map[string]string{
			"site.yml": "- hosts: all\n  " + one.play + "\n", "roles/r/tasks/main.yml": one.tasks, "roles/r/tasks/more.yml": plain,
			"roles/p/tasks/main.yml": "- {include_role: {name: r}, vars: {x: of}}\n",
		}
		if one.own != "" {
			files["roles/r/vars/main.yml"] = "x: " + one.own + "\n"
		}
		p := converted(t, Options{Tree: tree(files), Site: "site.yml"}).Playbooks[0]
		if one.want == "todo" && (len(p.Todos) != 1 || !strings.Contains(p.Todos[0].Place, ":")) {
			t.Errorf("%s: todos %v, expected one with its place\n%s", name, p.Todos, p.Text)
		} else if one.want != "todo" && (len(p.Todos) > 0 || !strings.Contains(p.Text, "\nvars:\n  x: "+one.want+"\n")) {
			t.Errorf("%s: expected x: %s\n%s", name, one.want, p.Text)
		}
	}
}

// Ansible gives the vars of a role that import_role names to all tasks of the play, also to those
// before it.
func TestVarsOfAnImportedRoleAreEverywhere(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ tasks, want string }{
		"import":        {"[{shell: 'echo {{ x | default(1) }}'}, {import_role: {name: r}}]", "role r also sets x"},
		"a task behind": {"[{import_role: {name: r}}, {shell: 'echo {{ x | default(1) }}'}]", "role r also sets x"},
		"its vars":      {"[{import_role: {name: r}, vars: {y: 1}}, {shell: 'echo {{ y | default(2) }}'}]", "role r also sets y"},
		"twice":         {"[{import_role: {name: r}}, {import_role: {name: r}}]", ""},
		"include":       {"[{shell: 'echo {{ x | default(1) }}'}, {include_role: {name: r}}]", ""},
		"a task's own":  {"[{import_role: {name: r}}, {command: /bin/say, vars: {x: task}}]", ""},
	} {
		got := reasons(t, map[string]string{
			"site.yml": "- hosts: all\n  tasks: " + one.tasks + "\n", "roles/r/vars/main.yml": "x: role\n", "roles/r/tasks/main.yml": "- command: /bin/say {{ x }}\n",
		}, someHosts)
		if got != one.want {
			t.Errorf("%s: %q, expected %q", name, got, one.want)
		}
	}
}

// Ansible reads a var and a condition when a task needs it, with the vars of that task.
func TestVarsAreReadByTheTask(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ play, want string }{
		"var in a var":    {"vars: {say: 'hi {{ x }}', x: play}\n  tasks: [{shell: 'echo {{ say }}', vars: {x: task}}]", "\n  x: task\n"},
		"block":           {"vars: {x: play}\n  tasks: [{block: [{command: a, vars: {x: task}}], when: x == 'task'}]", "\n  x: task\n"},
		"import":          {"vars: {x: play}\n  tasks: [{import_tasks: more.yml, when: x == 'more'}]", "\n  x: more\n"},
		"include":         {"vars: {x: play}\n  tasks: [{include_tasks: more.yml, when: x == 'play'}]", "\n  x: play\n"},
		"block, include":  {"vars: {x: play}\n  tasks: [{block: [{include_tasks: more.yml}], when: x == 'play'}]", "\n  x: play\n"},
		"vars of include": {"vars: {x: play}\n  tasks: [{include_tasks: more.yml, vars: {x: of}, when: x == 'of'}]", "\n  x: of\n"},
	} {
		files := map[string]string{"site.yml": "- hosts: all\n  " + one.play + "\n", "more.yml": "- {command: a, vars: {x: more}}\n"}
		p := converted(t, Options{Tree: tree(files), Site: "site.yml"}).Playbooks[0]
		if len(p.Todos) > 0 || !strings.Contains(p.Text, one.want) {
			t.Errorf("%s: expected %q\n%s", name, one.want, p.Text)
		}
	}
}

// A task that waits for the result of another task is no retry of its own.
func TestUntilAnotherTask(t *testing.T) {
	for until, want := range map[string]bool{"own is not failed": true, "other is not failed": false} {
		r := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - {command: /bin/a, register: other}\n    - {command: /bin/b, register: own, retries: 3, delay: 2, until: '" + until + "'}\n"}), Site: "site.yml"})
		if got := r.Playbooks[0].Converted == 2; got != want {
			t.Errorf("%s: %s", until, r.Playbooks[0].Text)
		}
	}
}

// A fact with several spellings, compared with no word at all.
func TestFactOfNoWord(t *testing.T) {
	for _, when := range []string{"ansible_os_family == []", "[] != ansible_os_family", "ansible_os_family in []"} {
		converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - command: /bin/x\n      when: '" + when + "'\n"}), Site: "site.yml"})
	}
}

// The docs have the share: it is counted, not claimed.
func TestShareOfTasksThatConvert(t *testing.T) {
	tasks, done, plays := share(t)
	text, err := os.ReadFile("../../docs/from-ansible.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d of %d tasks (%d %%)", done, tasks, (100*done+tasks/2)/tasks)
	if page := strings.Join(strings.Fields(string(text)), " "); !strings.Contains(page, want) {
		t.Errorf("docs/from-ansible.md does not have %q, of %d plays", want, plays)
	}
}

func TestHostileInputEndsWithItsPlace(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	bomb := "- hosts: all\n  vars:\n    a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i, last := 0, "a"; i < 8; i++ {
		next := string(rune('b' + i))
		bomb += fmt.Sprintf("    %s: &%s [%s]\n", next, next, strings.Repeat("*"+last+", ", 9)+"*"+last)
		last = next
	}
	many := tree(map[string]string{"site.yml": "- hosts: all\n  tasks: [{import_tasks: t0.yml}]\n"})
	for i := range 40 {
		many[fmt.Sprintf("t%d.yml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "- import_tasks: t%d.yml\n", i+1)}
	}
	wide := tree(map[string]string{"site.yml": "- hosts: all\n  tasks: [{import_tasks: a.yml}]\n"})
	for i := range 12 {
		wide[string(rune('a'+i))+".yml"] = &fstest.MapFile{Data: []byte(strings.Repeat("- import_tasks: "+string(rune('b'+i))+".yml\n", 10))}
	}
	for name, one := range map[string]struct {
		tree fstest.MapFS
		want string
	}{
		"missing":     {tree(nil), "site.yml: no such file"},
		"empty":       {tree(map[string]string{"site.yml": ""}), "site.yml:1:1: this is not a playbook of Ansible"},
		"ours":        {tree(map[string]string{"site.yml": "playbook: a\ntargets: true\n"}), "turnus validate site.yml"},
		"not YAML":    {tree(map[string]string{"site.yml": "- hosts: [\n"}), "site.yml:1:1: not YAML"},
		"not UTF-8":   {tree(map[string]string{"site.yml": "- hosts: all\n  name: a\xffb\n"}), "site.yml:2:10: this byte is not UTF-8"},
		"large":       {tree(map[string]string{"site.yml": strings.Repeat("# x\n", 300_000)}), "site.yml: the file is larger than 1 MiB"},
		"bomb":        {tree(map[string]string{"site.yml": bomb}), "the file grows too large here once its aliases are expanded"},
		"deep":        {tree(map[string]string{"site.yml": "- hosts: " + deep + "\n"}), "nested too deep"},
		"documents":   {tree(map[string]string{"site.yml": "- hosts: all\n---\n- hosts: all\n"}), "site.yml:2:1: a second YAML document begins here"},
		"cycle":       {tree(map[string]string{"site.yml": "- import_playbook: b.yml\n", "b.yml": "- import_playbook: site.yml\n"}), "b.yml:1:20: this file includes itself by way of site.yml"},
		"task cycle":  {tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - import_tasks: t.yml\n", "t.yml": "- import_tasks: t.yml\n"}), "t.yml:1:17: this file includes itself by way of t.yml"},
		"role cycle":  {tree(map[string]string{"site.yml": "- hosts: all\n  roles: [r]\n", "roles/r/tasks/main.yml": "- import_role: {name: r}\n"}), "this file includes itself"},
		"chain":       {many, "files include each other more than 16 deep"},
		"wide":        {wide, "are included"},
		"no hosts":    {tree(map[string]string{"site.yml": "- tasks: []\n"}), "site.yml:1:3: this play has no hosts"},
		"tasks only":  {tree(map[string]string{"site.yml": "- name: a\n  ansible.builtin.command: a\n"}), "site.yml:1:3: this is a file of tasks, not a playbook: expected a list of plays, each with hosts and tasks\n  hint: import the playbook that includes it"},
		"no task":     {tree(map[string]string{"site.yml": "- hosts: all\n  tasks: [x]\n"}), "site.yml:2:11: this is not a task"},
		"task no map": {tree(map[string]string{"site.yml": "- hosts: all\n  tasks: 1\n"}), "site.yml:2:10: this is not a list of tasks"},
		"key twice":   {tree(map[string]string{"site.yml": "- hosts: all\n  hosts: web\n"}), "site.yml:2:3: key \"hosts\" is given twice"},
		"broken role": {tree(map[string]string{"site.yml": "- hosts: all\n  roles: [r]\n", "roles/r/tasks/main.yml": "- [\n"}), "roles/r/tasks/main.yml:1:1: not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Convert(Options{Tree: one.tree, Site: "site.yml"})
			if err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v, expected %q", err, one.want)
			}
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%v is not core.ErrInvalid", err)
			}
		})
	}
}

// Nothing outside of the folder is read, by no name and no link.
func TestFilesStayInTheFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("outside.j2", "secret {{ x }}")
	write("site/site.yml", "- hosts: all\n  vars: {x: y}\n  tasks:\n    - template: {src: ../../outside.j2, dest: /a}\n    - template: {src: link.j2, dest: /b}\n    - include_tasks: ../outside.yml\n    - template: {src: inside.j2, dest: /c}\n")
	write("site/templates/inside.j2", "fine {{ x }}\n")
	if err := os.Symlink("../../outside.j2", filepath.Join(dir, "site/templates/link.j2")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p := converted(t, Options{Tree: root.FS(), Site: "site.yml"}).Playbooks[0]
	if strings.Contains(p.Text, "secret") || len(p.Todos) != 3 || !strings.Contains(p.Text, "fine ${{ vars.x }}") {
		t.Errorf("%v\n%s", p.Todos, p.Text)
	}
	if i := slices.IndexFunc(p.Todos, func(t Todo) bool { return t.Reason == "../outside.yml is outside of the folder of the playbook" }); i < 0 {
		t.Errorf("%v", p.Todos)
	}
}

func FuzzConvert(f *testing.F) {
	for _, seed := range []string{"- hosts: all\n  tasks: [{command: 'x {{ y | default(1) }}', when: a is defined and b in [1, 'x']}]\n", "- hosts: [a, '!b']\n  serial: [1, 2%]\n  vars: {a: '{{ b }}', b: '{{ a }}'}\n  tasks: [{block: [{shell: 'echo {{ a }}', loop: [1, {x: y}]}], rescue: [{ping: }]}]\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Convert(Options{Tree: tree(map[string]string{"site.yml": text}), Site: "site.yml"})
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%v is not core.ErrInvalid", err)
			}
			return
		}
		for _, p := range r.Playbooks {
			if p.Converted > p.Tasks {
				t.Errorf("%d of %d", p.Converted, p.Tasks)
			}
		}
	})
}

// With -e a var of Ansible changes on all hosts, and one of Turnus on those whose inventory does
// not set it. Without noteOverride the difference is silent.
func TestExtraVarsBehindHostVars(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"zone": 1, "port": 0, "nowhere": 0} {
		r := converted(t, Options{Site: "site.yml", Hosts: someHosts, Tree: tree(map[string]string{
			"site.yml": "- hosts: all\n  roles: [r]\n", "roles/r/defaults/main.yml": name + ": a\n", "roles/r/tasks/main.yml": "- shell: echo {{ " + name + " }} {{ " + name + " }}\n",
		})})
		p := r.Playbooks[0]
		if len(p.Todos) > 0 || len(p.Notes) != want || want > 0 && !strings.HasPrefix(p.Notes[0].Text, name+" of a host wins over -e "+name) {
			t.Errorf("%s: notes %v, expected %d\n%s", name, p.Notes, want, p.Text)
		}
	}
}

// Where the value of a role's default comes from, by what else sets the name.
func TestDefaultsOfRoles(t *testing.T) {
	t.Parallel()
	host := func(vars map[string]any) core.Host { return core.Host{Name: "h", Vars: vars} }
	for name, one := range map[string]struct {
		play  string
		hosts []core.Host
		want  string
	}{
		"nothing else":   {"", []core.Host{host(nil)}, "VAR_X: ${{ vars.x }}"},
		"every host":     {"", []core.Host{host(map[string]any{"x": "h"})}, "VAR_X: ${{ host.vars.x }}"},
		"some hosts":     {"", []core.Host{host(map[string]any{"x": "h"}), {Name: "other"}}, "VAR_X: ${{ host.vars.x ?? vars.x }}"},
		"the play":       {"vars: {x: play}", []core.Host{host(map[string]any{"x": "h"})}, "\nvars:\n  x: play\n"},
		"an answer":      {"vars_prompt: [{name: x, private: no}]", []core.Host{host(nil)}, "VAR_PARAMS_X: ${{ params.x }}"},
		"no inventory":   {"", nil, "reason: the inventory may define x, which is a role's default"},
		"null on a host": {"", []core.Host{host(map[string]any{"x": nil})}, "reason: x is null on some hosts"},
	} {
		p := converted(t, Options{Tree: tree(map[string]string{
			"site.yml": "- hosts: all\n  roles: [r]\n  " + one.play + "\n", "roles/r/defaults/main.yml": "x: default\n", "roles/r/tasks/main.yml": "- command: a {{ x }}\n",
		}), Site: "site.yml", Hosts: one.hosts}).Playbooks[0]
		if !strings.Contains(p.Text, one.want) {
			t.Errorf("%s: no %q in\n%s", name, one.want, p.Text)
		}
	}
}
