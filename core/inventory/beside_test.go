package inventory

import (
	"os"
	"path/filepath"
	"testing"
)

// A playbook's group_vars and host_vars come after those beside the inventory, group by group.
func TestVarsBesideAPlaybook(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hosts := write("inv/hosts.ini", "[web]\nweb1\nweb2 host=inline\n")
	write("inv/group_vars/all.yml", "all: inv\n")
	write("inv/group_vars/web.yml", "web: inv\nboth: inv\n")
	write("play/group_vars/all.yml", "all: play\nweb: play\n")
	write("play/group_vars/web.yml", "both: play\n")
	write("play/host_vars/web2.yml", "host: play\n")
	inv, err := LoadBeside(t.Context(), []string{hosts}, filepath.Join(dir, "play"))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]map[string]any{
		"web1": {"all": "play", "web": "inv", "both": "play", "host": nil},
		"web2": {"all": "play", "web": "inv", "both": "play", "host": "play"},
	} {
		h, _ := inv.Host(host)
		for name, value := range want {
			if h.Vars[name] != value {
				t.Errorf("%s of %s is %v, want %v", name, host, h.Vars[name], value)
			}
		}
	}
	for _, kind := range []string{"group_vars", "host_vars"} { // the inventory has the same files
		if err := os.MkdirAll(filepath.Join(dir, "links"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "inv", kind), filepath.Join(dir, "links", kind)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"inv", "links"} {
		if inv, err := LoadBeside(t.Context(), []string{hosts}, filepath.Join(dir, folder)); err != nil || inv != nil {
			t.Errorf("%s: %v, %v: its files are read twice", folder, inv, err)
		}
	}
}
