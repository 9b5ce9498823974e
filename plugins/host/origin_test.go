package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// labProgram is a plugin that calls itself so, as NAME@VERSION.
func labProgram(t *testing.T, named string) string {
	t.Helper()
	return "#!/bin/sh\nexec '" + self(t) + "' lab 'named:" + named + "'\n"
}

// put installs a lab under a name and a version.
func put(t *testing.T, dir, named string, force bool) Installed {
	t.Helper()
	src := t.TempDir()
	write(t, filepath.Join(src, "plugin"), labProgram(t, named)+"# "+filepath.Base(src)+"\n", 0o755)
	got, err := Install(t.Context(), Installing{Source: src, Dir: dir, Use: true, Force: force})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shortDir is a folder whose path leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dev") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func lockAll(t *testing.T, dir string) {
	t.Helper()
	lock, err := NewLock(dir, nil, nil)
	if err == nil {
		err = lock.Write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// holding is a supervisor whose hosts hold a command until the test lets it go.
type holding struct {
	*bench
	began, proceed chan struct{}
}

func hold(t *testing.T, cfg Config) *holding {
	t.Helper()
	h := &holding{began: make(chan struct{}), proceed: make(chan struct{})}
	log := &logs{}
	cfg.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Socket = shortDir(t)
	s, err := newSupervisor(cfg, &fleet{run: func(ctx context.Context, _ core.Host, e transport.Exec) (transport.Exit, error) {
		close(h.began)
		select {
		case <-h.proceed:
		case <-ctx.Done():
		}
		_, err := io.WriteString(e.Stdout, "held")
		return transport.Exit{}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.bench = &bench{Supervisor: s, log: log}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a call that a failed test holds is cut
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return h
}

// under begins a call and returns when its host has been asked; end lets it go, and returns the
// process it ended in.
func (h *holding) under(t *testing.T) (end func() int) {
	t.Helper()
	type ended struct {
		out Outcome
		err error
	}
	done := make(chan ended, 1)
	go func() {
		out, err := h.Run(context.Background(), call("cmd", labParams{}))
		done <- ended{out, err}
	}()
	select {
	case <-h.began:
	case e := <-done:
		t.Fatalf("the call under way ended: %+v", e)
	}
	return func() int {
		close(h.proceed)
		e := <-done
		if e.err != nil || e.out.Failed || e.out.Outputs["stdout"] != "held" {
			t.Fatalf("the call under way: %+v, %v", e.out, e.err)
		}
		return number(t, e.out.Outputs["pid"])
	}
}

// runs wants calls to go to that version, and returns its process.
func (h *holding) runs(t *testing.T, version string) int {
	t.Helper()
	got := h.must(t, call("version", labParams{}))
	if got["version"] != version {
		t.Fatalf("version %v runs, expected %s", got["version"], version)
	}
	return number(t, got["pid"])
}

func TestFaultP5AWorkerNoticesANewVersion(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "lab@0.9.0", false)
	h := hold(t, Config{Dirs: []string{dir}})
	first := number(t, h.must(t, call("echo", labParams{}))["pid"])
	end := h.under(t)

	put(t, dir, "lab@1.1.0", false) // with a job type that the first has not
	if typ, ok := h.Type("lab.version"); !ok || typ.Name != "lab.version" {
		t.Errorf("the manifest is still that of the former version: %+v", typ)
	}
	second := h.runs(t, "1.1.0")
	if second == first {
		t.Error("the new version runs in the process of the former one")
	}
	if again := h.runs(t, "1.1.0"); again != second {
		t.Error("each call has a process of its own")
	}
	if pid := end(); pid != first {
		t.Errorf("the call under way ended in process %d, it began in %d", pid, first)
	}
	until(t, "the former version's process is gone", func() bool { return !alive(first) })

	put(t, dir, "lab@1.1.0", true) // the same version, replaced
	third := h.runs(t, "1.1.0")
	if third == second {
		t.Error("a version that was replaced runs on")
	}
	if err := os.WriteFile(filepath.Join(dir, "lab", "note"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if h.runs(t, "1.1.0") != third {
		t.Error("what is no version exchanges the process")
	}
	if got := h.Plugins(); len(got) != 1 || got[0].Version != "1.1.0" {
		t.Errorf("plugins: %+v", got)
	}
}

// A plugin whose name is new is found when its job type is asked for.
func TestFaultP5AWorkerNoticesANewPlugin(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "lab@1.1.0", false)
	h := hold(t, Config{Dirs: []string{dir}})
	c := call("version", labParams{})
	c.Type = "twin.version"
	if _, err := h.Run(t.Context(), c); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "no plugin has the job type") {
		t.Fatalf("before: %v", err)
	}
	put(t, dir, "twin@3.0.0", false)
	if got := h.must(t, c); got["version"] != "3.0.0" {
		t.Errorf("%v", got)
	}
	h.runs(t, "1.1.0")
}

// The lockfile decides as before: what it does not name is not taken, and what it names continues
// meanwhile.
func TestFaultP5TheLockfileStillDecides(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "lab@1.1.0", false)
	lockAll(t, dir)
	h := hold(t, Config{Dirs: []string{dir}})
	first := h.runs(t, "1.1.0")
	put(t, dir, "lab@1.2.0", false)
	if pid := h.runs(t, "1.1.0"); pid != first {
		t.Error("a version that is not locked exchanges the process")
	}
	if !strings.Contains(h.log.String(), "version 1.1.0 is locked, 1.2.0 is in use") {
		t.Errorf("the log does not show why:\n%s", h.log.String())
	}
	put(t, dir, "twin@3.0.0", false)
	twin := call("version", labParams{})
	twin.Type = "twin.version"
	if _, err := h.Run(t.Context(), twin); err == nil {
		t.Error("a plugin that the lockfile does not name runs")
	}
	lockAll(t, dir)
	h.runs(t, "1.2.0")
	if got := h.must(t, twin); got["version"] != "3.0.0" {
		t.Errorf("%v", got)
	}
	p := h.Plugins()[0]
	if p.Tree == "" {
		t.Error("the new version is not held to its hash")
	}
}

func TestFaultP10AnEditRunsWithTheNextCall(t *testing.T) {
	dir, dev := t.TempDir(), t.TempDir()
	put(t, dir, "lab@0.9.0", false)
	lockAll(t, dir)
	// The program stays as it is, and a file beside it changes.
	write(t, filepath.Join(dev, "plugin"), "#!/bin/sh\nhere=$(dirname \"$(readlink \"$0\")\")\n. \"$here/lib/module.sh\"\n", 0o755)
	if err := os.Mkdir(filepath.Join(dev, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(dev, "lib", "module.sh")
	edit := func(text string) { t.Helper(); write(t, module, text, 0o644) }
	edit(labProgram(t, "lab@1.1.0"))
	h := hold(t, Config{Dirs: []string{dir}, Dev: map[string]string{"lab": dev}})
	first := h.runs(t, "1.1.0")
	end := h.under(t)
	if again := h.runs(t, "1.1.0"); again != first {
		t.Error("without an edit the process is exchanged")
	}

	edit(labProgram(t, "lab@1.2.0"))
	second := h.runs(t, "1.2.0")
	edit("echo 'line 1: no such word' >&2; exit 1\n")
	for range 2 {
		out, err := h.Run(t.Context(), call("version", labParams{}))
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), dev) || !strings.Contains(err.Error(), "no such word") || out.Effects != EffectsNone || out.Retryable {
			t.Errorf("a broken version: %+v, %v; expected an error that names %s and the reason", out, err, dev)
		}
	}
	if err := os.Rename(module, module+".gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), call("version", labParams{})); err == nil || strings.Contains(err.Error(), folderPrefix) {
		t.Errorf("a version without its module: %v; expected an error that does not name the copy", err)
	}
	edit(labProgram(t, "other@1.0.0"))
	if _, err := h.Run(t.Context(), call("version", labParams{})); err == nil || !strings.Contains(err.Error(), "it calls itself other\nhint: --plugin-dev other="+dev) {
		t.Errorf("another name: %v", err)
	}
	edit(labProgram(t, "lab@1.3.0"))
	h.runs(t, "1.3.0")
	if pid := end(); pid != first {
		t.Errorf("the call under way ended in process %d, it began in %d", pid, first)
	}
	until(t, "the former versions are gone, with their copies", func() bool {
		copies, err := filepath.Glob(filepath.Join(h.root.parent, "*", "dev-*"))
		return err == nil && len(copies) == 1 && !alive(first) && !alive(second)
	})
}

// Plugins under development that a start refuses.
func TestFaultP10WhatIsNoPluginIsRefusedAtTheStart(t *testing.T) {
	empty, module, builtin, open := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example.org/lab\n", 0o644)
	write(t, filepath.Join(builtin, "plugin"), labProgram(t, "lab@1.1.0"), 0o755)
	write(t, filepath.Join(open, "plugin"), labProgram(t, "lab@1.1.0"), 0o757)
	inner := Plugin{Argv: []string{self(t), "lab", "good"}, Manifest: labManifest()}
	for want, cfg := range map[string]Config{
		"neither a program named plugin nor a plugin.yaml": {Dev: map[string]string{"lab": empty}},
		"go build -o plugin .":                             {Dev: map[string]string{"lab": module}},
		"chmod o-w":                                        {Dev: map[string]string{"lab": open}},
		"no such file":                                     {Dev: map[string]string{"lab": filepath.Join(empty, "gone")}},
		"is there twice":                                   {Dev: map[string]string{"lab": builtin}, Builtins: []Plugin{inner}},
	} {
		cfg.Socket = shortDir(t)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected %q", err, want)
		}
		if left, _ := filepath.Glob(filepath.Join(cfg.Socket, "*")); len(left) > 0 {
			t.Errorf("%s: left behind: %v", want, left)
		}
	}
}

// A program alone is as good as its folder, as for the suite, and its network is the operator's to
// allow.
func TestAProgramUnderDevelopment(t *testing.T) {
	program := filepath.Join(t.TempDir(), "anything")
	write(t, program, labProgram(t, "lab@1.1.0"), 0o755)
	h := hold(t, Config{Dev: map[string]string{"lab": program}, Allow: map[string]Allow{"lab": {Network: true}}})
	h.runs(t, "1.1.0")
	write(t, program, labProgram(t, "lab@1.10.0"), 0o755)
	h.runs(t, "1.10.0")
	if p := h.Plugins()[0]; !p.Allow.Network {
		t.Errorf("%+v", p.Allow)
	}
	raw, err := json.Marshal(labParams{Op: "bad"})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := h.Validate(t.Context(), "lab.echo", raw); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}
