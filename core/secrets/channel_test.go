package secrets

import (
	"testing"

	"github.com/turnus/turnus/core"
)

// A channel gets what is opened to whose it is, and nothing else. The negative control is Resolve,
// whose limits are those of steps: by them a tenant's channel would get what the operator limited
// to nobody.
func TestSecretsOfChannels(t *testing.T) {
	t.Setenv("TURNUS_TEST_CHANNEL", "s3cret")
	const from = "{env: TURNUS_TEST_CHANNEL"
	s := openStore(t, "secrets:\n  own: "+from+"}\n  acme: "+from+", tenants: [acme, initech]}\n  step: "+from+", playbooks: [p]}\n"+
		"  acmestep: "+from+", tenants: [acme], playbooks: [p]}\n  place: "+from+", hosts: fra}\n  gone: {file: nowhere}\n  vaulted: {vault: kv/a#b}\n", nil)
	for _, c := range []struct {
		tenant, name string
		err          error // nil: it gets the value
		words        []string
	}{
		{"", "own", nil, nil},
		{"acme", "acme", nil, nil},
		{"initech", "acme", nil, nil},
		{"globex", "acme", core.ErrInvalid, []string{"own.yaml:3:3", `"globex"`, "tenants:"}},
		{"acme", "own", core.ErrInvalid, []string{"own.yaml:2:3", `"acme"`, "tenants:"}},
		{"", "acme", core.ErrInvalid, []string{"channels of the service"}},
		{"", "step", core.ErrInvalid, []string{"playbooks:"}},
		{"acme", "acmestep", core.ErrInvalid, []string{"playbooks:"}},
		{"", "place", core.ErrInvalid, []string{"hosts:"}},
		{"", "gone", core.ErrInvalid, []string{"own.yaml:7:3", "no file"}},
		{"", "vaulted", core.ErrInvalid, []string{"vault"}},
		{"", "none", core.ErrNotFound, []string{"none of this name"}},
		{"", "not a name", core.ErrNotFound, []string{"none of this name"}},
	} {
		value, err := s.ForChannel(t.Context(), c.tenant, c.name)
		if c.err != nil {
			expectError(t, err, c.err, c.words...)
		}
		if want := map[bool]string{true: "s3cret"}[c.err == nil]; string(value) != want {
			t.Errorf("%s of a channel of %q: %q, %v", c.name, c.tenant, value, err)
		}
	}
	if value, err := s.Resolve(t.Context(), Ask{Name: "own", Tenant: "acme"}); err != nil || string(value) != "s3cret" {
		t.Errorf("negative control: the limits of steps also refuse it: %v", err)
	}
	_, err := openStore(t, "", nil).ForChannel(t.Context(), "", "own")
	expectError(t, err, core.ErrNotFound, "--secrets")
}
