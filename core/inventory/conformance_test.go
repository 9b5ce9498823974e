package inventory

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// Turnus must read the same as Ansible: hosts, groups, and every var.
func TestConformsToAnsible(t *testing.T) {
	program := testparts.Need(t, "ansible-inventory", "ansible-core")
	// Vars of hosts that no group of the program lists make no hosts and change no others.
	meta := write(t, "meta.sh", `#!/bin/sh
echo '{"web": {"hosts": ["p1"]}, "ungrouped": ["p2"], "all": {"hosts": ["p3"]}, "_meta": {"hostvars": {"p1": {"n": 1}, "p2": {"n": 2}, "p3": {"n": 3}, "gone": {"n": 4}, "lone": {"n": 5}}}}'
`, 0o755)
	// A program without _meta is asked for each host that it lists, also for those of other sources.
	hostwise := write(t, "hostwise.sh", `#!/bin/sh
case $1 in --list) echo '{"web": ["lone", "p4"]}';; --host) echo "{\"asked\": \"$2\"}";; esac
`, 0o755)
	// Each form of a group: a list, an object, an object of children, and the vars of one host.
	forms := write(t, "forms.sh", `#!/bin/sh
case $1 in --list) echo '{"l": ["f1"], "o": {"hosts": ["f2"], "vars": {"x": 1}, "children": ["l"]}, "c": {"children": {"o": {}}}, "n": [], "v": {"vars": {"y": 1}}, "solo": {"ansible_host": "192.0.2.1", "z": [1]}, "_meta": {"hostvars": null}}';; --host) echo "{\"asked\": \"$2\"}";; esac
`, 0o755)
	for _, sources := range [][]string{
		{forms},
		{"testdata/ansible/hosts", meta}, {"testdata/ansible/hosts", hostwise},
		{"testdata/ansible/hosts"}, {"testdata/ansible/more.yml"}, {"testdata/ansible/hosts", "testdata/ansible/more.yml"},
		{"testdata/ansible"},
	} {
		args := []string{"--list"}
		for _, s := range sources {
			args = append(args, "-i", s)
		}
		vars := exec.Command(program, args...)
		vars.Env = append(os.Environ(), "ANSIBLE_HOME="+t.TempDir(), "ANSIBLE_LOCAL_TEMP="+t.TempDir())
		out, err := vars.Output()
		if err != nil {
			t.Fatalf("%v: %v", sources, err)
		}
		var want map[string]json.RawMessage
		var meta struct {
			HostVars map[string]map[string]any `json:"hostvars"`
		}
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want["_meta"], &meta); err != nil {
			t.Fatal(err)
		}
		inv, err := Load(context.Background(), sources)
		if err != nil {
			t.Fatalf("%v: %v", sources, err)
		}
		if len(meta.HostVars) != len(inv.Hosts) {
			t.Errorf("%v: %d hosts, Ansible has %d", sources, len(inv.Hosts), len(meta.HostVars))
		}
		for name, theirs := range meta.HostVars {
			compareHost(t, inv, name, theirs)
		}
		compareGroups(t, inv, want)
	}
}

func compareHost(t *testing.T, inv *Inventory, name string, theirs map[string]any) {
	t.Helper()
	h, ok := inv.Host(name)
	if !ok {
		t.Errorf("host %s is missing", name)
		return
	}
	ours := map[string]any{}
	data, err := json.Marshal(h.Vars)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &ours); err != nil {
		t.Fatal(err)
	}
	if ours == nil {
		ours = map[string]any{}
	}
	// Ours are fields, not vars.
	if h.Address != "" {
		ours["ansible_host"] = h.Address
	}
	if h.SSH.Port != 0 {
		ours["ansible_port"] = float64(h.SSH.Port)
	}
	if h.SSH.User != "" {
		ours["ansible_user"] = h.SSH.User
	}
	for k := range theirs {
		if !reflect.DeepEqual(ours[k], theirs[k]) {
			t.Errorf("host %s: %s is %#v, Ansible has %#v", name, k, ours[k], theirs[k])
		}
		delete(ours, k)
	}
	if len(ours) > 0 {
		t.Errorf("host %s: Ansible has none of %v", name, ours)
	}
}

func compareGroups(t *testing.T, inv *Inventory, want map[string]json.RawMessage) {
	t.Helper()
	type def struct {
		Hosts    []string `json:"hosts"`
		Children []string `json:"children"`
	}
	groups := map[string]def{}
	for name, raw := range want {
		var d def
		if name != "_meta" && json.Unmarshal(raw, &d) == nil {
			groups[name] = d
		}
	}
	var all func(name string) []string
	all = func(name string) []string {
		hosts := slices.Clone(groups[name].Hosts)
		for _, c := range groups[name].Children {
			hosts = append(hosts, all(c)...)
		}
		slices.Sort(hosts)
		return slices.Compact(hosts)
	}
	for name := range groups {
		if name == "all" {
			continue
		}
		var ours []string
		for _, i := range inv.members[name] {
			ours = append(ours, inv.Hosts[i].Name)
		}
		slices.Sort(ours)
		if !slices.Equal(ours, all(name)) {
			t.Errorf("group %s is %v, with Ansible %v", name, ours, all(name))
		}
	}
}
