package playbooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

const sitePlaybook = `playbook: web
targets: true
vars: {port: 8080}
steps:
  - {name: probe, uses: command, with: {run: "true"}}
  - name: site
    include: steps/site.yaml
    with: {port: "${{ vars.port }}", root: /srv}
    when: host.labels.env == "prod"
    tags: [web]
    become: {user: app}
    window: night
  - {uses: command, with: {run: "echo ${{ steps.site.outputs.path }}"}, when: steps.site.changed}
`

const siteSteps = `params:
  port: {type: integer, required: true}
  root: {type: string}
  mode: {type: string, default: "0644"}
steps:
  - {name: conf, uses: file, with: {path: "${{ params.root }}/site.conf", content: "listen ${{ params.port }}", mode: "${{ params.mode }}"}, notify: [restart], tags: [conf]}
  - {name: check, uses: command, with: {run: "test ${{ steps.conf.changed }}"}, become: false, window: none}
handlers:
  - {name: restart, uses: command, with: {run: "restart ${{ params.port }}"}}
outputs: {path: "${{ steps.conf.outputs.path }}", port: "${{ params.port }}"}
`

func included(t *testing.T, files map[string]string) playbooks.Options {
	o := options(t)
	o.Steps = playbooks.ReadFrom(files)
	return o
}

// The steps of a file stand where it is included, with names, tags, user and window of the include,
// and read their own params.
func TestInclude(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("play/web.yaml", []byte(sitePlaybook), included(t, map[string]string{"steps/site.yaml": siteSteps}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Calls() {
		names = append(names, c.Name)
	}
	if want := []string{"probe", "site/conf", "site/check", "command", "site/restart"}; !slices.Equal(names, want) {
		t.Fatalf("calls %v, want %v", names, want)
	}
	conf, check, restart := p.Steps[1], p.Steps[2], p.Handlers[0]
	if !slices.Equal(conf.Tags, []string{"web", "conf"}) || conf.Window != "night" || *conf.Become != (core.BecomeRule{On: true, User: "app"}) || !slices.Equal(conf.Notify, []string{"site/restart"}) {
		t.Errorf("conf does not have what it inherits: %+v", conf)
	}
	if check.Window != playbooks.NoWindow || check.Become.On {
		t.Errorf("check does not keep its own: window %s, become %+v", check.Window, check.Become)
	}
	if len(restart.Tags) > 0 || restart.Window != "night" {
		t.Errorf("the handler has tags %v, window %s", restart.Tags, restart.Window)
	}
	site := p.Blocks[0]
	if site.Name != "site" || site.First != 1 || site.End != 3 || !slices.Equal(conf.Within, []int{0}) || len(p.Steps[3].Within) > 0 {
		t.Errorf("block %+v; within %v, %v", site, conf.Within, p.Steps[3].Within)
	}
	env := playbooks.Env{Host: core.Host{Name: "a", Labels: map[string]string{"env": "prod"}}, Vars: p.Vars, Steps: map[string]map[string]any{}}
	if ok, err := site.When.Bool(env); err != nil || !ok {
		t.Errorf("when: %v, %v", ok, err)
	}
	given, err := site.Given(env)
	if err != nil {
		t.Fatal(err)
	}
	env.Included = map[string]map[string]any{"site": given}
	if params, err := conf.With.JSON(env); err != nil || string(params) != `{"content":"listen 8080","mode":"0644","path":"/srv/site.conf"}` {
		t.Errorf("with of conf: %s, %v", params, err)
	}
	if params, err := restart.With.JSON(env); err != nil || string(params) != `{"run":"restart 8080"}` {
		t.Errorf("with of the handler: %s, %v", params, err)
	}
	env.Steps["site/conf"] = map[string]any{"changed": true, "outcome": "changed", "outputs": map[string]any{"path": "/srv/site.conf"}}
	outputs, err := site.Outputs(env)
	if err != nil || outputs["path"] != "/srv/site.conf" || outputs["port"] != 8080 {
		t.Errorf("outputs %v, %v", outputs, err)
	}
	env.Steps["site"] = map[string]any{"changed": true, "outcome": "changed", "outputs": outputs}
	if params, err := p.Steps[3].With.JSON(env); err != nil || string(params) != `{"run":"echo /srv/site.conf"}` {
		t.Errorf("with of the step after: %s, %v", params, err)
	}
	again, err := playbooks.Parse(p.File, p.Source, playbooks.Options{Steps: p.ReadSteps})
	if err != nil || len(again.Steps) != len(p.Steps) || string(again.Whole()) != string(p.Whole()) {
		t.Errorf("from what it keeps: %v", err)
	}
}

// A flush may be for the handlers of an included file alone, in that file or after it.
func TestFlushOfIncludedHandlers(t *testing.T) {
	t.Parallel()
	const steps = "steps:\n  - {name: conf, uses: command, with: {run: a}, notify: [restart]}\nEND\nhandlers:\n  - {name: restart, uses: command, with: {run: b}}\n"
	const flush = "  - {flush: handlers}\n  - {uses: command, with: {run: c}}\n"
	inside, plain := strings.Replace(steps, "END\n", flush, 1), strings.Replace(steps, "END\n", "", 1)
	book := "playbook: web\ntargets: true\nsteps:\n  - include: steps/site.yaml\n"
	for name, c := range map[string]struct {
		book, file string
		good       bool
	}{
		"in the file":          {book, inside, true},
		"after the include":    {book + flush, plain, true},
		"control: no handlers": {book + flush, "steps: [{uses: command, with: {run: a}}]\n", false},
	} {
		_, err := playbooks.Parse("play/web.yaml", []byte(c.book), included(t, map[string]string{"steps/site.yaml": c.file}))
		if good := err == nil; good != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A value that a param of an include does not take, found on a host.
func TestIncludeRefusesAValueOfAHost(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("web.yaml", []byte(strings.Replace(sitePlaybook, "${{ vars.port }}", "${{ host.vars.port }}", 1)),
		included(t, map[string]string{"steps/site.yaml": siteSteps}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Blocks[0].Given(playbooks.Env{Host: core.Host{Name: "a", Vars: map[string]any{"port": "http"}}})
	if err == nil || !strings.Contains(err.Error(), `web.yaml:8:18: on host a: param "port": "http"`) {
		t.Errorf("got %v", err)
	}
}

func TestBadIncludes(t *testing.T) {
	t.Parallel()
	const head = "playbook: web\ntargets: true\nsteps:\n"
	one := "steps:\n  - {name: a, uses: command, with: {run: \"true\"}}\n"
	deep := map[string]string{}
	for i := range 9 {
		deep["steps/"+string(rune('a'+i))+".yaml"] = "steps: [{include: steps/" + string(rune('b'+i)) + ".yaml}]\n"
	}
	for name, tt := range map[string]struct {
		steps string
		files map[string]string
		want  []string
	}{
		"missing":       {"  - {include: steps/x.yaml}\n", nil, []string{"web.yaml:4:15: steps/x.yaml cannot be included: there is no such file"}},
		"out":           {"  - {include: ../x.yaml}\n", nil, []string{"web.yaml:4:15: \"../x.yaml\" cannot be included", "expected a path below the playbook's folder"}},
		"absolute":      {"  - {include: /etc/x.yaml}\n", nil, []string{"web.yaml:4:15: \"/etc/x.yaml\" cannot be included"}},
		"templated":     {"  - {include: \"steps/${{ vars.x }}.yaml\"}\n", nil, []string{"web.yaml:4:15: include holds an expression"}},
		"loop":          {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": "steps: [{include: steps/y.yaml}]\n", "steps/y.yaml": "steps: [{include: steps/x.yaml}]\n"}, []string{"steps/y.yaml:1:19: the file includes itself: steps/x.yaml -> steps/y.yaml -> steps/x.yaml", "included at steps/x.yaml:1:19, included at web.yaml:4:15"}},
		"deep":          {"  - {include: steps/a.yaml}\n", deep, []string{"steps/h.yaml:1:19: includes are nested deeper than 8 files"}},
		"inner key":     {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": one + "vars: {a: 1}\n"}, []string{"steps/x.yaml:3:1: unknown key \"vars\"", "included at web.yaml:4:15", "params"}},
		"inner name":    {"  - {name: s, include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": strings.Replace(one, "\"true\"", "\"${{ vars.x }}\"", 1)}, []string{"steps/x.yaml:2:47: \"vars\" cannot be read here", "included at web.yaml:4:24"}},
		"inner yaml":    {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": "steps: ["}, []string{"steps/x.yaml:1:1: not YAML", "included at web.yaml:4:15"}},
		"unknown param": {"  - {include: steps/x.yaml, with: {por: 1}}\n", map[string]string{"steps/x.yaml": "params: {port: {type: integer}}\n" + one}, []string{"web.yaml:4:36: steps/x.yaml has no param \"por\"", "did you mean \"port\""}},
		"missing param": {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": "params: {port: {type: integer, required: true}}\n" + one}, []string{"web.yaml:4:15: the required param \"port\" of steps/x.yaml has no value", "with: {port: VALUE}"}},
		"wrong param":   {"  - {include: steps/x.yaml, with: {port: http}}\n", map[string]string{"steps/x.yaml": "params: {port: {type: integer}}\n" + one}, []string{"web.yaml:4:42: param \"port\": \"http\"", "expected a whole number"}},
		"no output":     {"  - {name: s, include: steps/x.yaml}\n  - {uses: command, with: {run: \"${{ steps.s.outputs.y }}\"}}\n", map[string]string{"steps/x.yaml": one}, []string{"the outputs of include \"s\" has no \"y\""}},
		"inner step":    {"  - {name: s, include: steps/x.yaml}\n  - {uses: command, with: {run: \"x\"}, when: steps.a.changed}\n", map[string]string{"steps/x.yaml": one}, []string{"web.yaml:5:51: steps has no \"a\""}},
		"uses too":      {"  - {include: steps/x.yaml, uses: command}\n", map[string]string{"steps/x.yaml": one}, []string{"a step has uses or include, not both"}},
		"two names":     {"  - {name: s, include: steps/x.yaml}\n  - {name: s/a, uses: command, with: {run: x}}\n", map[string]string{"steps/x.yaml": one}, []string{"web.yaml:5:12: a second step of the playbook is named \"s/a\""}},
		"playbook":      {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": "playbook: x\ntargets: true\n" + one}, []string{"steps/x.yaml:1:1: unknown key \"playbook\"", "included at web.yaml:4:15"}},
		"handler":       {"  - {include: steps/x.yaml}\n", map[string]string{"steps/x.yaml": strings.Replace(one, "}}", "}, notify: [restart]}", 1)}, []string{"steps/x.yaml:2:60: unknown handler \"restart\""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := playbooks.Parse("web.yaml", []byte(head+tt.steps), included(t, tt.files))
			if err == nil {
				t.Fatal("it loads, but it is bad")
			}
			if bad, ok := errors.AsType[playbooks.Diagnostics](err); !ok || bad[0].Playbook() != "web.yaml" {
				t.Errorf("the playbook to validate is not web.yaml: %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got:\n%v\nwithout:\n%s", err, want)
				}
			}
		})
	}
}

// On the disk: files beside the playbook, no links that lead out, and a folder of playbooks leaves
// out the files that they include.
func TestIncludeFromDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("play/web.yaml", sitePlaybook)
	write("play/steps/site.yaml", siteSteps)
	all, err := playbooks.Load([]string{filepath.Join(dir, "play")}, options(t))
	if err != nil || len(all) != 1 || len(all[0].Included) != 1 {
		t.Fatalf("%d playbooks, %v", len(all), err)
	}
	_, err = playbooks.Load([]string{filepath.Join(dir, "play/steps/site.yaml")}, options(t))
	if err == nil || !strings.Contains(err.Error(), "holds steps that playbooks include") {
		t.Errorf("a file of steps as a playbook: %v", err)
	}
	write("secret.yaml", siteSteps)
	if err := os.Remove(filepath.Join(dir, "play/steps/site.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "secret.yaml"), filepath.Join(dir, "play/steps/site.yaml")); err != nil {
		t.Fatal(err)
	}
	_, err = playbooks.Load([]string{filepath.Join(dir, "play/web.yaml")}, options(t))
	if err == nil || !strings.Contains(err.Error(), "web.yaml:7:14: steps/site.yaml cannot be included: path escapes") {
		t.Errorf("a link out of the folder: %v", err)
	}
}
