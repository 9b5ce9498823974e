package playbooks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/playbooks"
)

func editorSchema(t *testing.T, more ...playbooks.Type) *jsonschema.Resolved {
	t.Helper()
	data, err := playbooks.Schema(append(builtins(t), more...))
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return resolved
}

// instance reads YAML as an editor would hand it to a validator.
func instance(t *testing.T, src string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(src), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSchemaAcceptsTheExamples(t *testing.T) {
	t.Parallel()
	var more []playbooks.Type
	for _, name := range []string{"authorized_key", "block", "group", "package", "service", "user"} {
		more = append(more, playbooks.Type{Name: name})
	}
	s := editorSchema(t, more...)
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	sources := map[string]string{"firmware of the design": designFirmware, "rollover of the design": designRollover}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nplaybook:") || strings.HasPrefix(string(src), "playbook:") { // not an inventory
			sources[file] = string(src)
		}
	}
	sources["a playbook with an include"], sources["a file of steps"] = sitePlaybook, siteSteps
	sources["a playbook with groups"] = swapPlaybook
	for name, src := range sources {
		if err := s.Validate(instance(t, src)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := editorSchema(t)
	head := "playbook: a\ntargets: true\n"
	for name, src := range map[string]string{
		"unknown key":      head + "stps: []\nsteps: [{uses: reboot}]\n",
		"no steps":         head,
		"empty steps":      head + "steps: []\n",
		"unknown type":     head + "steps: [{uses: rebot}]\n",
		"unknown step key": head + "steps: [{uses: reboot, retrys: {}}]\n",
		"unknown param":    head + "steps: [{uses: command, with: {runs: a}}]\n",
		"missing with":     head + "steps: [{uses: command}]\n",
		"wrong param type": head + "steps: [{uses: wait, with: {port: ssh}}]\n",
		"enum":             head + "schedule: {cron: '0 0 * * *', overlap: skp}\nsteps: [{uses: reboot}]\n",
		"duration":         head + "steps: [{uses: reboot, timeout: 5 minutes}]\n",
		"include and uses": head + "steps: [{include: steps/a.yaml, uses: reboot}]\n",
		"include outside":  head + "steps: [{include: ../a.yaml}]\n",
		"group and uses":   head + "steps: [{name: g, steps: [{uses: reboot}], uses: reboot}]\n",
		"group of nothing": head + "steps: [{name: g, steps: []}]\n",
		"step in a group":  head + "steps: [{name: g, steps: [{uses: reboot}], rescue: [{uses: rebot}]}]\n",
		"outputs":          head + "steps: [{uses: reboot}]\noutputs: {a: b}\n",
		"steps with vars":  "vars: {a: b}\nsteps: [{uses: reboot}]\n",
		"size":             head + "strategy: {waves: [few]}\nsteps: [{uses: reboot}]\n",
	} {
		if err := s.Validate(instance(t, src)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// The same param as an expression is accepted.
	if err := s.Validate(instance(t, head+"steps: [{uses: wait, with: {port: '${{ host.vars.port }}'}}]\n")); err != nil {
		t.Error(err)
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	t.Parallel()
	data, err := playbooks.Schema(builtins(t))
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema %q", s.Schema)
	}
	for _, object := range []*jsonschema.Schema{&s, s.Defs["step"], s.Properties["strategy"], s.Properties["schedule"], s.Defs["step"].Properties["retry"], s.Defs["params.file"]} {
		for key, p := range object.Properties {
			if p.Description == "" {
				t.Errorf("%s has no description", key)
			}
		}
	}
	again, err := playbooks.Schema(builtins(t))
	if err != nil || string(again) != string(data) {
		t.Errorf("the schema is not the same twice (%v)", err)
	}
}

func TestSchemaOfABrokenTypeIsAnError(t *testing.T) {
	t.Parallel()
	broken := playbooks.Type{Name: "odd", Params: json.RawMessage(`{"type": 7}`)}
	if _, err := playbooks.Schema([]playbooks.Type{broken}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("got %v", err)
	}
	_, err := playbooks.Parse("a.yaml", []byte("playbook: a\ntargets: true\nsteps: [{uses: odd}]\n"),
		playbooks.Options{Types: func(string) (playbooks.Type, bool) { return broken, true }})
	if err == nil || !strings.Contains(err.Error(), "fault of its plugin") {
		t.Errorf("got %v", err)
	}
}
