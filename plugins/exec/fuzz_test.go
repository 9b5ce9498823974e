package exec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
)

// FuzzDescription: whatever is in a plugin.yaml, it is refused with an error or gives job types
// that can be described.
func FuzzDescription(f *testing.F) {
	for _, seed := range []string{
		"plugin: lab\nversion: 1.0.0\ntypes:\n  - {type: a.b, run: run.sh, params: {x: {type: integer, min: 1, default: 2, enum: [1, 2]}}}\n",
		"plugin: lab\nversion: 1\ntypes: [{type: a, run: run.sh, params: {x: {pattern: '('}}, outputs: {y: {type: map}}}]\n",
		"plugin: lab\nversion: 1\ntypes: [{type: a, run: run.sh, params: {x: {default: .nan}}, examples: [{with: {x: {1: 2}}}]}]\n",
		"plugin: [\n", "", "types: [{}]\n", "plugin: lab\nversion: 1\nconcurrency: -9\ntypes: [{type: a, run: run.sh, state_version: -1}]\n",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := defs(dir)
		if err != nil {
			return
		}
		if m := sdk.Describe(all...); m.Name == "" || m.Version == "" || len(m.Types) == 0 {
			t.Errorf("%q gives %+v", text, m)
		}
	})
}
