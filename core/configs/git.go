package configs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
)

const (
	branch    = "refs/heads/main"
	maxStderr = 4096            // bytes of git's output that are shown
	endGrace  = 5 * time.Second // for pipes to close after git was killed
	callTime  = 5 * time.Minute // of one call, on a slow disk
)

// git runs the real program on the repository: nothing of the user's settings, no program that
// the repository names, no prompts, bounded time.
type git struct{ dir string }

// fixed are the settings of every call; they win over the repository's own.
func fixed() []string {
	var args []string
	for _, c := range []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.fsync=committed,reference", "core.fsyncMethod=fsync",
		"core.bigFileThreshold=64m", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false", "log.showSignature=false", "log.mailmap=false",
		"commit.gpgSign=false", "init.templateDir=", "fastimport.unpackLimit=100",
	} {
		args = append(args, "-c", c)
	}
	return args
}

// call runs git with the lock, when there is one, inherited: as long as git lives, nobody else
// writes.
func (g git) call(ctx context.Context, lock *os.File, in io.Reader, out io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	said := core.Head{Most: maxStderr}
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"--git-dir=" + g.dir}, fixed()...), args...)...) //nolint:gosec // names and versions are checked
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + g.dir, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_PAGER=cat",
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                // a terminal's Ctrl-C lets a commit finish
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // also its helpers
	cmd.WaitDelay = endGrace
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
	err := cmd.Run()
	switch text := strings.TrimSpace(strings.ToValidUTF8(said.String(), "?")); {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("git %s: %w", args[0], core.ErrTimeout)
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("the program git, which keeps versions of configurations, is not installed: %w", err)
	case text == "":
		return fmt.Errorf("git %s in %s: %w", args[0], g.dir, err)
	default:
		return fmt.Errorf("git %s in %s: %s", args[0], g.dir, text)
	}
}

// text returns the output of a call, which must be at most most bytes long.
func (g git) text(ctx context.Context, lock *os.File, most int, args ...string) (string, error) {
	out := core.Head{Most: most}
	if err := g.call(ctx, lock, nil, &out, args...); err != nil {
		return "", err
	}
	if out.Over() {
		return "", fmt.Errorf("git %s: %w: more than %d MiB of output", args[0], core.ErrInvalid, most>>20)
	}
	return out.String(), nil
}

// tip is the newest commit; empty when there is none yet.
func (g git) tip(ctx context.Context, lock *os.File) (string, error) {
	out, err := g.text(ctx, lock, 1<<10, "for-each-ref", "--format=%(objectname)", branch)
	return strings.TrimSpace(out), err
}
