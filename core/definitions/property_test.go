package definitions

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawTree makes a valid tree of few names, so that two of them have much in common.
func drawTree(t *rapid.T, label string) map[string]string {
	draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label+" "+what) }
	tree := map[string]string{"turnus.yaml": "playbooks: []\n"}
	var sets, freezes []string
	for _, name := range []string{"sat", "sun"} {
		if draw(name, "yes", "no") == "no" {
			continue
		}
		sets = append(sets, fmt.Sprintf("  %s:\n    timezone: %s\n    allow: [{id: r, cron: \"0 %s * * %s\", duration: %s}]\n", name,
			draw("zone", "UTC", "Europe/Berlin"), draw("hour", "1", "22"), draw("day", "6", "0", "1"), draw("length", "1h", "4h")))
		if draw("frozen", "yes", "no") == "yes" {
			freezes = []string{fmt.Sprintf("  xmas: {timezone: UTC, from: \"2026-12-%s\", to: \"2027-01-07\"}\n", draw("from", "01", "20"))}
			sets[len(sets)-1] += "    deny: [{use: freeze/xmas}]\n"
		}
	}
	for part, list := range map[string][]string{"window_sets": sets, "freezes": freezes} {
		if len(list) > 0 {
			tree["windows/"+part+".yaml"] = part + ":\n" + strings.Join(list, "")
		}
	}
	hosts := "hosts:\n  always: {}\n"
	for _, name := range []string{"a", "b", "c"} {
		if draw("host "+name, "yes", "no") == "yes" {
			hosts += fmt.Sprintf("  %s: {address: 10.0.0.%s, labels: {role: %s}, vars: {v: %s}}\n", name, draw("address", "1", "2"), draw("role", "web", "db"), draw("var", "1", "x", "[1]"))
		}
	}
	tree["inventory.yaml"] = hosts
	for _, name := range []string{"p", "q"} {
		if draw("playbook "+name, "yes", "no") == "no" {
			continue
		}
		delete(tree, "turnus.yaml")
		text := fmt.Sprintf("playbook: %s\ntargets: %s\nsteps:\n", name, draw("targets", `true`, `host.labels.role == "web"`, `host.name == "a"`))
		for _, step := range []string{"one", "two"} {
			if step == "one" || draw("step", "yes", "no") == "yes" {
				text += fmt.Sprintf("  - {name: %s, uses: command, with: {run: %s}, timeout: %s}\n", step, draw("run", "x", "y"), draw("timeout", "1m", "2m"))
			}
		}
		if draw("scheduled", "yes", "no") == "yes" {
			text += fmt.Sprintf("schedule: {cron: \"0 %s 1 1 *\", timezone: %s}\n", draw("at", "1", "2"), draw("zone", "UTC", "Europe/Berlin"))
		}
		tree["playbooks/"+draw("file", "x", "y")+name+".yaml"] = text
	}
	return tree
}

func drawSet(t *rapid.T, label string) *Set {
	s, err := FromDocuments(t.Context(), docsOf(drawTree(t, label)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An addition one way is a removal the other way; a set does not differ from itself; changes have
// one order; and two sets without changes are made of the same things.
func TestDiffIsAntisymmetric(t *testing.T) {
	opposite := map[Action]Action{Added: Removed, Removed: Added, Changed: Changed}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSet(t, "a"), drawSet(t, "b")
		for _, s := range []*Set{a, b} {
			if c := Diff(s, s, noon); !c.Empty() {
				t.Fatalf("differs from itself: %+v", c)
			}
		}
		there, back := Diff(a, b, noon).Changes, Diff(b, a, noon).Changes
		if len(there) != len(back) {
			t.Fatalf("%+v\n%+v", there, back)
		}
		for i, x := range there {
			y := back[i]
			if x.Kind != y.Kind || x.Name != y.Name || x.Action != opposite[y.Action] || !reflect.DeepEqual(x.HostsCome, y.HostsGo) || !reflect.DeepEqual(x.HostsGo, y.HostsCome) ||
				x.WindowsCome != y.WindowsGo || x.WindowsGo != y.WindowsCome || !x.OldNext.Equal(y.NewNext) || !x.NewNext.Equal(y.OldNext) {
				t.Fatalf("%+v\n%+v", x, y)
			}
			if len(x.Details) == 0 {
				t.Fatalf("has no text: %+v", x)
			}
		}
		order := func(x, y Change) int {
			return slices.Index(kindOrder, x.Kind)*1000 + strings.Compare(x.Name, y.Name) - slices.Index(kindOrder, y.Kind)*1000
		}
		if !slices.IsSortedFunc(there, order) {
			t.Fatalf("not in order: %+v", there)
		}
		names := func(s *Set) (out []string) {
			for _, p := range s.Playbooks {
				out = append(out, "playbook "+p.Name)
			}
			for _, h := range s.Inventory.Hosts {
				out = append(out, "host "+h.Name)
			}
			slices.Sort(out)
			return out
		}
		applied := names(a)
		for _, c := range there {
			name := string(c.Kind) + " " + c.Name
			switch {
			case c.Kind != KindPlaybook && c.Kind != KindHost:
			case c.Action == Added:
				applied = append(applied, name)
			case c.Action == Removed:
				applied = slices.DeleteFunc(applied, func(n string) bool { return n == name })
			}
		}
		slices.Sort(applied)
		if !slices.Equal(applied, names(b)) {
			t.Fatalf("the changes lead to %v, not to %v", applied, names(b))
		}
	})
}

// Documents give the same set wherever they are read, in whatever order.
func TestDocumentsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawSet(t, "a")
		docs := rapid.Permutation(a.Documents()).Draw(t, "order")
		b, err := FromDocuments(t.Context(), docs, Options{})
		if err != nil || b.Hash() != a.Hash() || !reflect.DeepEqual(a.Documents(), b.Documents()) {
			t.Fatalf("not the same: %v", err)
		}
	})
}

// Any turnus.yaml, file and path give an error that names the place, or a set that can be written
// and read again.
func FuzzFromDocuments(f *testing.F) {
	f.Add("playbooks: [a]\n", "a/x.yaml", "playbook: x\ntargets: true\nsteps: [{uses: command, with: {run: x}}]\n")
	f.Add("playbooks: []\ninventory: hosts.yaml\n", "hosts.yaml", "hosts: {a: {window_set: nobody}}\n")
	f.Add("inventory: [.]\n", "group_vars/all.yaml", "a: 1\n")
	f.Add("windows: w\nplaybooks: []\ninventory: []\n", "w", "window_sets: {}\n")
	f.Add("&a [*a]", "../x", "\x00")
	f.Add("? {a: b}\n: c\n", "a/.git/b", "#!/bin/sh\n")
	f.Fuzz(func(t *testing.T, layout, file, text string) {
		docs := []Document{{layoutFile, []byte(layout)}, {file, []byte(text)}, {"inventory/hosts.yaml", []byte("hosts: {a: {}}\n")}}
		s, err := FromDocuments(t.Context(), docs, Options{})
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Error("an error with a set, or without words")
			}
			return
		}
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromDocuments(t.Context(), again, Options{})
		if err != nil || back.Hash() != s.Hash() || !Diff(s, back, noon).Empty() {
			t.Errorf("not the same set: %v", err)
		}
	})
}

// No address, however odd, shows what stands before its @.
func FuzzAddressesShowNoSecret(f *testing.F) {
	f.Add("https://", "@h/x")
	f.Add("https://bot:", "@h:port/x")
	f.Add("ssh://u:", "@h/x?y#z")
	f.Add("x://", "@")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "Zq9hunter2"
		if !strings.Contains(scheme, "://") || strings.ContainsAny(scheme, "@?#") || !strings.HasPrefix(rest, "@") || strings.Contains(rest, secret) {
			return
		}
		r, err := parseRemote(scheme + secret + rest)
		user := strings.HasPrefix(r.address, "ssh://") // a user's name, which is no secret: a password is refused
		if strings.Contains(r.address, secret) && !user || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %q, %v", scheme+secret+rest, r.address, err)
		}
	})
}
