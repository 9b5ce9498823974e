package localrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
)

// Printed names are a limit for these hosts, though groups have names like theirs. If a host is
// gone, the limit is refused: it never selects others.
func TestFoldedHostsAreALimit(t *testing.T) {
	load := func(text string) *inventory.Inventory {
		t.Helper()
		file := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		inv, err := inventory.Load(t.Context(), []string{file})
		if err != nil {
			t.Fatal(err)
		}
		return inv
	}
	const groups = "[web]\nweb[1:20]\n[web5]\ndb1\n[fw]\nfw[01:09].fra\n"
	all := load(groups)
	for _, names := range [][]string{
		{"web2", "web3", "web4"},
		{"web1", "web2", "web10", "web11", "web12", "web13"},
		{"web4", "web5", "web6", "web7"},
		{"db1", "fw03.fra", "fw04.fra", "fw05.fra"},
	} {
		text := runview.FoldHosts(names, 160)
		got, err := all.Limit(text)
		if selected := core.Map(got, func(h core.Host) string { return h.Name }); err != nil || !slices.Equal(slices.Sorted(slices.Values(selected)), slices.Sorted(slices.Values(names))) {
			t.Errorf("--limit %s selects %v, %v", text, selected, err)
		}
	}
	fewer := load(strings.Replace(groups, "web[1:20]", "web[1:2]\nweb[4:20]", 1))
	text := runview.FoldHosts([]string{"web2", "web3", "web4"}, 160)
	if got, err := fewer.Limit(text); err == nil {
		t.Errorf("--limit %s selects %v without web3", text, got)
	}
	if got, err := fewer.Limit("web[2:4]"); err != nil || got[0].Name == "web2" { // as output was written before
		t.Errorf("without its step the range selects %v, %v", got, err)
	}
}
