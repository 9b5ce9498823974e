package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

const (
	programTime = time.Minute
	maxProgram  = 64 << 20
	maxStderr   = 64 << 10
	maxCause    = 300 // characters of stderr in an error
	tokenEnv    = "TURNUS_SOURCE_TOKEN"
)

// run asks a program with --list, as Ansible does. It must be this user's or root's, and nobody
// else may write it. It reads its own folder, has the network, and sees nothing of this process.
func (f *Fetcher) run(ctx context.Context, s Source, token string, g *Generation) error {
	if _, err := securefile.Read(s.Program, securefile.Rule{Most: maxProgram, Shut: 0o022, Owned: true}); err != nil {
		return fmt.Errorf("program: %w: %w", err, core.ErrInvalid)
	}
	program, err := os.Open(s.Program)
	if err != nil {
		return fmt.Errorf("program: %w: %w", err, core.ErrInvalid)
	}
	defer func() { _ = program.Close() }()
	if err := unix.Access(s.Program, unix.X_OK); err != nil {
		return fmt.Errorf("program: it is not executable (%w): %w\nhint: chmod +x %s", err, core.ErrInvalid, shell.Quote(s.Program))
	}
	dir, err := os.MkdirTemp("", "turnus-source-")
	if err != nil {
		return fmt.Errorf("folder for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out, err := f.list(ctx, s, program, dir, token)
	if err != nil {
		return fmt.Errorf("%s --list: %w", s.Program, err)
	}
	if !json.Valid(out) {
		return fmt.Errorf("%s --list: it printed no JSON: %w", s.Program, core.ErrInvalid)
	}
	g.Body, g.List = string(out), true
	return nil
}

func (f *Fetcher) list(ctx context.Context, s Source, program *os.File, dir, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, programTime, fmt.Errorf("it did not end within %v: %w", programTime, core.ErrTimeout))
	defer cancel()
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + dir, "TMPDIR=" + dir}
	if token != "" {
		env = append(env, tokenEnv+"="+token)
	}
	cmd, done, err := f.command(program, s.Program, dir, env)
	if err != nil {
		return nil, err
	}
	defer done()
	out, said := &core.Head{Most: maxBody, Full: cancel}, &core.Head{Most: maxStderr}
	runtime.LockOSThread() // a confined program ends with the thread that started it
	defer runtime.UnlockOSThread()
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, out, said, time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("it cannot be started: %w: %w", err, core.ErrInvalid)
	}
	ended := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // its group
	err = cmd.Wait()
	ended()
	switch cause := context.Cause(ctx); {
	case out.Over():
		return nil, fmt.Errorf("it printed more than %d MiB: %w", maxBody>>20, core.ErrInvalid)
	case cause != nil:
		return nil, cause
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, fmt.Errorf("it left a program behind that holds its output: %w", core.ErrInvalid)
	case err != nil:
		text := said.String()
		if token != "" {
			text = strings.ReplaceAll(text, token, "***")
		}
		return nil, fmt.Errorf("%w: %s", err, lastLine(text))
	}
	return out.Bytes(), nil
}

// lastLine returns the last line of an error output: programs write the cause there, after a
// traceback.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return yamlread.ClipTo(text[strings.LastIndexByte(text, '\n')+1:], maxCause)
}

// command starts the program confined, where that is possible.
func (f *Fetcher) command(program *os.File, path, dir string, env []string) (*exec.Cmd, func(), error) {
	confined, err := f.Sandbox.Confine(program, []string{path, "--list"}, env, sandbox.Profile{Dir: dir, Read: []string{filepath.Dir(path)}, Network: true})
	if err != nil {
		return nil, nil, err
	}
	if confined != nil {
		return confined.Command(), func() { _ = confined.Close() }, nil
	}
	cmd := exec.Command(path, "--list") //nolint:noctx // its group is ended
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setpgid: true}
	return cmd, func() {}, nil
}
