package playbooks_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

func TestFilesThatStepsSendAreThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("play/files/ntp.conf.tmpl", "server {{.Host}}\n")
	write("play/files/site.tmpl", "{{ range .Vars.names }}{{ . | default \"a\" | quote }}{{ end }}\n")
	write("play/files/site.j2", "server\nlisten {{ port }};\n")
	write("play/files/if.j2", "{{ if }}")
	write("play/files/large.tmpl", "{{ port }}"+strings.Repeat("a", 1<<20))
	write("outside", "")
	if err := os.Symlink("../outside", filepath.Join(dir, "play", "link")); err != nil {
		t.Fatal(err)
	}
	send := playbooks.Type{Name: "send", Params: json.RawMessage(`{"type": "object", "properties": {
		"file": {"type": "string", "x-turnus-file": "file"}, "tree": {"type": "string", "x-turnus-file": "folder"}, "plain": {"type": "string"}, "template": {"type": "string", "x-turnus-file": "template"},
		"artifact": {"type": "object", "properties": {"path": {"type": "string", "x-turnus-file": "file"}}}}, "additionalProperties": false}`)}
	o := playbooks.Options{Types: func(string) (playbooks.Type, bool) { return send, true }}
	playbook := func(with string) string {
		return "playbook: a\ntargets: true\nvars: {name: x}\nsteps:\n  - {name: s, uses: send, with: " + with + "}\n"
	}
	for with, want := range map[string]string{
		`{file: files/ntp.conf.tmpl, tree: files}`: "",
		`{tree: files/}`:                           "",
		`{tree: .}`:                                "",
		`{plain: files/missing}`:                   "",
		`{file: "${{ vars.name }}"}`:               "",
		`{file: "files/${{ host.name }}.conf"}`:    "",
		`{file: ` + strings.Repeat("0a", 32) + `}`: "",
		`{template: files/site.tmpl}`:              "",
		`{template: files/large.tmpl}`:             "",
		`{file: files/site.j2}`:                    "",
		`{template: files/site.j2}`:                `a.yaml:5:44: step "s": template |play/files/site.j2:2: function "port" not defined|{{ .Vars.port }}`,
		`{template: files/if.j2}`:                  `play/files/if.j2:1: missing value for if|expected a Go template`,
		`{template: files/site.tmp}`:               `there is no file "files/site.tmp"|did you mean`,
		`{file: files/ntp.cnf.tmpl}`:               `5:40: step "s": param "file": there is no file "files/ntp.cnf.tmpl"|play/files/ntp.cnf.tmpl|did you mean`,
		`{file: entirely/else}`:                    `there is no file "entirely/else"|play/entirely/else|lists the folders`,
		`{file: files/quite-another-name}`:         `there is no file|lists the files there`,
		`{file: files}`:                            `"files" is not a regular file`,
		`{tree: files/ntp.conf.tmpl}`:              `"files/ntp.conf.tmpl" is a file`,
		`{tree: fils}`:                             `there is no folder "fils"|play/files?`,
		`{artifact: {path: fw.bin}}`:               `param "artifact.path": there is no file "fw.bin"`,
		`{file: ../outside}`:                       `"../outside" cannot be sent|below the playbook's folder`,
		`{file: /etc/passwd}`:                      `"/etc/passwd" cannot be sent`,
		`{file: link}`:                             `"link" cannot be sent`,
	} {
		write("play/a.yaml", playbook(with))
		_, err := playbooks.Load([]string{filepath.Join(dir, "play", "a.yaml")}, o)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", with, err)
			}
			continue
		}
		if _, ok := errors.AsType[playbooks.Diagnostics](err); !ok {
			t.Errorf("%s: %v", with, err)
			continue
		}
		for part := range strings.SplitSeq(want, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v\nlacks %s", with, err, part)
			}
		}
	}
	// A playbook without its folder, such as that of a run's snapshot, is loaded without its files.
	if _, err := playbooks.Parse("a.yaml", []byte(playbook(`{file: files/missing}`)), o); err != nil {
		t.Error(err)
	}
}

// The files of an included file are relative to the playbook's folder.
func TestFilesThatIncludedStepsSendAreThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":         "playbook: a\ntargets: true\nsteps:\n  - include: steps/one.yaml\n",
		"steps/one.yaml": "steps:\n  - {name: good, uses: send, with: {file: beside}}\n  - {name: bad, uses: send, with: {file: below}}\n",
		"steps/below":    "",
		"beside":         "",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "steps"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	send := playbooks.Type{Name: "send", Params: json.RawMessage(`{"type": "object", "properties": {"file": {"type": "string", "x-turnus-file": "file"}}}`)}
	_, err := playbooks.Load([]string{filepath.Join(dir, "a.yaml")}, playbooks.Options{Types: func(string) (playbooks.Type, bool) { return send, true }})
	if d, ok := errors.AsType[playbooks.Diagnostics](err); !ok || len(d) != 1 || !strings.Contains(d[0].Place(), filepath.Join("steps", "one.yaml")+":3:") || !strings.Contains(d[0].Message, `"below"`) {
		t.Errorf("%v", err)
	}
}

// The mistakes in templates of a folder are found before a run, whatever the job type and its
// params are called.
func TestTemplatesOfAFolderAreParsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"play/conf/a.tmpl": "{{ .Host }}", "play/conf/sub/b.tmpl": "a\n{{ port }}\n", "play/conf/c.j2": "{{ if }}", "play/conf/.git/d.tmpl": "{{ if }}", "play/good/a.tmpl": "{{ .Host }}",
		"outside/x.tmpl": "{{ if }}",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := playbooks.Options{Types: func(name string) (playbooks.Type, bool) {
		return playbooks.Type{Name: name, Params: json.RawMessage(`{"type": "object", "properties": {"source": {"type": "string", "x-turnus-file": "folder"}, "templates": {"type": "boolean"}, "rendered": {"type": "boolean", "x-turnus-file": "templates"}, "vars": {"type": "object"},
			"sub": {"type": "object", "properties": {"tree": {"type": "string", "x-turnus-file": "folder"}, "on": {"type": "boolean", "x-turnus-file": "templates"}}}}}`)}, true
	}}
	for with, want := range map[string]string{
		`send, with: {source: conf}`:                                                "",
		`send, with: {source: conf, rendered: false}`:                               "",
		`send, with: {source: good, rendered: true}`:                                "",
		`copy, with: {source: conf, templates: true}`:                               "",
		`send, with: {source: "${{ host.name }}", rendered: true}`:                  "",
		`send, with: {source: conf/, rendered: true}`:                               "conf/sub/b.tmpl:2: function \"port\" not defined",
		`send, with: {source: conf, rendered: true, vars: {a: "${{ host.name }}"}}`: "{{ .Vars.port }}",
		`send, with: {source: conf, sub: {tree: good, on: true}}`:                   "",
		`send, with: {sub: {tree: conf, on: true}}`:                                 "conf/sub/b.tmpl:2: function \"port\" not defined",
	} {
		file := filepath.Join(dir, "play", "a.yaml")
		if err := os.WriteFile(file, []byte("playbook: a\ntargets: true\nsteps:\n  - {name: s, uses: "+with+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := playbooks.Load([]string{file}, o)
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ".git")) {
			t.Errorf("%s: %v, expected %q", with, err, want)
		}
	}
}
