package localrun

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestPatternsAreContinued(t *testing.T) {
	names := patternNames([]core.Host{{Name: "web1", Groups: []string{"web", "all"}, Customer: "acme"}, {Name: "db1", Site: "fra", Groups: []string{"all"}}})
	if want := []string{"acme", "all", "db1", "fra", "web", "web1"}; !slices.Equal(names, want) {
		t.Fatalf("names are %q, expected %q", names, want)
	}
	for part, want := range map[string][]string{
		"":         names,
		"we":       {"web", "web1"},
		"web:!we":  {"web:!web", "web:!web1"},
		"db1,f":    {"db1,fra"},
		"all:&acm": {"all:&acme"},
		"x":        nil,
	} {
		if got := continued(part, names); !slices.Equal(got, want) {
			t.Errorf("%q is continued by %q, expected %q", part, got, want)
		}
	}
}

func TestTagsOfAPlaybookAreCompleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	text := "playbook: x\nvars: {tags: no-list}\nsteps:\n  - {uses: command, with: {run: a}, tags: [quick, web]}\n  - {uses: command, with: {run: b}, tags: [slow]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := completeTags(nil, []string{path, "missing.yaml"}, ""); !slices.Equal(got, []string{"quick", "slow", "web"}) {
		t.Errorf("tags are %q", got)
	}
	if got, _ := completeTags(nil, []string{path}, "web,s"); !slices.Equal(got, []string{"web,slow"}) {
		t.Errorf("tags after a comma are %q", got)
	}
}

func TestParamsOfAPlaybookAreCompleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	text := "playbook: x\nparams:\n  release: {type: string}\n  db: {type: secret}\nvars: {retries: 3}\nsteps: [{uses: nothing}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string][]string{"": {"db=", "release=", "retries="}, "re": {"release=", "retries="}, "release=1": nil} {
		if got, _ := completeParams(nil, []string{path, "missing.yaml"}, part); !slices.Equal(got, want) {
			t.Errorf("%q is completed by %q, expected %q", part, got, want)
		}
	}
}
