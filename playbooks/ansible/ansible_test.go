package ansible

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/turnus/turnus/playbooks"
)

const pairVars = "vars: {port: 8080, app: shop, names: [ann, ben], users: [{name: ann, uid: 1001}, {name: ben, uid: 1002}], on: true}"

func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return out
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

func pairTree(tasks string) fstest.MapFS {
	play := "- hosts: web\n  " + strings.Replace(pairVars, "on: true", `"on": true`, 1) + "\n  tasks:\n" + indented(tasks)
	return tree(map[string]string{
		"play/site.yml": play, "play/files/motd": "hello\n", "play/files/app-1.4.tar.gz": "x", "play/more.yml": "- command: more\n- command: most\n  tags: [x]\n", "secret": "x", "outside.yml": "[]",
		"play/templates/site.j2": "listen {{ port }};\napp {{ app }};\n", "play/templates/plain.j2": "plain\n", "play/templates/logic.j2": "{% if on %}x{% endif %}\n",
	})
}

// holds checks that a playbook without todo is one, and that one with todo names its origin.
func holds(t *testing.T, p Playbook) {
	t.Helper()
	_, err := playbooks.Parse(p.Name+".yaml", []byte(p.Text), playbooks.Options{})
	if len(p.Todos) == 0 && err != nil {
		t.Errorf("%s does not validate: %v\n%s", p.Name, err, p.Text)
	}
	if len(p.Todos) > 0 && err == nil {
		t.Errorf("%s validates with %d todos", p.Name, len(p.Todos))
	}
	for _, todo := range p.Todos {
		if err != nil && !strings.Contains(err.Error(), todo.Place) && len(p.Todos) < 40 {
			t.Errorf("the error does not name %s:\n%v", todo.Place, err)
		}
		if todo.Reason == "" {
			t.Errorf("%s has no reason", todo.Place)
		}
	}
}

func TestTasksBecomeSteps(t *testing.T) {
	pairs, err := txtar.ParseFile("testdata/pairs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range pairs.Files {
		want[f.Name] = string(f.Data)
	}
	seen := 0
	for name, tasks := range want {
		if path.Ext(name) != ".yml" {
			continue
		}
		seen++
		t.Run(strings.TrimSuffix(name, ".yml"), func(t *testing.T) {
			r, err := Convert(Options{Tree: pairTree(tasks), Site: "play/site.yml"})
			if err != nil {
				t.Fatal(err)
			}
			got := steps(r.Playbooks[0])
			if other := want[strings.TrimSuffix(name, ".yml")+".yaml"]; got != other {
				t.Errorf("%s becomes\n%s\nexpected\n%s", name, got, other)
			}
			holds(t, r.Playbooks[0])
		})
	}
	if seen < 20 {
		t.Errorf("only %d pairs", seen)
	}
}

// A module of the same name as a job type is left to that job type.
func TestHintsNameJobTypes(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/job-types/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages of job types: %v", len(pages), err)
	}
	known := map[string]bool{}
	for _, page := range pages {
		known[strings.TrimSuffix(filepath.Base(page), ".md")] = true
	}
	named := regexp.MustCompile(`uses: ([a-z_.]+)`)
	for module, hint := range instead {
		for _, use := range named.FindAllStringSubmatch(hint, -1) {
			if !known[use[1]] {
				t.Errorf("%s: no job type %s", module, use[1])
			}
		}
		if known[module] && !strings.HasPrefix(hint, "uses: "+module) {
			t.Errorf("%s is a job type, but its hint is %q", module, hint)
		}
	}
	for name := range known {
		if strings.Contains(name, ".") || modules[name] != nil || notOfAnsible[name] {
			continue
		}
		if instead[name] == "" {
			t.Errorf("%s has no hint", name)
		}
	}
}

// notOfAnsible are job types whose name is no module.
var notOfAnsible = map[string]bool{"block": true, "facts": true, "http": true, "line": true, "wait": true}

// steps are the steps of a playbook, and its notes; the texts of todos are left out.
func steps(p Playbook) string {
	_, text, _ := strings.Cut(p.Text, "\nsteps:\n")
	var b strings.Builder
	was := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "      was:"):
			was = true
		case !strings.HasPrefix(line, "        "):
			was = false
		}
		if !was && line != "\n" {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
	}
	for _, n := range p.Notes {
		b.WriteString("# note " + n.Place + ": " + n.Text + "\n")
	}
	return b.String()
}
