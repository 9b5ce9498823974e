package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/turnus/turnus/core/testparts"
)

// programTests are the tests of this package, with the program that scripts start.
//
// As a rule that is the binary of the tests. The race detector makes its start ten times as long,
// and scripts start it some thousand times: there they start the binary of make build. The tests of
// package e2e, whose processes have the detector, show what it finds in a whole service.
type programTests struct{ testparts.Patient }

// Run puts the program first in PATH, where testscript.Main has put the tests' own.
func (p programTests) Run() int {
	if !raceEnabled {
		return p.Patient.Run()
	}
	folder, err := os.MkdirTemp("", "turnus-program-")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		err = buildProgram(filepath.Join(folder, "turnus"))
	}
	if err == nil {
		err = os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "turnus: build the program that scripts start:", err)
		return 1
	}
	return p.Patient.Run()
}

func buildProgram(name string) error {
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", name, "github.com/turnus/turnus/cmd/turnus")
	build.Env = testparts.Shipped()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}
