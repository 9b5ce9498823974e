package launch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// No part of a command line is an expression, a reference to a secret, or YAML.
func TestCommandLineIsData(t *testing.T) {
	for _, line := range []string{"uptime", "${{ secrets.db }}", "$${{ 1 + 1 }}", "${{", "{{ item }}", "\"\n  uses: reboot\n", "a: b # c", "docker ps --format '{{.Names}}'", strings.Repeat("${{ ", 500)} {
		p, vars, err := Command{Line: line}.Playbook([]core.Host{{Name: "a"}}, nil)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		l, err := Prepare(p, []core.Host{{Name: "a"}}, Options{Vars: vars})
		if err != nil {
			t.Fatal(err)
		}
		again, err := playbooks.Parse(l.Snapshot.File, []byte(l.Snapshot.Source), playbooks.Options{Vars: l.Snapshot.Vars}) // as a worker does
		if err != nil {
			t.Fatal(err)
		}
		text, err := again.Steps[0].With.JSON(playbooks.Env{Vars: again.Vars})
		if err != nil {
			t.Fatal(err)
		}
		var with map[string]string
		if err := json.Unmarshal(text, &with); err != nil || with["run"] != line || len(again.Secrets()) > 0 {
			t.Errorf("%q reaches the host as %q, %v", line, with["run"], err)
		}
	}
}

func TestCommandKeepsWindowsOfHosts(t *testing.T) {
	hosts := []core.Host{{Name: "a"}, {Name: "b", WindowSet: "acme"}}
	for _, c := range []struct {
		name    string
		command Command
		hosts   []core.Host
		want    string // in the source; "" is an error
	}{
		{"no set", Command{Line: "x"}, hosts[:1], "uses: command\n      disruptive: false\n      with:"},
		{"a set", Command{Line: "x", Needs: 5 * time.Minute}, hosts, "window: own\n      needs: 5m0s\n"},
		{"a set, no time", Command{Line: "x"}, hosts, ""},
		{"outside", Command{Line: "x", OutsideWindows: true}, hosts, "disruptive: false\n      with:"},
		{"a threshold", Command{Line: "x", StopAfter: "10%", Timeout: time.Second}, hosts[:1], "stop_after: 10%"},
		{"a count", Command{Line: "x", StopAfter: "5", Disruptive: true, Tenant: "acme"}, hosts[:1], "disruptive: true"},
		{"empty", Command{Line: " "}, hosts[:1], ""},
		{"NUL", Command{Line: "a\x00"}, hosts[:1], ""},
		{"long", Command{Line: strings.Repeat("x", MaxCommand+1)}, hosts[:1], ""},
		{"a wrong threshold", Command{Line: "x", StopAfter: "y"}, hosts[:1], ""},
	} {
		p, _, err := c.command.Playbook(c.hosts, nil)
		switch {
		case c.want == "" && !errors.Is(err, core.ErrInvalid):
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err != nil || !strings.Contains(string(p.Source), c.want)):
			t.Errorf("%s: %v\n%s", c.name, err, p.Source)
		}
	}
}
