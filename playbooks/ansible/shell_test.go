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
