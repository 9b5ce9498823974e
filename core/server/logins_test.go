package server

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// Definitions that are applied do not set what a worker logs in with. The control is the same tree
// with the name of a credential.
func TestFaultS1AppliedDefinitionsReportNothingOfLogins(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	put := func(key string) answer {
		evil := maps.Clone(tree())
		evil["inventory/evil.yaml"] = "hosts:\n  evil: {address: 203.0.113.9, " + key + "}\n"
		return b.ask(b.token(everyTenant, Admin), "PUT", "/v1/definitions", applied(evil), "If-Match", "*")
	}
	for _, key := range []string{"password_command: [touch, /tmp/marker]", "password_env: HOME", "identity_file: /etc/shadow", "certificate_file: /dev/zero"} {
		name, _, _ := strings.Cut(key, ":")
		a := put(key)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "inventory/evil.yaml") || !strings.Contains(a.body, name) || !strings.Contains(a.body, "credential: NAME") {
			t.Errorf("%s: %d %s", key, a.status, a.body)
		}
	}
	if _, ok := b.cat.Set().Inventory.Host("evil"); ok {
		t.Error("the host is there")
	}
	want[any](t, put("credential: fleet"), http.StatusOK)
	if h, ok := b.cat.Set().Inventory.Host("evil"); !ok || h.SSH.Credential != "fleet" {
		t.Errorf("negative control: %+v", h)
	}
}
