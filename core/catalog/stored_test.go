package catalog

import (
	"testing"

	"github.com/turnus/turnus/core/definitions"
)

// Changes that are too long lose their hosts. Then the last half of them is left out and counted.
func TestStoredChangesAreShortened(t *testing.T) {
	t.Parallel()
	all := []definitions.Change{{Name: "a", HostsCome: []string{"h"}}, {Name: "b", HostsGo: []string{"h"}}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	s := stored{Changes: definitions.Changes{Changes: all}, LeftOut: 3}
	for _, kept := range []int{5, 2, 1, 0} {
		if !s.shorten() || len(s.Changes.Changes) != kept || s.LeftOut != 8-kept {
			t.Fatalf("%d changes, %d left out, expected %d", len(s.Changes.Changes), s.LeftOut, kept)
		}
		for _, c := range s.Changes.Changes {
			if len(c.HostsCome)+len(c.HostsGo) > 0 {
				t.Errorf("%+v", c)
			}
		}
	}
	if s.shorten() || len(all[0].HostsCome) != 1 {
		t.Errorf("there was more to leave out, or the caller's changes are others: %+v", all[0])
	}
}
