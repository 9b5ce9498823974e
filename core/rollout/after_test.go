package rollout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
)

func jumping(name string, jumps ...string) core.Host {
	return core.Host{Name: name, Address: "192.0.2." + name, SSH: core.SSH{ProxyJump: jumps}}
}

func inGroup(h core.Host, group string) core.Host {
	h.HAGroup = group
	return h
}

func TestSequence(t *testing.T) {
	outside := jumping("9", "1") // in the inventory, not in the run
	for _, c := range []struct {
		name  string
		hosts []core.Host
		want  string
	}{
		{"nobody", []core.Host{jumping("1"), jumping("2")}, ""},
		{"by name", []core.Host{jumping("2", "1"), jumping("1")}, "2: 1"},
		{"by user and port", []core.Host{jumping("2", "root@1:2222"), jumping("1")}, "2: 1"},
		{"by address", []core.Host{jumping("2", "root@192.0.2.1"), jumping("1")}, "2: 1"},
		{"a chain", []core.Host{jumping("3", "1", "2"), jumping("2"), jumping("1")}, "3: 1 2"},
		{"a jump host's own jump host", []core.Host{jumping("3", "2"), jumping("2", "1"), jumping("1")}, "2: 1; 3: 2 1"},
		{"through one that is not in the run", []core.Host{jumping("3", "9"), jumping("1")}, "3: 1"},
		{"an unknown one", []core.Host{jumping("3", "198.51.100.1"), jumping("1")}, ""},
		{"a pair", []core.Host{inGroup(jumping("1"), "g"), inGroup(jumping("2"), "g"), inGroup(jumping("3"), "g")}, "2: 1; 3: 2"},
		{"a pair, one through the other", []core.Host{inGroup(jumping("1", "2"), "g"), inGroup(jumping("2"), "g")}, "2: 1"},
	} {
		after, err := Sequence(c.hosts, append(slices.Clone(c.hosts), outside))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, name := range []string{"1", "2", "3"} {
			if len(after[name]) > 0 {
				got = append(got, name+": "+strings.Join(after[name], " "))
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, expected %q", c.name, text, c.want)
		}
	}
}

func TestSequenceRefusesACircle(t *testing.T) {
	hosts := []core.Host{inGroup(jumping("1", "3"), "g"), inGroup(jumping("2"), "g"), jumping("3", "2")}
	if _, err := Sequence(hosts, hosts); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "1 comes after 3 comes after 2 comes after 1") {
		t.Errorf("%v", err)
	}
}

// A host that comes after another is behind it, and hosts that come after none keep their order.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "hosts")
		hosts := make([]core.Host, n)
		for i := range hosts {
			hosts[i] = jumping(string(rune('A' + i)))
			if i > 0 && rapid.Bool().Draw(t, "jumps") {
				hosts[i].SSH.ProxyJump = []string{string(rune('A' + rapid.IntRange(0, i-1).Draw(t, "through")))}
			}
		}
		shuffled := rapid.Permutation(hosts).Draw(t, "order")
		after, err := Sequence(shuffled, shuffled)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, h := range after.Arrange(shuffled) {
			at[h.Name] = i
		}
		if len(at) != n {
			t.Fatalf("%d hosts became %d", n, len(at))
		}
		for name, before := range after {
			for _, b := range before {
				if at[b] > at[name] {
					t.Fatalf("%s stands before %s, which it comes after", name, b)
				}
			}
		}
	})
}
