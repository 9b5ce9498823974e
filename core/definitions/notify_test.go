package definitions

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/notify/policy"
)

const channels = "channels: {noc: {email: {to: [noc@example.net]}}}\nroutes: [{to: [noc]}]\ntenants: {acme: {channels: {ops: {webhook: {url: \"https://x.example\"}}}}}\n"

func told(tenant, to string) string {
	return "playbook: told\ntenant: " + tenant + "\ntargets: false\nnotify: [{to: [" + to + "], kinds: [run_failed]}]\nsteps: [{uses: command, with: {run: x}}]\n"
}

func TestNotifyOfATree(t *testing.T) {
	t.Parallel()
	s := mustSet(t, with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", told("acme", "ops, noc, server")))
	if s.Notify.Channel(policy.Place{Tenant: "acme", Channel: "ops"}) == nil {
		t.Errorf("%+v", s.Notify)
	}
	p, _ := s.Playbook("told")
	if len(p.Notify) != 1 || len(p.Notify[0].To) != 3 || p.Notify[0].Kinds[0] != policy.RunFailed {
		t.Errorf("%+v", p.Notify)
	}
	if without := mustSet(t, good()); without.Notify == nil || len(without.Notify.Tenants) != 0 {
		t.Errorf("%+v", without.Notify)
	}
	if split := mustSet(t, with(with(good(), "notify/a.yaml", channels), "notify/b.yaml", "tenants: {acme: {routes: [{to: [ops]}]}}\n")); len(split.Notify.Tenants["acme"].Routes) != 1 {
		t.Errorf("%+v", split.Notify)
	}
	for name, c := range map[string]struct {
		tree map[string]string
		want string
	}{
		"another tenant's": {with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", told("globex", "ops")), `playbooks/told.yaml:4:16: playbook told names the channel "ops", which tenant globex does not have`},
		"misspelt":         {with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", told("acme", "nok")), `did you mean "noc"?`},
		"none at all":      {with(good(), "playbooks/told.yaml", told("acme", "noc")), "expected one of server; notify.yaml defines channels"},
		"bad file":         {with(good(), "notify.yaml", "channels: {a: {webhook: {url: ftp://x}}}\n"), "notify.yaml:1:31: url: expected"},
	} {
		_, err := FromDocuments(t.Context(), docsOf(c.tree), Options{})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %s", name, err, c.want)
		}
	}
}
