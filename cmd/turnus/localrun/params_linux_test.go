package localrun

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/playbooks"
)

// given returns the value that a param has in a launch with flags, where a person types lines and
// Ctrl-D; nil: the launch asks nobody.
func given(t *testing.T, path, param string, lines []string, args ...string) (any, error) {
	t.Helper()
	f := PlayFlags{vars: VarFlags{Args: args}, ask: lines != nil}
	if f.ask {
		person, terminal, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = person.Close(), terminal.Close() }()
		if _, err := io.WriteString(person, strings.Join(lines, "\n")+"\n\x04"); err != nil {
			t.Fatal(err)
		}
		f.con = console.New(terminal, io.Discard, io.Discard)
	}
	types := func(name string) (playbooks.Type, bool) { return playbooks.Type{Name: name}, true }
	all, vars, err := f.load(t.Context(), []string{path}, nil, playbooks.Options{Types: types})
	if err != nil {
		return nil, err
	}
	if _, err := launch.Prepare(all[0], []core.Host{{Name: "web1"}}, launch.Options{Vars: vars, Types: types}); err != nil {
		return nil, err
	}
	return all[0].Values()[param], nil
}

// A command line, an object of -e and a person who is asked have the rules of every launcher.
func TestParamsOfFlagsAndQuestions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(path, []byte("playbook: shop\ntargets: true\nsteps: [{uses: command}]\n"+testparts.Params), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"release", "mode", "port", "load", "drain", "zones", "db", "note"}
	for _, c := range testparts.ParamRows() {
		var others []string
		if c.Name != "release" {
			others = []string{"release=1.0"}
		}
		check := func(way string, lines []string, args ...string) {
			t.Helper()
			got, err := given(t, path, c.Name, lines, append(args, others...)...)
			if (err == nil) != (c.Says == "") || err != nil && !strings.Contains(err.Error(), c.Says) || !reflect.DeepEqual(got, c.Want) {
				t.Errorf("%s %+v: %#v, %v", way, c, got, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: the error shows what may be a secret: %v", way, err)
			}
		}
		if c.JSON != nil {
			object, err := json.Marshal(map[string]any{c.Name: c.JSON})
			if err != nil {
				t.Fatal(err)
			}
			check("-e JSON", nil, string(object))
		}
		if c.Text != "" || c.JSON == nil {
			args := []string{fmt.Sprintf("%s=%s", c.Name, c.Text)}
			if c.Text == "" {
				args = nil
			}
			check("-e", nil, args...)
			if c.Name == "relase" { // nobody is asked for it
				continue
			}
			var lines []string
			for _, name := range names {
				switch {
				case name == "release" && others != nil: // not asked
				case name != c.Name:
					lines = append(lines, "")
				case c.Says != "":
					lines = append(lines, c.Text, c.Text, c.Text)
				default:
					lines = append(lines, c.Text)
				}
			}
			check("--ask", lines)
		}
	}
}
