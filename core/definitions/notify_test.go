package definitions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/notify/policy"
)

const channels = "channels: {noc: {email: {to: [noc@example.net]}}}\nroutes: [{to: [noc]}]\ntenants: {acme: {channels: {ops: {webhook: {url: \"https://x.example\"}}}}}\n"

func reported(tenant, to string) string {
	return "playbook: told\ntenant: " + tenant + "\ntargets: false\nnotify: [{to: [" + to + "], kinds: [run_failed]}]\nsteps: [{uses: command, with: {run: x}}]\n"
}

func TestNotifyOfATree(t *testing.T) {
	t.Parallel()
	s := mustSet(t, with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", reported("acme", "ops, noc, server")))
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
		"another tenant's": {with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", reported("globex", "ops")), `playbooks/told.yaml:4:16: playbook told names the channel "ops", which tenant globex does not have`},
		"misspelt":         {with(with(good(), "notify.yaml", channels), "playbooks/told.yaml", reported("acme", "nok")), `did you mean "noc"?`},
		"none at all":      {with(good(), "playbooks/told.yaml", reported("acme", "noc")), "expected one of server; notify.yaml defines channels"},
		"bad file":         {with(good(), "notify.yaml", "channels: {a: {webhook: {url: ftp://x}}}\n"), "notify.yaml:1:31: url: expected"},
	} {
		_, err := FromDocuments(t.Context(), docsOf(c.tree), Options{})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %s", name, err, c.want)
		}
	}
}

func TestDiffOfChannels(t *testing.T) {
	t.Parallel()
	before := mustSet(t, with(good(), "notify.yaml", channels))
	after := mustSet(t, with(good(), "notify.yaml", "channels: {noc: {slack: {url: \"https://chat.example/T0SECRET\"}}, more: {email: {to: [a@example.net]}}}\nroutes: [{to: [more], kinds: [run_failed]}]\ntenants: {acme: {channels: {ops: {webhook: {url: \"https://y.example\"}}}, routes: [{to: [ops], severity: error}]}}\n"))
	var got []string
	for _, c := range Diff(before, after, time.Now()).Changes {
		got = append(got, string(c.Action)+" "+string(c.Kind)+" "+c.Name+": "+strings.Join(c.Details, "; "))
	}
	want := []string{
		"changed channel acme:ops: where it leads, or by which secret", "added channel more: email", "changed channel noc: email -> slack",
		"changed routes service: everything to noc -> run_failed to more", "added routes tenant acme: 1 route",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := Diff(nil, before, time.Now()).Changes; len(all) < 3 {
		t.Errorf("%+v", all)
	}
}
