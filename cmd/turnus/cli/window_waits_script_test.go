package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// whenSaid runs a command and exchanges a file while it runs, as an operator edits windows.
func whenSaid(ts *testscript.TestScript, _ bool, args []string) {
	said, err := regexp.Compile(args[0])
	ts.Check(err)
	file, text := ts.MkAbs(args[1]), ts.ReadFile(args[2])
	want, err := strconv.Atoi(args[3])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(ts, args[4]), args[5:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "TURNUS_STATE", "PATH", "TMPDIR", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	pipe, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	var stderr strings.Builder
	edited := false
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		stderr.WriteString(lines.Text() + "\n")
		if !edited && said.MatchString(lines.Text()) {
			edited = true
			ts.Check(os.WriteFile(file, []byte(text), 0o600))
		}
	}
	got := 0
	if exited, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		got = exited.ExitCode()
	}
	_, err = ts.Stdout().Write(out.Bytes())
	ts.Check(err)
	_, err = ts.Stderr().Write([]byte(stderr.String()))
	ts.Check(err)
	if !edited || got != want {
		ts.Fatalf("%s: printed %v, exit code %d, expected %d\n%s%s", args[0], edited, got, want, stderr.String(), out.String())
	}
}

// program finds a command of the test binary.
func program(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	ts.Fatalf("no command %s", name)
	return ""
}

// dated writes dates around today into a file.
func dated(ts *testscript.TestScript, _ bool, args []string) {
	now := time.Now().UTC()
	text := strings.NewReplacer("YESTERDAY", now.AddDate(0, 0, -1).Format(time.DateOnly), "SOON", now.AddDate(0, 0, 3).Format(time.DateOnly)).Replace(ts.ReadFile(args[0]))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
