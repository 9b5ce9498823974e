package ansible

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// ran gives a step's command to a real shell, with the value of vars.app that -e gives, and returns
// its output.
func ran(t *testing.T, task, app string) string {
	t.Helper()
	p := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  vars: {app: shop}\n  tasks: [" + task + "]\n"}), Site: "site.yml"}).Playbooks[0]
	if len(p.Todos) > 0 {
		t.Fatalf("%s: %v", task, p.Todos)
	}
	book, err := playbooks.Parse(p.Name+".yaml", []byte(p.Text), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := book.Steps[0].With.JSON(playbooks.Env{Vars: map[string]any{"app": app}})
	if err != nil {
		t.Fatal(err)
	}
	var with struct {
		Run string            `json:"run"`
		Env map[string]string `json:"env"`
	}
	if err := json.Unmarshal(raw, &with); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", with.Run)
	cmd.Env = os.Environ()
	for name, v := range with.Env {
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", with.Run, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// A value that -e gives is data for the shell of a step, in each place of a command line.
func TestValuesAreNoShell(t *testing.T) {
	t.Parallel()
	for _, task := range []string{
		`command: "printf %s {{ app }}"`,
		`command: {argv: [printf, "%s", "{{ app }}"]}`,
		`command: {argv: [printf, "%s", "a 'b' {{ app }} c"]}`,
		`command: {cmd: "printf %s 'a \"b' {{ app }}"}`,
		`shell: "printf %s {{ app }}"`,
		`shell: "printf '%s' '{{ app }}'"`,
		`shell: 'printf "%s" "{{ app }}"'`,
		`shell: 'X={{ app }}; printf "%s" "$X"'`,
		`shell: 'printf %s "$(printf %s "{{ app }}")" | cat'`,
		`shell: 'printf "%s\$(%s" x "{{ app }}"'`,
		`shell: "# it's a {{ app }}\nprintf %s {{ app }} && (true)"`,
		`shell: {cmd: "printf %s '{{ app }}'", executable: /bin/dash}`,
	} {
		marker := filepath.Join(t.TempDir(), "made")
		for _, value := range []string{"; touch " + marker, "$(touch " + marker + ")", "`touch " + marker + "`", "'; touch " + marker + "; '", "\"; touch " + marker + "; \"", "a\ntouch " + marker, "* ?"} {
			if out := ran(t, task, value); !strings.Contains(out, value) {
				t.Errorf("%s: %q prints %q", task, value, out)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Fatalf("%s: the shell ran %q", task, value)
			}
		}
	}
}

// Where a value cannot be data, or where Ansible's shell may read it as more than text, there is a
// todo.
func TestValuesThatAShellReads(t *testing.T) {
	t.Parallel()
	const (
		code = " reads the value of an expression as code"
		part = "an expression is a part of the shell's language, not a value"
	)
	wantReasons(t, map[string]string{
		"site.yml":     "- hosts: all\n  vars: {app: shop, n: 2, two: a b, set: A=b, do: then, tick: \"it's\", home: $HOME}\n  tasks: [CASE]\n",
		"files/run.sh": "#!/bin/sh\n",
	}, nil, map[string]string{
		`command: {argv: [printf, "{{ two }}", "{{ tick }}"]}`:            "",
		`command: {argv: [printf, "{{ home }}"]}`:                         `vars.home may hold "$HOME", which a shell reads differently`,
		`command: "printf {{ two }}"`:                                     `vars.two may hold "a b", which a shell reads differently`,
		`command: "bash -c '{{ app }}'"`:                                  "bash" + code,
		`command: {argv: [sudo, sh, -ec, "echo {{ app }}"]}`:              "sh" + code,
		`command: "bash /opt/x.sh {{ app }}"`:                             "",
		`command: "psql -c 'drop table {{ app }}'"`:                       "psql" + code,
		`command: "sed -i s/a/{{ app }}/ /etc/x"`:                         "sed" + code,
		`command: "sed -i s/a/b/ /etc/{{ app }}"`:                         "",
		`command: "tar -C . {{ app }}"`:                                   "",
		`command: "{{ do }}"`:                                             "then means something else in a shell",
		`command: "echo ${{ app }}"`:                                      "$ is expanded by Ansible",
		`command: "echo {{ n }}"`:                                         "",
		`shell: "ssh other {{ app }}"`:                                    "ssh" + code,
		`shell: "true && eval echo {{ app }}"`:                            "eval" + code,
		`shell: "x=$(sh -c 'echo {{ app }}')"`:                            "sh" + code,
		`shell: "bash -c true; echo {{ app }}"`:                           "",
		`shell: "echo {{ two }}"`:                                         `vars.two may hold "a b", which a shell reads differently`,
		`shell: "echo '{{ two }}'"`:                                       "",
		`shell: "echo '{{ tick }}'"`:                                      `vars.tick may hold "it's", which a shell reads differently`,
		`shell: "{{ set }} printenv"`:                                     `vars.set may hold "A=b", which a shell reads differently`,
		`shell: "if true; {{ do }} true; fi"`:                             `vars.do may hold "then", which a shell reads differently`,
		`shell: "{{ app }}=1"`:                                            part,
		`shell: "echo a {{ n }}>/tmp/x"`:                                  part,
		`shell: "for {{ app }} in a; do true; done"`:                      part,
		`shell: "echo ${{ app }}"`:                                        part,
		`shell: "echo ~{{ app }}"`:                                        part,
		`shell: "echo {{ app }} | sudo bash -s"`:                          "bash reads its input as code, and a value of an expression may be in it",
		`shell: "echo {{ app }} | sha256sum | tee /tmp/x"`:                "",
		`command: {argv: "{{ app }}"}`:                                    "argv is not a list of words",
		`copy: {dest: /x/, content: a}`:                                   "content with the folder /x/ fails in Ansible",
		`shell: "cat <<E\n{{ app }}\nE"`:                                  "the command has <<, and the import does not know how a shell reads the expressions in it",
		`shell: "echo $(( {{ n }} + 1 ))"`:                                "the command has ((, and the import does not know how a shell reads the expressions in it",
		`shell: "echo ${A:-{{ app }}}"`:                                   "the command has ${A:-{{ }}, and the import does not know how a shell reads the expressions in it",
		`shell: "[[ {{ n }} -eq 1 ]]"`:                                    "the command has [[, and the import does not know how a shell reads the expressions in it",
		`shell: "grep '[[:space:]]{{ app }}$' /etc/x"`:                    "",
		`reboot: {test_command: "test {{ app }}"}`:                        "test_command with {{ }} has no equivalent: the job type reboot has no variables for a shell",
		`reboot: {msg: "for {{ app }}"}`:                                  "",
		`script: "run.sh {{ app }}"`:                                      "a script with {{ }} in its line has no equivalent",
		`cron: {name: a, cron_file: a, user: root, job: "a {{ app }}"}`:   "",
		`cron: {name: a, cron_file: a, user: root, job: "a {{ two }}"}`:   `vars.two may hold "a b", which a shell reads differently`,
		`cron: {name: a, cron_file: a, user: root, job: "a '{{ two }}'"}`: "",
	})
}

// Lines that pass a value to a program that runs it, or may.
func TestValuesThatProgramsRun(t *testing.T) {
	t.Parallel()
	code := func(program string) string { return program + " reads the value of an expression as code" }
	may := func(program string) string { return program + " may read the value of an expression as code" }
	input := func(program string) string {
		return program + " may read its input as code, and a value of an expression is in stdin"
	}
	const part = "an expression is a part of the shell's language, not a value"
	wantReasons(t, map[string]string{"site.yml": "- hosts: all\n  vars: {app: shop, n: 2}\n  tasks: [CASE]\n"}, nil, map[string]string{
		`shell: {cmd: sh, stdin: "echo {{ app }}"}`:                    input("sh"),
		`shell: {cmd: cat; sh, stdin: "echo {{ app }}"}`:               input("cat;"),
		`shell: {cmd: A=1 sudo cat, stdin: "echo {{ app }}"}`:          "",
		`shell: {cmd: sh, stdin: echo}`:                                "",
		`command: {cmd: /usr/bin/env bash, stdin: "echo {{ app }}"}`:   input("bash"),
		`command: {argv: [ssh, other], stdin: "echo {{ app }}"}`:       input("ssh"),
		`command: {cmd: python3 -, stdin: "a({{ app }})"}`:             input("python3"),
		`command: {cmd: chpasswd, stdin: "a:{{ app }}"}`:               "",
		`shell: {cmd: cat, executable: /bin/bash, stdin: "{{ app }}"}`: input("bash"),
		`shell: "echo {{ app }} | sh; true"`:                           "sh reads its input as code, and a value of an expression may be in it",
		`shell: "echo {{ app }} | sudo -u a env B=c bash"`:             "bash reads its input as code, and a value of an expression may be in it",
		`shell: "echo {{ app }} | $SHELL"`:                             "$SHELL reads its input as code, and a value of an expression may be in it",
		`command: "flock /x -c 'echo {{ app }}'"`:                      may("flock"),
		`command: "script -qc 'echo {{ app }}' /x"`:                    may("script"),
		`command: "sg a -c 'echo {{ app }}'"`:                          may("sg"),
		`command: "sqlite3 /x 'drop table {{ app }}'"`:                 code("sqlite3"),
		`command: "xargs -n 1 {{ app }}"`:                              code("xargs"),
		`command: "gdb -ex 'shell {{ app }}'"`:                         may("gdb"),
		`command: "vim -c '!{{ app }}' /x"`:                            code("vim"),
		`command: "emacs --batch --eval '({{ app }})'"`:                may("emacs"),
		`command: "emacs --batch '--eval=({{ app }})'"`:                may("emacs"),
		`command: "tar cf /x --checkpoint-action 'exec={{ app }}' a"`:  may("tar"),
		`command: "tar cf /x '--checkpoint-action=exec={{ app }}' a"`:  may("tar"),
		`command: "tar -I 'zstd {{ app }}' -cf /x a"`:                  may("tar"),
		`command: "tar -xf /x --to-command 'cat {{ app }}'"`:           may("tar"),
		`command: "tar -czf /x/{{ app }}.tgz a"`:                       "",
		`command: "rsync -ae 'sh {{ app }}' a b"`:                      may("rsync"),
		`command: "git -c 'core.pager={{ app }}' log"`:                 may("git"),
		`shell: "$X -c 'echo {{ app }}'"`:                              may("$X"),
		`command: "grep -e {{ app }} /x"`:                              "",
		`command: "sudo head -c {{ n }} /x"`:                           "",
		`shell: "if [ -e /x/{{ app }} ]; then true; fi"`:               "",
		`shell: "find /x -name {{ app }}"`:                             "",
		"shell: 'f() { eval \"$1\"; }; f {{ app }}'":                   code("eval"),
		`shell: "A='{{ app }}' sh -c 'eval $A'"`:                       code("eval"),
		`shell: "echo {{ app }} | xargs rm"`:                           code("xargs"),
		`shell: "BASH_ENV={{ app }} /x/y"`:                             "a shell reads BASH_ENV as code",
		`{shell: /x/y, environment: {BASH_ENV: "{{ app }}"}}`:          "a shell reads BASH_ENV as code",
		`{shell: /x/y, environment: {ENV: "{{ app }}"}}`:               "",
		`shell: "GIT_SSH_COMMAND='ssh -i {{ app }}' git pull"`:         "a shell reads GIT_SSH_COMMAND as code",
		`command: "env -S 'sh {{ app }}'"`:                             code("env"),
		`command: "perl -E 'say {{ app }}'"`:                           code("perl"),
		`shell: "X={{ app }}; sh -c $X"`:                               code("sh"),
		`shell: 'for x in {{ app }}; do ssh other "$x"; done'`:         code("ssh"),
		`shell: "echo {{ app }} | awk '{print $1}'"`:                   "",
		`shell: "X={{ n }}; echo ${A[X]}"`:                             "the command has ${A[X, and the import does not know how a shell reads the expressions in it",
		`shell: "echo $[ {{ n }} + 1 ]"`:                               part,
		`shell: "ssh 2>&1 other {{ app }}"`:                            code("ssh"),
		`shell: "ssh \\\n other {{ app }}"`:                            code("ssh"),
		`shell: "echo {{ app }} |\\\n sh"`:                             "sh reads its input as code, and a value of an expression may be in it",
		`shell: "a[{{ n }}]=1"`:                                        part,
		`shell: 'read "x[{{ n }}]"'`:                                   part,
		`shell: 'test -v "a[b[1]+{{ n }}]"'`:                           part,
		`shell: 'printf -v "{{ app }}" a'`:                             code("printf"),
		`shell: "[ -v {{ app }} ]"`:                                    code("["),
		`shell: "A=5; echo $A{{ app }}"`:                               part,
		`shell: 'echo "$A{{ app }}x"'`:                                 part,
		`shell: "echo $_{{ app }}"`:                                    part,
		`shell: "echo ${A}{{ app }}"`:                                  "",
	})
}

// The variables of a command do not take the place of its own, or of those in its text.
func TestNamesOfVariables(t *testing.T) {
	t.Parallel()
	p := converted(t, Options{Tree: tree(map[string]string{"site.yml": `
- hosts: all
  vars: {app: shop, path: a}
  tasks:
    - shell: VAR_APP=1; echo {{ app }} {{ app }} {{ path }}
      environment: {VAR_PATH: x}
    - cron: {name: a, cron_file: a, user: root, job: "a {{ app }}"}
`}), Site: "site.yml"}).Playbooks[0]
	for _, want := range []string{
		`run: VAR_APP=1; echo "$VAR_APP_2" "$VAR_APP_2" "$VAR_PATH_2"`, "env:\n        VAR_PATH: x\n        VAR_APP_2: ${{ vars.app }}\n        VAR_PATH_2: ${{ vars.path }}\n",
		`command: a "$VAR_APP"` + "\n      env:\n        VAR_APP: ${{ vars.app }}\n",
	} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("no %q in\n%s", want, p.Text)
		}
	}
}

// A shell of Ansible interprets what an earlier step printed, also in quotes: that is noted.
func TestOutputsInQuotes(t *testing.T) {
	t.Parallel()
	p := converted(t, Options{Tree: tree(map[string]string{"site.yml": "- hosts: all\n  tasks:\n    - {command: a, register: out}\n    - shell: 'echo \"{{ out.stdout }}\"'\n    - shell: echo {{ out.rc }}\n    - shell: echo {{ out.stdout }}\n"}), Site: "site.yml"}).Playbooks[0]
	if len(p.Notes) != 1 || len(p.Todos) != 1 || !strings.Contains(p.Text, `run: echo "${VAR_STEPS_OUT_OUTPUTS_STDOUT}"`) || !strings.Contains(p.Text, "${{ string(steps.out.exit_code) }}") {
		t.Errorf("%v %v\n%s", p.Notes, p.Todos, p.Text)
	}
}
