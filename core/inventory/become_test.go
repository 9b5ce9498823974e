package inventory

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// The settings of Ansible's vars and a Turnus inventory for becoming another user, by layers.
func TestBecome(t *testing.T) {
	root := core.HostBecome{Always: true, Become: core.Become{}}
	for name, c := range map[string]struct {
		text string
		want map[string]core.HostBecome
	}{
		"ansible": {"[web]\na\nb ansible_become=no\nc ansible_become_user=app ansible_become_method=doas\n[web:vars]\nansible_become=yes\n", map[string]core.HostBecome{
			"a": root, "b": {}, "c": {Always: true, Become: core.Become{User: "app", Method: "doas"}},
		}},
		"turnus": {"groups: {web: {become: {always: true}}}\nhosts:\n  a: {groups: [web]}\n  b: {groups: [web], become: {always: false, method: doas}}\n", map[string]core.HostBecome{
			"a": root, "b": {Become: core.Become{Method: "doas"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			file := "hosts"
			if name == "turnus" {
				file = "hosts.yaml"
			}
			inv := loadText(t, file, c.text)
			for host, want := range c.want {
				if h := mustHost(t, inv, host); h.Become != want {
					t.Errorf("%s: %+v, expected %+v", host, h.Become, want)
				}
			}
		})
	}
}

func TestBecomeRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[web]\na ansible_become=perhaps\n":            `:2:1: ansible_become: "perhaps" is neither true nor false`,
		"[web]\na ansible_become_user=-rf\n":           `:2:1: ansible_become_user: "-rf" is no user name`,
		"hosts: {a: {become: {method: su}}}\n":         "expected sudo or doas",
		"hosts: {a: {become: {user: 'a b'}}}\n":        "expected a user name such as root",
		"hosts: {a: {become: {always: maybe}}}\n":      "expected true or false",
		"hosts: {a: {become: {password: 's3cret'}}}\n": `unknown key "password"`,
	} {
		file := "hosts"
		if strings.HasPrefix(text, "hosts:") {
			file = "hosts.yaml"
		}
		got := problems(t, file, text)
		if len(got) != 1 || !strings.Contains(got[0], want) || strings.Contains(got[0], "s3cret") {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}
