package definitions

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestFindProject(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "playbooks", "web")
	put := func(name, text string) {
		t.Helper()
		writeTree(t, root, map[string]string{name: text})
	}
	put("playbooks/web/x.yaml", "")
	if p, err := FindProject(below); p != nil || err != nil {
		t.Fatalf("without turnus.yaml: %v, %v", p, err)
	}
	put("inventory/hosts", "")
	put("windows.yml", "")
	put("turnus.yaml", "four_eyes: [acme]\nrun: {known_hosts: [known_hosts, /etc/ssh/ssh_known_hosts], concurrency: 7}\n")
	p, err := FindProject(below)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join([]string{strings.Join(p.Inventory, ","), strings.Join(p.Windows, ","), strings.Join(p.KnownHosts, ",")}, " ")
	want := root + "/inventory " + root + "/windows.yml " + root + "/known_hosts,/etc/ssh/ssh_known_hosts"
	if got != want || p.Concurrency != 7 {
		t.Errorf("got %s, %d\nwant %s, 7", got, p.Concurrency, want)
	}
	put("turnus.yaml", "inventory: [ops/hosts, ops/more]\nwindows: []\n")
	if p, err = FindProject(root); err != nil || strings.Join(p.Inventory, ",") != root+"/ops/hosts,"+root+"/ops/more" || p.Windows != nil {
		t.Errorf("places of turnus.yaml: %+v, %v", p, err)
	}
	put("turnus.yaml", "run: {concurrency: many}\n")
	if _, err = FindProject(root); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "turnus.yaml:1:20") {
		t.Errorf("a wrong value: %v", err)
	}
}

func TestAServiceChecksRunOfTurnusYAML(t *testing.T) {
	load := func(run string) error {
		_, err := FromDocuments(t.Context(), docsOf(map[string]string{"turnus.yaml": "playbooks: []\ninventory: []\n" + run}), Options{})
		return err
	}
	if err := load("run: {known_hosts: /etc/ssh/x, concurrency: 5}\n"); err != nil {
		t.Errorf("valid: %v", err)
	}
	if err := load("run: {known_host: x}\n"); err == nil || !strings.Contains(err.Error(), "known_host") {
		t.Errorf("an unknown key: %v", err)
	}
}
