package launch

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

func TestFaultW5HostsOfOtherPoolsAreRefused(t *testing.T) {
	t.Parallel()
	hosts := []core.Host{{Name: "anywhere"}, {Name: "ams", Pool: "eu"}, {Name: "nyc", Pool: "us"}}
	for name, c := range map[string]struct {
		targets, playbook, pool string
		says                    []string // of the refusal; none: the run is made
	}{
		"a host of another pool":          {"true", "", "eu", []string{`"eu"`, `pool "us" has nyc`, "--pool us"}},
		"hosts of two other pools":        {"true", "", "default", []string{`"default"`, `pool "eu" has ams; pool "us" has nyc`}},
		"its own and none":                {`host.pool != "us"`, "", "eu", nil},
		"a host without a pool":           {`host.name == "anywhere"`, "", "us", nil},
		"the playbook's pool":             {`host.name == "anywhere"`, "us", "eu", []string{`pool "us" has anywhere`}},
		"the host's beats the playbook's": {`host.name == "ams"`, "us", "eu", nil},
		"no pool is asked for":            {"true", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := "playbook: p\ntargets: '" + c.targets + "'\nsteps: [{uses: command, with: {run: date}}]\n"
			if c.playbook != "" {
				src += "pool: " + c.playbook + "\n"
			}
			p, err := playbooks.Parse("p.yaml", []byte(src), playbooks.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := Prepare(p, hosts, Options{Pool: c.pool})
			if len(c.says) == 0 {
				if err != nil || len(l.Hosts) == 0 {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("%v, expected a refusal", err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v: does not contain %s", err, text)
				}
			}
		})
	}
}
