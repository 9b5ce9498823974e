package service

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/playbooks"
)

func TestFaultW5RunKeepsToOnePool(t *testing.T) {
	t.Parallel()
	host := func(name, pool string) core.Host { return core.Host{Name: name, Pool: pool} }
	for name, c := range map[string]struct {
		flags QueueFlags
		hosts []core.Host
		pool  string
		says  string
	}{
		"no pools":                {QueueFlags{}, []core.Host{host("a", "")}, "", ""},
		"that of the hosts":       {QueueFlags{URL: "redis://x"}, []core.Host{host("a", "eu"), host("b", "")}, "eu", ""},
		"without Redis, too":      {QueueFlags{}, []core.Host{host("a", "eu"), host("b", "")}, "eu", ""},
		"two pools":               {QueueFlags{URL: "redis://x"}, []core.Host{host("a", "eu"), host("b", "us")}, "", `pool "eu" has a; pool "us" has b`},
		"two pools without Redis": {QueueFlags{}, []core.Host{host("a", "eu"), host("b", "us")}, "", `--select 'host.pool == "eu"'`},
		"default is a pool":       {QueueFlags{}, []core.Host{host("a", "eu"), host("b", "default")}, "", `"default" has b`},
		"--pool of them":          {QueueFlags{Pool: "us"}, []core.Host{host("a", ""), host("b", "us")}, "us", ""},
		"--pool of others":        {QueueFlags{Pool: "us", URL: "redis://x"}, []core.Host{host("a", "eu"), host("b", "us")}, "us", `pool "eu" has a`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.flags
			err := f.ChoosePool([]*launch.Launch{{Playbook: &playbooks.Playbook{Name: "p"}, Hosts: c.hosts}})
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, expected %q", err, c.says)
			}
			if f.Pool != c.pool {
				t.Errorf("pool %q, expected %q", f.Pool, c.pool)
			}
		})
	}
}
