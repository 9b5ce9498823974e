package playbooks

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// Jinja in a param or a var is refused with its place and the form that Turnus has.
func TestFaultW9JinjaIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`"systemctl restart {{ service }}"`:         "p.yaml:4:50: \"{{ service }}\" is Jinja",
		`"{{ service }}"`:                           "expected ${{ vars.service }}",
		`"{{inventory_hostname}}"`:                  "expected ${{ host.name }}",
		`"{{ x | default('y') }}"`:                  "is Jinja",
		`"${{ vars.service }} {{ item.name }}"`:     "\"{{ item.name }}\" is Jinja",
		`"docker ps --format '{{.Names}}'"`:         "",
		`"docker inspect -f '{{json .State}}' x"`:   "",
		`"echo ${{ vars.service }}"`:                "",
		`"echo $${{ github.ref }}"`:                 "",
		`"echo ${{ \"{{\" }} service }}"`:           "",
		`'echo ${{ "{{ service }}" }}'`:             "",
		`"echo ${a:-{}} {{}} {{ a } }} awk {{{ x}"`: "",
	} {
		_, err := Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: {service: ntp}\nsteps: [{uses: x, with: {run: "+text+"}}]\n"), Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	_, err := Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: {a: {b: [\"{{ c }}\"]}}\nsteps: [{uses: x}]\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "p.yaml:3:17: \"{{ c }}\" is Jinja") {
		t.Errorf("in vars: %v", err)
	}
}

func TestFaultW9UnknownVar(t *testing.T) {
	p, err := Parse("p.yaml", []byte("playbook: p\ntargets: host.name == vars.only\nvars: {image: a}\nsteps: [{uses: x, with: {run: \"${{ vars.version }}\"}}]\n"),
		Options{Vars: map[string]any{"version": 1, "only": "h", "imgae": 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckVars(map[string]any{"image": "b", "version": 2, "only": "h"}); err != nil {
		t.Error(err)
	}
	if err := p.CheckVars(map[string]any{"imgae": 2}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "no var or param \"imgae\": invalid\nhint: did you mean \"image\"?") {
		t.Error(err)
	}
}
