package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

const (
	command = "steps: [{name: a, uses: command, with: {run: x}}]\n"
	upgrade = "window: service\nsteps: [{name: up, uses: firmware.set, needs: 1h, with: {x: 1}}]\n"
)

func parse(t *testing.T, body string) *playbooks.Playbook {
	t.Helper()
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\n"+body), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func types(name string) (playbooks.Type, bool) {
	t, ok := map[string]playbooks.Type{
		"command":      {OnLost: "hold"},
		"file":         {OnLost: "retry", Idempotent: true},
		"firmware.set": {OnLost: "hold", Disruptive: true},
	}[name]
	return t, ok
}

func fleet(n int) []core.Host {
	out := make([]core.Host, n)
	for i := range out {
		out[i] = core.Host{Name: fmt.Sprintf("h%04d", i), Customer: "acme"}
	}
	return out
}

// inSets makes hosts, one for each set named.
func inSets(sets ...string) []core.Host {
	hosts := fleet(len(sets))
	for i, set := range sets {
		hosts[i].WindowSet = set
	}
	return hosts
}

func calendarOf(t *testing.T, text string) *admission.Calendar {
	t.Helper()
	b, err := admission.NewCalendar([]windows.Document{{File: "w.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// order is a launch's hosts by their sets, with | where a wave ends.
func order(l *launch.Launch) string {
	var b strings.Builder
	wave := 0
	for i, s := range l.Starts {
		if i == l.Limits[wave] {
			b.WriteString("| ")
			wave++
		}
		b.WriteString(s.Set + " ")
	}
	return strings.TrimSpace(b.String())
}
