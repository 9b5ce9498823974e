package inventory

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLoadFSReadsATree(t *testing.T) {
	tree := fstest.MapFS{
		"inventory/hosts.yaml":           {Data: []byte("hosts:\n  a: {groups: [web]}\n  b: {}\n")},
		"inventory/group_vars/web.yaml":  {Data: []byte("color: red\n")},
		"inventory/host_vars/b/one.yaml": {Data: []byte("color: blue\n")},
		"inventory/old":                  {Data: []byte("c\n")},
	}
	inv, err := LoadFS(t.Context(), tree, []string{"inventory"})
	if err != nil {
		t.Fatal(err)
	}
	for host, color := range map[string]string{"a": "red", "b": "blue"} {
		if h, ok := inv.Host(host); !ok || h.Vars["color"] != color {
			t.Errorf("%s: %+v", host, h)
		}
	}
	if _, ok := inv.Host("c"); !ok {
		t.Error("the INI file of the folder is not read")
	}
	if file, line, col, ok := inv.Place("b"); file != "inventory/hosts.yaml" || line != 3 || col != 3 || !ok {
		t.Errorf("b stands at %s:%d:%d, %v", file, line, col, ok)
	}
	if _, _, _, ok := inv.Place("nobody"); ok {
		t.Error("a host that is not there has a place")
	}
}

// A tree that others wrote runs nothing on this machine; from the disk the same would run.
func TestLoadFSRunsNoProgram(t *testing.T) {
	marker := t.TempDir() + "/ran"
	tree := fstest.MapFS{"inventory/dyn.py": {Data: []byte("#!/bin/sh\ntouch " + marker + "\necho '{}'\n"), Mode: 0o755}}
	_, err := LoadFS(t.Context(), tree, []string{"inventory"})
	if err == nil || !strings.Contains(err.Error(), "a program is not run here") {
		t.Errorf("got %v", err)
	}
	if _, err := LoadFS(t.Context(), tree, []string{"a,b,"}); err == nil {
		t.Error("a list of names is a path of the tree, and is not there")
	}
}
