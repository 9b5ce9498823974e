package core_test

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// made runs make in the repository.
func made(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory"}, args...)...)
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A release has the image before its checksums. Only an empty ENGINE leaves the image out, and the
// release then prints so.
func TestReleaseHasTheImage(t *testing.T) {
	const save, sums = "save turnus:v9 | gzip", "sha256sum turnus-*"
	out, err := made(t, "-n", "release", "VERSION=v9", "ENGINE=docker")
	if err != nil {
		t.Fatalf("make -n release: %v\n%s", err, out)
	}
	image, checksums := strings.Index(out, "docker "+save), strings.Index(out, sums)
	if image < 0 || checksums < image || strings.Contains(out, "has no image") {
		t.Errorf("the image is at %d, the checksums are at %d:\n%s", image, checksums, out)
	}
	out, err = made(t, "-n", "release", "VERSION=v9", "ENGINE=")
	if err != nil || strings.Contains(out, save) || !strings.Contains(out, "dist/ has no image: ENGINE is empty") {
		t.Errorf("without an engine: %v\n%s", err, out)
	}
	out, err = made(t, "engine", "ENGINE=no-such-engine --root /nowhere")
	if err == nil || !strings.Contains(out, "make release ENGINE=") {
		t.Errorf("with an engine that is not on the machine: %v\n%s", err, out)
	}
}

// The file of an image that an engine saved in part is not a part of a release.
func TestArchiveOfTheImage(t *testing.T) {
	dir := t.TempDir()
	engine, file := filepath.Join(dir, "engine"), filepath.Join(dir, "image.tar.gz")
	for exit, fails := range map[string]bool{"0": false, "3": true} {
		script := "#!/bin/sh\necho \"$@\"\nexit " + exit + "\n"
		if err := os.WriteFile(engine, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := made(t, "-o", "container", "container-archive", "VERSION=v9", "ENGINE="+engine, "IMAGE="+file)
		if (err != nil) != fails {
			t.Errorf("the engine exits with %s, make: %v\n%s", exit, err, out)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if saved, err := io.ReadAll(r); err != nil || string(saved) != "save turnus:v9\n" {
		t.Errorf("the file has %q, %v", saved, err)
	}
}
