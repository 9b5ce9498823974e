package inventory

import (
	"os"
	"strings"
	"testing"
)

// guideExample is the inventory that the guide shows.
func guideExample(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/inventory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the guide has no example")
	}
	return text
}

// The example of the guide is an inventory that loads.
func TestGuideExampleLoads(t *testing.T) {
	inv := loadText(t, "hosts.yaml", guideExample(t))
	if len(inv.Hosts) != 303 || len(inv.Warnings) != 0 {
		t.Errorf("%d hosts, warnings %q", len(inv.Hosts), inv.Warnings)
	}
	h := mustHost(t, inv, "fw300.fra")
	if h.Address != "10.1.2.100" || h.HAGroup != "pair-150" || h.Pool != "eu" || h.Vars["ntp"] != "10.0.0.2" {
		t.Errorf("fw300.fra: %+v", h)
	}
}
