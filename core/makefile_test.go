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

// A release has a package and an image for each architecture before its checksums. Only an empty
// ENGINE leaves the images out, and the release then prints so.
func TestReleaseHasTheImage(t *testing.T) {
	const save, sums = "save turnus:v9 | gzip", "sha256sum turnus-*"
	out, err := made(t, "-n", "release", "VERSION=v9", "ENGINE=sh", "GO=go")
	if err != nil {
		t.Fatalf("make -n release: %v\n%s", err, out)
	}
	before, _, found := strings.Cut(out, sums)
	if !found || strings.Contains(out, "has no image") {
		t.Errorf("no checksums, or no image:\n%s", out)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, want := range []string{
			"GOOS=linux GOARCH=" + arch + " go build -ldflags '-s -w -X github.com/turnus/turnus/cmd/turnus/settings.version=v9' -o dist/container/usr/bin/turnus",
			"sh build --platform linux/" + arch, save + " -9 -n >dist/turnus-image-linux-" + arch + ".tar.gz",
			"GOOS=linux GOARCH=" + arch + " go build -ldflags '-s -w -X github.com/turnus/turnus/cmd/turnus/settings.version=v9' -o dist/package/turnus",
			`ARCH=` + arch + " \\\n", `--target "dist/turnus_9_` + arch + `.deb"`,
		} {
			if !strings.Contains(before, want) {
				t.Errorf("%s: expected %q before the checksums:\n%s", arch, want, out)
			}
		}
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
