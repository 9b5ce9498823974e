package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// TestExternalPlugin does what an author elsewhere does: a module of their own, the sdk, a plugin
// folder.
func TestExternalPlugin(t *testing.T) {
	golang := testparts.Need(t, "go", "golang")
	sdk, err := filepath.Abs("../sdk")
	if err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	write(t, filepath.Join(src, "go.mod"), `module example.org/greeter

go 1.26.0

require github.com/turnus/turnus/plugins/sdk v0.0.0

replace github.com/turnus/turnus/plugins/sdk => `+sdk+"\n", 0o644)
	sums, err := os.ReadFile(filepath.Join(sdk, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(src, "go.sum"), string(sums), 0o644)
	write(t, filepath.Join(src, "main.go"), `package main

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/plugins/sdk"
)

type params struct {
	Name string `+"`json:\"name\" jsonschema:\"whom to greet\"`"+`
}

func greet(ctx context.Context, r *sdk.Run[params, sdk.NoState]) error {
	fmt.Println("stray output") // must not hurt
	return r.Host().Run(ctx, "echo hello "+r.Params.Name).Err()
}

func main() {
	fmt.Println("before the handshake") // nor this
	sdk.Serve(sdk.Plugin("greeter", "1.2.0"), sdk.Job("greet", greet, sdk.Idempotent(true), sdk.Reverts("name")))
}
`, 0o644)
	dir := t.TempDir()
	folder := filepath.Join(dir, "greeter", "1.2.0")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), golang, "build", "-o", filepath.Join(folder, "plugin"), ".")
	build.Dir = src
	build.Env = append(testparts.Shipped("-mod=mod"), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	b := open(t, &fleet{}, config(func(c *Config) { c.Dirs = []string{dir} })) // no manifest.json: it is asked
	if kept, err := readManifest(filepath.Join(folder, "manifest.json")); err != nil || kept.Name != "greeter" || !kept.Types[0].Reverts || len(kept.Types[0].RevertsUnless) != 1 {
		t.Errorf("kept manifest: %+v, %v", kept, err)
	}
	c := call("echo", labParams{})
	c.Type, c.Params = "greet", []byte(`{"name":"world"}`)
	var printed string
	c.Sink = func(e Event) { printed += string(e.Stdout) }
	if b.must(t, c); printed != "fw1" && printed != "" {
		t.Errorf("printed %q", printed)
	}
	c.Params = []byte(`{"nmae":"world"}`)
	if out, err := b.Run(t.Context(), c); err != nil || !out.Failed || out.Effects != EffectsNone {
		t.Errorf("misspelt parameter: %+v, %v; expected failed without effects", out, err)
	}
}
