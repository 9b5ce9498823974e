package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/api"
)

// The kind of file by a flag's help, as far as the words of help go.
var (
	helpOfFile   = regexp.MustCompile(`^(file with|file that|YAML file|key file|known_hosts file|private key|key ring|its key|this node's own file)|\bPEM\b|this ssh_config`)
	helpOfSecret = regexp.MustCompile(`^(file with the (token|secret|user's password|age identity)|private key|key file|its key|key ring)`)
)

// readAnyway are files that config check reads in another way.
var readAnyway = []string{"config", "retention"}

func noted(f *pflag.Flag, key string) bool { _, ok := f.Annotations[key]; return ok }

// notesMissing returns what the notes of a flag lack, by its help.
func notesMissing(f *pflag.Flag) string {
	file := helpOfFile.MatchString(f.Usage) && f.Value.Type() != "bool" && !slices.Contains(readAnyway, f.Name)
	words := f.Annotations["turnus_file"]
	switch {
	case file != noted(f, "turnus_file"):
		return "names a file, or not"
	case file && helpOfSecret.MatchString(f.Usage) != slices.Contains(words, "secret"):
		return "names a file that nobody else may read, or not"
	case strings.Contains(f.Usage, settings.VariableOf(f.Name)) != noted(f, "turnus_environment"):
		return "has its default from the environment, or not"
	}
	return ""
}

func TestFlagsOfServicesAreNoted(t *testing.T) {
	for _, l := range newApp(strings.NewReader(""), io.Discard, io.Discard).longRunners() {
		l.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if what := notesMissing(f); what != "" {
				t.Errorf("turnus %s --%s (%s) %s: its notes are %v", l.cmd.Name(), f.Name, f.Usage, what, f.Annotations)
			}
		})
	}
}

// The negative control: a flag without its note is found.
func TestFlagWithoutItsNote(t *testing.T) {
	c := &cobra.Command{}
	for name, usage := range map[string]string{
		"new-file": "file with the names", "new-key": "its key, in PEM", "new-url": "where to go (TURNUS_NEW_URL)",
	} {
		c.Flags().String(name, "", usage)
	}
	settings.NamesFiles(c.Flags(), "new-key") // and not that it is a secret
	for _, name := range []string{"new-file", "new-key", "new-url"} {
		if notesMissing(c.Flags().Lookup(name)) == "" {
			t.Errorf("%s passes", name)
		}
	}
}

var readsVariable = regexp.MustCompile(`(?:Getenv|LookupEnv)\("(TURNUS_[A-Z_]+)"\)`)

// Each variable that is read from the environment is in docs/commands.md, and config check knows
// it.
func TestVariablesAreDocumentedAndKnown(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	text, services, read := page(t, "docs/commands.md"), newApp(strings.NewReader(""), io.Discard, io.Discard).longRunners(), 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range readsVariable.FindAllStringSubmatch(string(source), -1) {
			read++
			if !strings.Contains(text, "`"+m[1]+"`") {
				t.Errorf("%s reads %s, which docs/commands.md does not name", file, m[1])
			}
			if err := settings.UnknownVariables(commandsOf(services), []string{m[1] + "=x"}); err != nil {
				t.Errorf("%s reads %s, and config check reports: %v", file, m[1], err)
			}
		}
	}
	if read < 15 {
		t.Errorf("only %d places that read a variable were found", read)
	}
	if settings.UnknownVariables(commandsOf(services), []string{"TURNUS_HEALHT=x"}) == nil { // negative control
		t.Error("a misspelt variable is known")
	}
}

// A service hands its settings to its API as they are shown on the command line: without a secret.
// Control: the values themselves are still there for the service.
func TestServiceGivesItsSettingsWithoutSecrets(t *testing.T) {
	t.Setenv("TURNUS_NOTIFY", "https://hooks.example.net/T0/hunter2?sig=hunter2#hunter2")
	file := filepath.Join(t.TempDir(), "server.yaml")
	text := "ledger: postgres://turnus:hunter2@db/turnus\nrepo: https://hunter2@git.example.net/ops.git\nscale-hook: curl -d @- https://scale:hunter2@scale.example.net/hunter2\nplugins: [https://a/hunter2, 'token: hunter2', /opt/a]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newApp(strings.NewReader(""), io.Discard, io.Discard).upService()
	err := l.cmd.ParseFlags([]string{"--config", file, "--redis", "redis-cluster://a:1,b:2?password=hunter2"})
	if err == nil {
		err = l.cmd.PreRunE(l.cmd, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]api.Setting{}
	for _, s := range l.keeps.Settings {
		got[s.Name] = s
	}
	for name, want := range map[string][2]string{
		"ledger": {"postgres://turnus:…@db/turnus", "file"}, "repo": {"https://…@git.example.net/ops.git", "file"}, "scale-hook": {"curl -d @- https://scale:…@scale.example.net/…", "file"},
		"plugins": {"https://a/…, token: …, /opt/a", "file"}, "redis": {"redis-cluster://a:1,b:2?password=…", "flag"}, "notify": {"https://hooks.example.net/…?…", "environment"},
		"branch": {"main", "default"},
	} {
		if s := got[name]; s.Value != want[0] || s.From != want[1] {
			t.Errorf("%s: %+v, expected %q from %s", name, s, want[0], want[1])
		}
	}
	if all := fmt.Sprint(l.keeps.Settings); strings.Contains(all, "hunter2") || len(l.keeps.Settings) < 60 {
		t.Errorf("%d settings: %s", len(l.keeps.Settings), all)
	}
	if plugins, err := l.cmd.Flags().GetStringSlice("plugins"); err != nil || !slices.Contains(plugins, "token: hunter2") {
		t.Errorf("control: the service starts with %v, %v", plugins, err)
	}
}
