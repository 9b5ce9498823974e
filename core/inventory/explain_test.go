package inventory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
)

const explained = `defaults: {user: turnus}
customers:
  acme:
    window_set: nights
    sites:
      fra:
        jump: bastion
        vars: {ntp: 10.0.0.1}
        hosts:
          web1: {address: 192.0.2.1, groups: [edge], labels: {role: web}}
groups:
  edge: {vars: {ntp: 10.0.0.2}}
pools:
  eu: {customers: [acme]}
`

func TestExplainNamesLayerAndPlaceOfEachValue(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"hosts.yaml":         {Data: []byte(explained)},
		"host_vars/web1.yml": {Data: []byte("a: 1\nansible_port: 2222\n")},
		"more.ini":           {Data: []byte("[web]\nweb1 ansible_user=root\n")},
	}
	nb := inventory.Document{Name: "source nb", Data: []byte(`{"hosts": {"web1": {"site": "ams", "user": "nobody", "labels": {"model": "x1"}}}}`), From: func(host, field string) string {
		return map[string]string{"labels.model": host + ": device_type.slug"}[field]
	}}
	origins, err := inventory.ExplainFS(t.Context(), tree, []string{"hosts.yaml", "more.ini"}, "web1", nb)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range origins {
		got[o.Field+"="+fmt.Sprint(o.Value)] = o.Layer + " " + o.Place
	}
	for value, want := range map[string]string{
		"address=192.0.2.1": "host hosts.yaml:10:18",
		"customer=acme":     "host hosts.yaml:10:11",
		"site=fra":          "host hosts.yaml:10:11",
		"window_set=nights": "customer acme hosts.yaml:4:5",
		"jump=bastion":      "site fra hosts.yaml:7:9",
		"user=root":         "host more.ini:2:1",
		"port=2222":         "host host_vars/web1.yml:2:1",
		"pool=eu":           "pool eu hosts.yaml:14:3",
		"groups=edge":       "group edge hosts.yaml:10:11",
		"groups=web":        "group web more.ini:1:1",
		"labels.role=web":   "host hosts.yaml:10:63",
		"labels.model=x1":   "host source nb: web1: device_type.slug",
		"vars.ntp=10.0.0.2": "group edge hosts.yaml:12:17",
		"vars.a=1":          "host host_vars/web1.yml:1:1",
	} {
		if got[value] != want {
			t.Errorf("%s comes from %q, want %q", value, got[value], want)
		}
	}
}

func TestExplainOfAnUnknownHost(t *testing.T) {
	t.Parallel()
	_, err := inventory.ExplainFS(t.Context(), fstest.MapFS{"hosts.yaml": {Data: []byte(explained)}}, []string{"hosts.yaml"}, "web2")
	if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "web1") {
		t.Fatalf("the error is %v, want one that suggests web1", err)
	}
}

// The document of a source names no file, program or password of this machine.
func TestDocumentsDoNotSayWhatToLogInWith(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"hosts": {"a": {"identity_file": "/root/.ssh/id_ed25519"}}}`,
		`{"hosts": {"a": {"password_command": ["cat", "/etc/shadow"]}}}`,
		`{"_meta": {"hostvars": {"a": {"ansible_password": "x"}}}, "all": {"hosts": ["a"]}}`,
	} {
		_, err := inventory.Load(t.Context(), nil, inventory.Document{Name: "source nb", Data: []byte(data)})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "must not say what a worker logs in with") {
			t.Errorf("%s: the error is %v", data, err)
		}
	}
	_, err := inventory.Load(t.Context(), nil, inventory.Document{Name: "source nb", Data: []byte(`{"web": ["a", "b"]}`), List: true})
	if err != nil {
		t.Errorf("what a program prints for --list is refused: %v", err)
	}
}
