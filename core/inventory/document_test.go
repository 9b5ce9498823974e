package inventory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
)

// besideSource has values in every layer, and patterns that also fit hosts of others.
const besideSource = `{
  "defaults": {"user": "nb", "vars": {"from": "nb"}},
  "customers": {"acme": {"port": 2222, "sites": {"fra": {"jump": "nb-jump"}}}},
  "groups": {"all": {"labels": {"seen": "nb"}}, "web": {"hosts": ["*"], "children": ["db"], "window_set": "nb"}, "db": {"vars": {"dsn": "nb"}}},
  "pools": {"nb": {"customers": ["*"], "hosts": ["*"]}},
  "hosts": {"n1": {"customer": "acme", "site": "fra", "groups": ["db"]}, "shared": {"address": "192.0.2.9"}}
}`

const besideFile = `defaults: {credential: file}
customers: {acme: {sites: {fra: {}}}}
groups:
  db: {vars: {ntp: file}}
  late: {hosts: [n1, 'm*', f1], children: [web], vars: {late: yes}}
hosts:
  f1: {customer: acme, site: fra, groups: [db]}
  shared: {window_set: nights}
`

// A source changes its own hosts alone. Files add to the hosts of all.
func TestDocumentsChangeTheirOwnHostsOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts.yaml")
	if err := os.WriteFile(file, []byte(besideFile), 0o600); err != nil {
		t.Fatal(err)
	}
	docs := []inventory.Document{
		{Name: "source nb", Data: []byte(besideSource)},
		{Name: "source dc", Data: []byte(`{"defaults": {"user": "dc"}, "hosts": {"m1": {"groups": ["db"]}, "n1": {"port": 1}}}`)},
		{Name: "source own", Data: []byte(`{"hosts": {"o1": {}, "o2": {"customer": "birch"}}}`), Customer: "cedar"},
	}
	inv, err := inventory.Load(t.Context(), []string{file}, docs...)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(name string) string {
		h, ok := inv.Host(name)
		if !ok {
			return "none"
		}
		return fmt.Sprintf("user=%s credential=%s port=%d jump=%v pool=%s window=%s groups=%v labels=%v vars=%v",
			h.SSH.User, h.SSH.Credential, h.SSH.Port, h.SSH.ProxyJump, h.Pool, h.WindowSet, h.Groups, h.Labels, h.Vars)
	}
	for name, want := range map[string]string{
		"f1":     "user= credential=file port=0 jump=[] pool= window= groups=[db late] labels=map[] vars=map[late:yes ntp:file]",
		"m1":     "user=dc credential=file port=0 jump=[] pool= window= groups=[db late] labels=map[] vars=map[late:yes ntp:file]",
		"n1":     "user=nb credential=file port=2222 jump=[nb-jump] pool=nb window=nb groups=[db late web] labels=map[seen:nb] vars=map[dsn:nb from:nb late:yes ntp:file]",
		"shared": "user=nb credential=file port=0 jump=[] pool=nb window=nights groups=[late web] labels=map[seen:nb] vars=map[from:nb late:yes]",
		"o1":     "user= credential=file port=0 jump=[] pool= window= groups=[] labels=map[] vars=map[]",
		"o2":     "none",
	} {
		if got := shown(name); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if late, err := inv.Limit("late"); err != nil || len(late) != 4 {
		t.Errorf("late has %v, %v", names(late), err)
	}
	warnings := strings.Join(inv.Warnings, "\n")
	for _, want := range []string{"source dc: left out 1 host: n1: another source has a host", `source own: left out 1 host: o2: its customer is "birch"`} {
		if strings.Count(warnings, want) != 1 {
			t.Errorf("the warnings are\n%s\nwant %q once", warnings, want)
		}
	}
	origins, err := inventory.Explain(t.Context(), []string{file}, "f1", docs...)
	if err != nil || slices.ContainsFunc(origins, func(o inventory.Origin) bool { return strings.Contains(o.Place, "source") }) {
		t.Errorf("f1 is explained as %v, %v", origins, err)
	}
}

func names(hosts []core.Host) []string {
	return core.Map(hosts, func(h core.Host) string { return h.Name })
}

// A program of -i is asked once, whatever number of sources stands beside it.
func TestDocumentsDoNotRunProgramsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, ran := filepath.Join(dir, "hosts"), filepath.Join(dir, "ran")
	script := "#!/bin/sh\necho >>" + ran + "\necho '{\"web\": [\"p1\"], \"_meta\": {\"hostvars\": {}}}'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	docs := []inventory.Document{{Name: "source a", Data: []byte(`{"hosts": {"a1": {}}}`)}, {Name: "source b", Data: []byte(`{"hosts": {"b1": {}}}`)}}
	inv, err := inventory.Load(t.Context(), []string{program}, docs...)
	if err != nil || !slices.Equal(names(inv.Hosts), []string{"a1", "b1", "p1"}) {
		t.Fatalf("the hosts are %v, %v", inv, err)
	}
	if calls, err := os.ReadFile(ran); err != nil || len(calls) != 1 {
		t.Errorf("the program ran %d times, %v", len(calls), err)
	}
}

// The bound of hosts is that of all sources and files together.
func TestDocumentsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	docs := []inventory.Document{{Name: "source a", Data: []byte(`{"hosts": {"a[1:60000]": {}}}`)}, {Name: "source b", Data: []byte(`{"hosts": {"b[1:60000]": {}}}`)}}
	if _, err := inventory.Load(t.Context(), nil, docs...); err == nil || !strings.Contains(err.Error(), "more than 100000 hosts in all sources and files together") {
		t.Errorf("the error is %v", err)
	}
	if inv, err := inventory.Load(t.Context(), nil, docs[:1]...); err != nil || len(inv.Hosts) != 60000 {
		t.Errorf("one source: %v", err)
	}
}
