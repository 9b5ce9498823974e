package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// versioned is a node's plugins with a version.
type versioned struct {
	*script
	here    string // of uptime, which has the type uptime.check; "": the plugin is not there
	without bool   // it has not that type
}

func (v versioned) Type(name string) (host.Type, bool) {
	if name != "uptime.check" || v.without || v.here == "" {
		return v.script.Type(name)
	}
	return host.Type{Name: name, OnLost: "hold", Plugin: "uptime " + v.here}, true
}

func (v versioned) Plugins() []host.Plugin {
	if v.here == "" {
		return nil
	}
	return []host.Plugin{{Name: "uptime", Version: v.here}}
}

// Where a step fails because the worker has another version of its plugin than the playbook was
// checked with, it names both and where they are; nothing is reported while it works, or when
// nobody knows. Red with skew returning "".
func TestFaultP5AFailureNamesBothVersionsOfThePlugin(t *testing.T) {
	refused := host.Outcome{Failed: true, Effects: host.EffectsNone, Misfit: true, Reason: "invalid parameters: with.at_least: unknown parameter"}
	const both = "; the server checked the playbook with plugin uptime 1.2.0, worker node-1 has "
	for name, c := range map[string]struct {
		checked string
		plugins versioned
		out     host.Outcome
		err     error
		outcome core.Outcome
		reason  string // how it ends
	}{
		"params":              {"1.2.0", versioned{here: "1.1.0"}, refused, nil, core.Failed, "unknown parameter" + both + "uptime 1.1.0\nhint: use the same version on both; `turnus plugins ls` prints the versions"},
		"params, in the call": {"1.2.0", versioned{here: "1.1.0"}, host.Outcome{Failed: true}, fmt.Errorf("too many: %w", core.ErrInvalid), core.Failed, both + "uptime 1.1.0\nhint: use the same version on both; `turnus plugins ls` prints the versions"},
		"no such type":        {"1.2.0", versioned{here: "1.1.0", without: true}, host.Outcome{}, nil, core.Failed, "no plugin of worker node-1 has the job type uptime.check" + both + "uptime 1.1.0\nhint: use the same version on both; `turnus plugins ls` prints the versions"},
		"no such plugin":      {"1.2.0", versioned{}, host.Outcome{}, nil, core.Failed, "has the job type uptime.check" + both + "no plugin of that name\nhint: use the same version on both; `turnus plugins ls` prints the versions"},
		"the same version":    {"1.1.0", versioned{here: "1.1.0"}, refused, nil, core.Failed, "unknown parameter"},
		"an older run":        {"", versioned{here: "1.1.0"}, refused, nil, core.Failed, "unknown parameter"},
		"older, no plugin":    {"", versioned{}, host.Outcome{}, nil, core.Failed, "has the job type uptime.check; `turnus plugins ls` lists what it has"},
		"another failure":     {"1.2.0", versioned{here: "1.1.0"}, host.Outcome{Failed: true, Reason: "up for 3 s"}, nil, core.Failed, "up for 3 s"},
		"it works":            {"1.2.0", versioned{here: "1.1.0"}, host.Outcome{Changed: true}, nil, core.Changed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) { return c.out, c.err }
				c.plugins.script = l.plugins
				la := l.submit("r", 1, "steps: [{name: up, uses: uptime.check, with: {at_least: 1h}}]", func(o *launch.Options, _ *queue.Run) {
					o.Place = "the server"
					o.Types = func(name string) (playbooks.Type, bool) {
						return playbooks.Type{Name: name, OnLost: "hold", Plugin: strings.TrimSuffix("uptime "+c.checked, "uptime ")}, true
					}
				})
				cfg := l.config()
				cfg.Plugins = c.plugins
				n := l.start(cfg)
				res := l.results(la)
				n.drain()
				r := res[0]
				r.Reason = strings.Replace(r.Reason, " (test.yaml:3)", "", 1)
				if r.Outcome != c.outcome || !strings.HasSuffix(r.Reason, c.reason) || c.reason == "" && r.Reason != "" {
					t.Errorf("%s\n got %q\nwant %q", r.Outcome, r.Reason, c.reason)
				}
			})
		})
	}
}
