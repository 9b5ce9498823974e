package playbooks_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/playbooks"
)

const withParams = "playbook: shop\n" + testparts.Params + `
vars: {owner: ops}
targets: params.mode == "full" || host.name == "web1"
steps:
  - {name: deploy, uses: command, secrets: {DB: "${{ params.db }}"}, with: {run: "deploy ${{ params.release }} ${{ vars.owner }}"}}
`

func parsed(t *testing.T, vars map[string]any) (*playbooks.Playbook, error) {
	t.Helper()
	o := options(t)
	o.Vars = vars
	return playbooks.Parse("shop.yaml", []byte(withParams), o)
}

// One table of values, as a command line, JSON and YAML give them: text stands for every type, and
// nothing else is converted.
func TestParamValues(t *testing.T) {
	t.Parallel()
	rows := append(testparts.ParamRows(),
		testparts.ParamRow{Name: "port", JSON: 8080.0, Want: 8080},
		testparts.ParamRow{Name: "port", JSON: json.Number("8080"), Want: 8080},
		testparts.ParamRow{Name: "port", Text: "0", JSON: 0, Says: "expected"},
		testparts.ParamRow{Name: "load", Text: "inf", Says: "expected"})
	for _, c := range rows {
		for _, v := range []any{c.Text, c.JSON} {
			if v == nil || v == "" && c.JSON != "" { // no value: see TestParamsOfALaunch
				continue
			}
			p, err := parsed(t, map[string]any{"release": "1.0", c.Name: v})
			if c.Name == "relase" { // CheckVars refuses it
				continue
			}
			if c.Says != "" {
				var diags playbooks.Diagnostics
				if !errors.As(err, &diags) || len(diags) != 1 || diags[0].Line == 0 || !strings.Contains(diags[0].Hint, "-e ") && !strings.Contains(diags[0].Hint, "quotes") || !strings.Contains(err.Error(), "param \""+c.Name+"\"") || !strings.Contains(err.Error(), c.Says) {
					t.Errorf("%s = %#v: %v", c.Name, v, err)
				}
				if err != nil && strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error shows what may be a secret: %v", err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s = %#v: %v", c.Name, v, err)
				continue
			}
			if got := p.Values()[c.Name]; !reflect.DeepEqual(got, c.Want) {
				t.Errorf("%s = %#v: %#v, expected %#v", c.Name, v, got, c.Want)
			}
		}
	}
}

// A list has one form on a command line, which people do not guess.
func TestListOnACommandLine(t *testing.T) {
	t.Parallel()
	_, err := parsed(t, map[string]any{"zones": "a,b"})
	if err == nil || !strings.Contains(err.Error(), `hint: a list is JSON: ["a", "b"]; with -e in single quotes: -e 'zones=["a", "b"]'`) {
		t.Errorf("%v", err)
	}
}

// A launch has the defaults, and needs the required params; expressions read both, and a step gets
// the secret that a param names.
func TestParamsOfALaunch(t *testing.T) {
	t.Parallel()
	p, err := parsed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckRequired()
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), `the required param "release" has no value: expected text that matches \d+\.\d+ (Version)`) || !strings.Contains(err.Error(), "hint: give it with -e release=VALUE") {
		t.Errorf("%v", err)
	}
	if p, err = parsed(t, map[string]any{"release": "2.0", "mode": "full", "db": "shop.test"}); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckRequired(); err != nil {
		t.Error(err)
	}
	env := playbooks.Env{Host: core.Host{Name: "web2"}, Vars: p.Vars, Params: p.Values()}
	if ok, err := p.Targets.Bool(env); err != nil || !ok {
		t.Errorf("targets: %v, %v", ok, err)
	}
	if with, err := p.Steps[0].With.JSON(env); err != nil || string(with) != `{"run":"deploy 2.0 ops"}` {
		t.Errorf("with: %s, %v", with, err)
	}
	if got := p.Steps[0].Secrets["DB"]; got != "shop.test" {
		t.Errorf("secret: %q", got)
	}
	if len(p.Vars) != 1 {
		t.Errorf("params are among the vars: %v", p.Vars)
	}
	for _, v := range []any{"a\x00b", []any{"a", "\x00"}, map[string]any{"a": map[string]any{"\x00": 1}}} {
		if err := p.CheckVars(map[string]any{"owner": v}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), `playbook shop: var "owner": expected text without a NUL byte`) {
			t.Errorf("%#v: %v", v, err)
		}
	}
	if err := p.CheckVars(map[string]any{"relaese": "1.0"}); err == nil {
		t.Error("control: an unknown name was taken")
	}
}

// A file is refused where it gives text with a NUL byte: as a var, and in its schedule.
func TestNULInAFile(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`vars: {a: {b: ["\0"]}}`:                                                             `shop.yaml:3:11: var "a" has a NUL byte`,
		`params: {a: {type: string, default: "\0"}}`:                                         `param "a": "\u0000"`,
		"vars: {a: b}\n" + `schedule: {cron: "0 3 * * 1", vars: {a: "\0"}}`:                  `shop.yaml:4:41: var "a" has a NUL byte`,
		"params: {a: {type: string}}\n" + `schedule: {cron: "0 3 * * 1", params: {a: "\0"}}`: `shop.yaml:4:43: param "a": "\u0000"`,
	} {
		_, err := playbooks.Parse("shop.yaml", []byte("playbook: shop\ntargets: true\n"+text+"\nsteps: [{uses: command, with: {run: uptime}}]\n"), options(t))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), "expected text without a NUL byte") != 1 {
			t.Errorf("%s: %v", text, err)
		}
	}
}
