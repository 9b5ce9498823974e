package inventory

import (
	"slices"
	"strings"
	"testing"
)

func TestCertificateSettingsFollowPrecedence(t *testing.T) {
	inv := loadText(t, "hosts.yaml", `defaults: {certificate_source_address: [192.0.2.0/24, "2001:db8::7"], certificate_principals: ops}
groups:
  edge: {certificate_principals: [edge, root], hosts: [a]}
hosts:
  a: {certificate_force_command: "fwctl shell"}
  b: {certificate_source_address: 192.0.2.9}
`)
	a, b := mustHost(t, inv, "a").SSH, mustHost(t, inv, "b").SSH
	if !slices.Equal(a.Principals, []string{"edge", "root"}) || !slices.Equal(a.SourceAddrs, []string{"192.0.2.0/24", "2001:db8::7"}) || a.ForceCommand != "fwctl shell" {
		t.Errorf("a: %+v", a)
	}
	if !slices.Equal(b.Principals, []string{"ops"}) || !slices.Equal(b.SourceAddrs, []string{"192.0.2.9"}) || b.ForceCommand != "" {
		t.Errorf("b: %+v", b)
	}
}

func TestCertificateSettingsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		`certificate_principals: "a,b"`:                "expected a name without blanks",
		`certificate_principals: "*"`:                  "expected a name without blanks",
		`certificate_source_address: "192.0.2.0/33"`:   "expected an address or a network, such as",
		`certificate_source_address: "fw.example.net"`: "expected an address or a network, such as",
		`certificate_force_comand: id`:                 "certificate_force_command",
	} {
		if got := problems(t, "hosts.yaml", "hosts:\n  a: {"+text+"}\n"); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, expected %q", text, got, want)
		}
	}
}

func TestFirstContactFollowsPrecedence(t *testing.T) {
	inv := loadText(t, "hosts.yaml", `groups:
  lab: {first_contact: pin, hosts: [a, b]}
hosts:
  a:
  b: {first_contact: refuse}
  c:
`)
	for name, want := range map[string]string{"a": "pin", "b": "refuse", "c": ""} {
		if got := mustHost(t, inv, name).SSH.FirstContact; got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
	if got := problems(t, "hosts.yaml", "hosts:\n  a: {first_contact: yes}\n"); len(got) != 1 || !strings.Contains(got[0], "expected pin, or refuse") {
		t.Errorf("got %q", got)
	}
}
