package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/turnus/turnus/core"
)

// foreign are inventories that set what to log in with, and where.
var foreign = map[string]struct{ file, text, place string }{
	"password_command": {"h.yaml", "hosts:\n  a:\n    password_command: [touch, marker]\n", "h.yaml:3:5: password_command:"},
	"password_env":     {"h.yaml", "defaults:\n  password_env: AWS_SECRET_ACCESS_KEY\nhosts: {a: {}}\n", "h.yaml:2:3: password_env:"},
	"identity_file":    {"h.yaml", "groups:\n  g:\n    hosts: [a]\n    identity_file: /etc/shadow\nhosts: {a: {}}\n", "h.yaml:4:5: identity_file:"},
	"certificate_file": {"h.yaml", "customers:\n  acme:\n    sites:\n      x:\n        certificate_file: /dev/zero\n        hosts: {a: {}}\n", "h.yaml:5:9: certificate_file:"},
	"merged":           {"h.yaml", "hosts:\n  a: {<<: {password_env: HOME}}\n", "h.yaml:2:12: password_env:"},
	"ansible key":      {"h.ini", "[g]\na ansible_ssh_private_key_file=/k\n", "h.ini:2:1: ansible_ssh_private_key_file:"},
	"ansible password": {"h.ini", "a\n[all:vars]\nansible_ssh_pass=hunter2\n", "h.ini:3:1: ansible_ssh_pass:"},
	"group_vars":       {"group_vars/all.yaml", "ansible_private_key_file: /k\n", "group_vars/all.yaml:1:1: ansible_private_key_file:"},
}

// A commit never sets what a worker logs in with: no program, variable or file.
func TestFaultS1TreesSayNothingOfLogins(t *testing.T) {
	for name, tt := range foreign {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: {Data: []byte(tt.text)}, "zz": {Data: []byte("a\n")}}
			_, err := LoadFS(t.Context(), tree, slices.Sorted(maps.Keys(only(tree))))
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tt.place) || !strings.Contains(fmt.Sprint(err), "credential: NAME") || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("got %v, expected a refusal at %s that shows what to write", err, tt.place)
			}
		})
	}
}

// only leaves out what is read because it lies beside an inventory.
func only(tree fstest.MapFS) fstest.MapFS {
	tree = maps.Clone(tree)
	delete(tree, "group_vars/all.yaml")
	return tree
}

// The same keys in a person's own inventory stay with that person's process: they are in no host,
// and Shared finds them where the hosts are for other machines.
func TestFaultS1OwnLoginsStayInTheProcess(t *testing.T) {
	for name, tt := range foreign {
		if name == "group_vars" { // loadText reads one file
			continue
		}
		t.Run(name, func(t *testing.T) {
			inv := loadText(t, tt.file, tt.text)
			if inv.Login("a").None() {
				t.Error("the login is lost")
			}
			if h := mustHost(t, inv, "a"); fmt.Sprint(h.SSH) != fmt.Sprint(core.SSH{}) || len(h.Vars) > 0 {
				t.Errorf("the host carries it: %+v", h)
			}
			if err := inv.Shared(); err == nil || !strings.Contains(err.Error(), tt.place) {
				t.Errorf("got %v, expected %s", err, tt.place)
			}
		})
	}
	plain := loadText(t, "h.yaml", "hosts: {a: {credential: fleet}}\n")
	if err := plain.Shared(); err != nil || mustHost(t, plain, "a").SSH.Credential != "fleet" {
		t.Errorf("a name of a credential: %v", err)
	}
}

func TestCredentialAndOwnLoginReplaceEachOther(t *testing.T) {
	inv := loadText(t, "h.yaml", `
defaults: {identity_file: /k}
groups:
  named: {hosts: [b, c], credential: fleet}
hosts:
  a: {}
  b: {}
  c: {password_env: PW}
`)
	a, b, c := inv.Login("a"), inv.Login("b"), inv.Login("c")
	if !slices.Equal(a.IdentityFiles, []string{"/k"}) || !b.None() || c.PasswordEnv != "PW" || c.IdentityFiles != nil {
		t.Errorf("logins: %+v %+v %+v", a, b, c)
	}
	if mustHost(t, inv, "b").SSH.Credential != "fleet" || mustHost(t, inv, "c").SSH.Credential != "" {
		t.Error("credentials are wrong")
	}
}
