package playbooks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

func parseTargets(t *testing.T, lines string) (*playbooks.Playbook, error) {
	t.Helper()
	return playbooks.Parse("p.yaml", []byte("playbook: p\n"+lines+"\nsteps: [{uses: command, with: {run: date}}]\n"), options(t))
}

// All facts as one text are the same in each run: their age is a fact only where it is named.
func TestAgeIsReadByName(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`toJSON(host.facts)`: `{"cpus": 4}`, `string(host.facts.age)`: "90", `string(host.facts?.age)`: "90",
	} {
		p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps: [{uses: command, with: {run: '${{ "+expression+" }}'}}]\n"), options(t))
		if err != nil {
			t.Fatal(err)
		}
		h := core.Host{Name: "web1", Facts: map[string]any{"cpus": 4}, FactsAge: 90 * time.Second}
		data, err := p.Steps[0].With.JSON(playbooks.Env{Host: h})
		var with struct{ Run string }
		if err == nil {
			err = json.Unmarshal(data, &with)
		}
		if got := strings.Join(strings.Fields(with.Run), " "); err != nil || strings.Trim(got, "{ }") != strings.Trim(want, "{ }") {
			t.Errorf("%s: %s, %v; expected %s", expression, got, err, want)
		}
	}
}

// Targets read the facts on record. Where a host has none, only a value that does not need them is
// an answer.
func TestTargetsReadFacts(t *testing.T) {
	t.Parallel()
	debian := map[string]any{"os": map[string]any{"family": "debian"}, "cpus": 4, "arch": "x86_64"}
	for _, c := range []struct {
		targets string
		facts   map[string]any
		want    bool
		without bool
	}{
		{`host.facts.os.family == "debian"`, debian, true, false},
		{`host.facts.os.family == "redhat"`, debian, false, false},
		{`host.facts.os.family == "debian"`, nil, false, true},
		{`host.facts.arch != "x86_64"`, nil, false, true}, // a missing fact is no other value
		{`host.facts["arch"] != "x86_64"`, nil, false, true},
		{`host.facts?.os?.family != "debian"`, nil, false, true},
		{`not (host.facts.cpus > 2)`, nil, false, true},
		{`let f = host.facts; f.cpus > 2`, nil, false, true},
		{`host.name == "other" && host.facts.cpus > 2`, nil, false, false},
		{`host.name == "web1" || host.facts.cpus > 2`, nil, true, false},
		{`host.facts.cpus > 2`, debian, true, false},
		{`host.facts.age > 3600`, debian, true, false},
		{`host.facts.age > 7200`, debian, false, false},
		{`let f = host.facts; f?.age == 7200`, debian, true, false},
		{`host.facts.age > 3600`, nil, false, true}, // facts that are not there are not old
	} {
		p, err := parseTargets(t, "targets: '"+c.targets+"'")
		if err != nil {
			t.Errorf("%s: %v", c.targets, err)
			continue
		}
		if p.FactsAge != playbooks.DefaultFactsAge {
			t.Errorf("%s: facts may be %v old", c.targets, p.FactsAge)
		}
		got, err := p.Targets.Bool(playbooks.Env{Host: core.Host{Name: "web1", Facts: c.facts, FactsAge: 2 * time.Hour}})
		if got != c.want || errors.Is(err, playbooks.ErrNoFacts) != c.without || err != nil && !c.without {
			t.Errorf("%s: %v, %v; expected %v, without facts %v", c.targets, got, err, c.want, c.without)
		}
	}
}

func TestFactsAge(t *testing.T) {
	t.Parallel()
	const reads = "targets: host.facts.cpus > 2\n"
	for _, c := range []struct {
		lines string
		want  time.Duration
		err   string
	}{
		{reads + "facts: {max_age: 1h}", time.Hour, ""},
		{reads + "facts: {max_age: 30d}", 30 * 24 * time.Hour, ""},
		{"targets: true", 0, ""},
		{reads + "facts: {max_age: 31d}", 0, `p.yaml:3:18: max_age is "31d"`},
		{reads + "facts: {max_age: 5s}", 0, "from 1m to 30d"},
		{reads + "facts: {}", 0, "max_age"},
		{reads + "facts: {age: 1h}", 0, `it is called "max_age"`},
		{reads + "facts: 1h", 0, "p.yaml:3:8"},
		{"targets: true\nfacts: {max_age: 1h}", 0, "p.yaml:3:8: facts limits how old"},
		{"targets: host.facts.cpu > 2", 0, `did you mean "cpus"?`},
	} {
		p, err := parseTargets(t, c.lines)
		switch {
		case c.err == "" && (err != nil || p.FactsAge != c.want):
			t.Errorf("%s: %+v, %v", c.lines, p, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, expected %s", c.lines, err, c.err)
		}
	}
}

// Steps may not read facts older than max_age, where the playbook gives one: without any they may.
func TestFactsLimit(t *testing.T) {
	t.Parallel()
	for head, want := range map[string][2]time.Duration{
		"targets: true\nfacts: {max_age: 1h}":                {0, time.Hour},
		"targets: host.facts.cpus > 2\nfacts: {max_age: 1h}": {time.Hour, time.Hour},
		"targets: host.facts.cpus > 2":                       {playbooks.DefaultFactsAge, 0},
		"targets: true":                                      {0, 0},
	} {
		p, err := playbooks.Parse("p.yaml", []byte("playbook: p\n"+head+"\nsteps: [{uses: command, when: host.facts.cpus > 2, with: {run: date}}]\n"), options(t))
		if err != nil || p.FactsAge != want[0] || p.FactsLimit != want[1] {
			t.Errorf("%s: %+v, %v", head, p, err)
		}
	}
}
