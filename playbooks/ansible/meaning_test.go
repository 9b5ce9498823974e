package ansible

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// reasons are why each task of a tree is left to a person; a play that is converted has none.
func reasons(t *testing.T, files map[string]string, hosts []core.Host) string {
	t.Helper()
	var out []string
	for _, p := range converted(t, Options{Tree: tree(files), Site: "site.yml", Hosts: hosts}).Playbooks {
		for _, todo := range p.Todos {
			out = append(out, todo.Reason)
		}
	}
	return strings.Join(out, "\n")
}

// wantReasons converts the files with each text in place of CASE, also in their names, and compares
// the reasons of the todos.
func wantReasons(t *testing.T, files map[string]string, hosts []core.Host, wants map[string]string) {
	t.Helper()
	for text, want := range wants {
		of := make(map[string]string, len(files))
		for name, file := range files {
			of[strings.ReplaceAll(name, "CASE", text)] = strings.ReplaceAll(file, "CASE", text)
		}
		if got := reasons(t, of, hosts); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

// Keys that Ansible reads and the import does not know must not be left out silently.
func TestUnknownKeysOfTasks(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks: [CASE]\n"}, nil, map[string]string{
		"{command: a}":                                   "",
		"{command: a, with_file: [x, y]}":                "with_file has no equivalent",
		"{command: a, with_inventory_hostnames: all}":    "with_inventory_hostnames has no equivalent",
		"{command: a, becoem: yes}":                      "becoem has no equivalent",
		"{command: a, ansible.builtin.shell: b}":         "ansible.builtin.shell has no equivalent",
		"{ansible.builtin.command: a, changed_when: no}": "",
	})
}

// A keyword of a role is no var of it.
func TestKeywordsOfRoles(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  roles: [CASE]\n", "roles/q/tasks/main.yml": "- command: a\n"}, nil, map[string]string{
		"q":                                 "",
		"{role: q, size: 3}":                "",
		"{role: q, become_method: sudo}":    "",
		"{role: q, check_mode: true}":       "check_mode of a role has no equivalent",
		"{role: q, become_method: doas}":    "become_method: doas belongs to the inventory",
		"{role: q, become_method: su}":      "Turnus has no become_method: su",
		"{role: q, any_errors_fatal: true}": "any_errors_fatal of a role has no equivalent",
		"{role: q, vars_from: other.yml}":   "vars_from of a role has no equivalent",
	})
}

// Ansible gives the tasks of a dynamic include nothing of the include, except vars.
func TestKeywordsOfIncludes(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{
		"site.yml": "- hosts: all\n  tasks: [CASE, {command: /bin/b, notify: h}]\n  handlers: [{name: h, command: /bin/h}]\n",
		"more.yml": "- command: /bin/a\n", "roles/r/tasks/main.yml": "- command: /bin/a\n",
	}, nil, map[string]string{
		"{include_tasks: more.yml, ignore_errors: true}":                 "tasks do not inherit ignore_errors from include_tasks",
		"{ansible.builtin.include_tasks: more.yml, become: true}":        "tasks do not inherit become from ansible.builtin.include_tasks",
		"{include_tasks: more.yml, environment: {A: b}}":                 "tasks do not inherit environment from include_tasks",
		"{include_role: {name: r}, notify: h}":                           "tasks do not inherit notify from include_role",
		"{include_role: {name: r}, tags: [x]}":                           "tasks do not inherit tags from include_role",
		"{import_tasks: more.yml, ignore_errors: true, become: true}":    "",
		"{import_role: {name: r}, notify: h, environment: {A: b}}":       "",
		"{include_tasks: more.yml, name: n, when: 1 == 1, vars: {x: 1}}": "",
		"{block: [{include_tasks: more.yml}], ignore_errors: true}":      "",
	})
}

// An include decides once. A task in it that registers the same name does not change the decision.
func TestConditionOfAnInclude(t *testing.T) {
	t.Parallel()
	r := converted(t, Options{Tree: tree(map[string]string{
		"site.yml": "- hosts: all\n  tasks:\n    - {command: /bin/a, register: c}\n    - {include_tasks: more.yml, when: c is changed}\n",
		"more.yml": "- {command: /bin/b, register: c}\n- {command: /bin/d}\n- {command: /bin/e, when: c is failed}\n",
	}), Site: "site.yml"})
	text := r.Playbooks[0].Text
	if strings.Count(text, "steps.c.changed") != 3 || !strings.Contains(text, `steps.c.changed && steps["c 2"].outcome == "failed"`) {
		t.Errorf("the steps of the include read another result:\n%s", text)
	}
}

// Ansible fails where a task reads what a skipped task did not set. An expression reads -1 or nil.
func TestResultsOfTasksThatMayBeSkipped(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - {command: a, register: a}\n    - {command: b, register: c, when: a is changed}\n" +
		"    - {uri: {url: 'http://localhost/'}, register: d, when: a is changed}\n    - {command: e, when: \"CASE\"}\n"}, nil, map[string]string{
		"c.rc != 0":              "the task that sets it may be skipped: Ansible then fails where rc is read",
		"c.stdout == 'a'":        "the task that sets it may be skipped: Ansible then fails where stdout is read",
		"d.status != 200":        "the task that sets it may be skipped: Ansible then fails where status is read",
		"c is skipped":           "",
		"c is changed":           "",
		"a.rc != 0 and c.failed": "",
	})
}

// Facts and results of a play are known to the plays after it in Ansible, and not in Turnus.
func TestResultsOfEarlierPlays(t *testing.T) {
	t.Parallel()
	site := `
- hosts: all
  tasks:
    - set_fact: {ver: 3}
    - {command: uptime, register: up}
- hosts: all
  tasks:
    - {command: a, when: "ver | default('none') == 'none'"}
    - {command: a, when: up is not defined}
    - {command: a, register: up}
    - {command: a, when: up.changed}
`
	got := reasons(t, map[string]string{"site.yml": site}, someHosts)
	for _, want := range []string{"ver is set by an earlier play, at site.yml:4:7", "up is set by an earlier play, at site.yml:5:7"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("a play may read its own results:\n%s", got)
	}
}

// Ansible reads more files of a role than main.yml: what they set would be taken for undefined.
func TestOtherFilesOfRoles(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{
		"site.yml": "- hosts: all\n  roles: [q]\n", "roles/q/CASE": "{size: big}\n",
		"roles/q/tasks/main.yml": "- shell: echo {{ size | default('small') }}\n",
	}, someHosts, map[string]string{
		"defaults/main.yml":   "",
		"defaults/main/a.yml": "role q has defaults/main, which the import does not read",
		"vars/main.json":      "role q has vars/main.json, which the import does not read",
		"tasks/main":          "role q has tasks/main, which the import does not read",
	})
}

// Ansible decrypts a file before it sends it: the host must not get the ciphertext.
func TestEncryptedFiles(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"copy: {src: plain, dest: /x}":   "",
		"copy: {src: empty, dest: /x}":   "",
		"copy: {src: key, dest: /x}":     "files/key is encrypted with Ansible Vault",
		"template: {src: key, dest: /x}": "files/key is encrypted with Ansible Vault",
		"script: key":                    "files/key is encrypted with Ansible Vault",
	} {
		files := map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - " + task + "\n", "files/plain": "a\n", "files/empty": "", "files/key": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"}
		files["templates/key"] = files["files/key"]
		if got := strings.ReplaceAll(reasons(t, files, nil), "templates/", "files/"); got != want {
			t.Errorf("%s: %q, expected %q", task, got, want)
		}
	}
}

// Ansible removes the header of a template and its carriage returns, also without {{ }} in it.
func TestTemplatesWithoutExpressions(t *testing.T) {
	t.Parallel()
	const refused = "the template has settings or bytes that have no equivalent"
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks: [template: {src: a.j2, dest: /a}]\n", "templates/a.j2": "CASE"}, nil, map[string]string{
		"plain\n":                              "",
		"\xff\n":                               "",
		"#jinja2: trim_blocks: False\nplain\n": refused,
		"plain\r\n":                            refused,
		"\xff {{ 1 }}\n":                       refused,
	})
}

// Ansible gives the rest of the line of a script to a shell, and args are no text of a shell.
func TestScriptLines(t *testing.T) {
	t.Parallel()
	const shell = "Ansible gives the line of a script to a shell, and args are passed as they are"
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - script: >-\n        CASE\n", "files/a.sh": "#!/bin/sh\n"}, nil, map[string]string{
		"a.sh":                             "",
		"a.sh -v x=1 'two words' \"it's\"": "",
		"a.sh '$5 | *.gz'":                 "",
		"a.sh one > /tmp/out":              shell,
		"a.sh one && b":                    shell,
		"a.sh $HOME":                       shell,
		"a.sh \"$HOME\"":                   shell,
		"a.sh \\'$HOME\\'":                 shell,
		"a.sh *.gz":                        shell,
		"a.sh ~/x":                         shell,
		"a.sh --log a.sh.log":              "Ansible writes its path of the script at each a.sh in the line",
	})
}

// A var that is null is defined, and default(…) keeps it.
func TestNull(t *testing.T) {
	t.Parallel()
	hosts := []core.Host{{Name: "a", Vars: map[string]any{"maybe": nil, "some": "x"}}, {Name: "b", Vars: map[string]any{"maybe": "v"}}, {Name: "c"}}
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks: [CASE]\n"}, hosts, map[string]string{
		"{command: a, when: some is defined}":                   "",
		"{command: a, when: maybe is defined}":                  "maybe is null on some hosts",
		"{shell: \"echo {{ maybe | default('none') }}\"}":       "maybe is null on some hosts",
		"{command: a, when: own is defined, vars: {own: ~}}":    "own is null",
		"{command: a, when: own is defined, vars: {own: text}}": "",
	})
}

// echo of a shell and echo of a system also differ in their options.
func TestEcho(t *testing.T) {
	t.Parallel()
	for line, refused := range map[string]bool{"echo a -e": false, "echo -e a": true, "echo -n a": true, "printf -- a": false} {
		got := reasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks: [{command: " + line + "}]\n"}, nil)
		if (got != "") != refused {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// Settings of Ansible in vars decide how tasks run, also if no task reads them.
func TestSettingsInVars(t *testing.T) {
	t.Parallel()
	const refused = "ansible_become is a setting of Ansible, and belongs to the inventory"
	wantReasons(t, map[string]string{
		"site.yml": "- hosts: all\n  CASE\n", "more.yml": "- command: /bin/a\n", "vars.yml": "ansible_become: true\n",
		"roles/q/tasks/main.yml": "- command: a\n", "roles/d/tasks/main.yml": "- command: a\n", "roles/d/defaults/main.yml": "ansible_become: true\n",
	}, nil, map[string]string{
		"vars: {ansible_become: true}\n  tasks: [{command: a}]":                                               refused,
		"vars_files: [vars.yml]\n  tasks: [{command: a}]":                                                     refused,
		"tasks: [{command: a, vars: {ansible_become: true}}]":                                                 refused,
		"tasks: [{block: [{command: a}], vars: {ansible_become: true}}]":                                      refused,
		"tasks: [{import_tasks: more.yml, vars: {ansible_become: true}}]":                                     refused,
		"tasks: [{include_role: {name: d}}]":                                                                  refused,
		"roles: [{role: q, ansible_become: true}]":                                                            refused,
		"roles: [{role: q, vars: {ansible_become: true}}]":                                                    refused,
		"tasks: [{command: a, notify: h}]\n  handlers: [{name: h, command: b, vars: {ansible_become: true}}]": refused,
		"vars: {ansible_python_interpreter: /usr/bin/python3}\n  tasks: [{command: a}]":                       "",
	})
}

// ansible.cfg beside the playbook also decides how tasks run.
func TestSettingsOfTheProject(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  force_handlers: no\n  tasks: [{command: a}]\n", "ansible.cfg": "[defaults]\nCASE\nforks = 20\n"}, nil, map[string]string{
		"become = False": "", ";become=True": "", "become_user=root": "", "force_handlers=True": "",
		"become=True":              "become = True in ansible.cfg decides how tasks run, and the import does not convert it",
		"hash_behaviour: merge":    "hash_behaviour = merge in ansible.cfg decides how tasks run, and the import does not convert it",
		"remote_user = admin ; me": "remote_user = admin in ansible.cfg decides how tasks run, and the import does not convert it",
	})
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  roles: [r]\n  tasks: [{service: {name: a, state: started}}]\n", "roles/r/tasks/main.yml": "- service: {name: b, state: started}\n", "CASE": ""}, nil, map[string]string{
		"library/other.py":           "",
		"library/service.py":         "library/service.py is the module service of this project, not that of Ansible\nlibrary/service.py is the module service of this project, not that of Ansible",
		"roles/r/library/service.py": "roles/r/library/service.py is the module service of this project, not that of Ansible",
	})
}

// Characters that a terminal interprets or hides are not part of a name.
func TestNamesArePrintable(t *testing.T) {
	t.Parallel()
	p := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  name: \"all \\x1b[2J hosts\"\n  tasks: [{name: \"a\\x1b[31m \\u202eb\\nc\", command: d}, {name: käse 日本, command: d}]\n"}), Site: "site.yml"}).Playbooks[0]
	for _, want := range []string{"description: all [2J hosts\n", "- name: a[31m b c\n", "- name: käse 日本\n"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("no %q in\n%s", want, p.Text)
		}
	}
}

// Ansible fails where a number is not defined; string(nil) would be a text.
func TestNumbersThatAreMissing(t *testing.T) {
	t.Parallel()
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  vars: {users: [{name: a, uid: 1}, {name: b}]}\n  tasks: [{command: CASE, loop: '{{ users }}'}]\n"}, nil, map[string]string{
		"'a {{ item.name }}'":             "",
		"'a {{ item.uid }}'":              "item.uid is not defined everywhere",
		"'a {{ item.uid | default(0) }}'": "",
	})
}

// Ansible expands variables of the environment and ~ in paths, and Turnus takes them as they are.
func TestPathsThatAnsibleExpands(t *testing.T) {
	t.Parallel()
	const creates = "creates with a relative path has no equivalent"
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  vars: {home: /home/$USER}\n  tasks: [CASE]\n"}, nil, map[string]string{
		"file: {path: /home/$USER/x, state: directory}":    "/home/$USER/x is not an absolute path",
		"file: {path: '{{ home }}/x', state: directory}":   "${{ vars.home }}/x is not an absolute path",
		"lineinfile: {path: '/home/${USER}/x', line: a}":   "/home/${USER}/x is not an absolute path",
		"{command: a, args: {chdir: '~/x'}}":               "chdir with a relative path has no equivalent",
		"{command: a, args: {chdir: /x, creates: /x/$A}}":  creates,
		"{command: a, args: {chdir: /x, creates: '/x/$'}}": creates,
		"file: {path: /home/x, state: directory}":          "",
	})
}
