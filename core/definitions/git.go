package definitions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
)

const (
	maxStderr = 4096            // bytes of git's output that are shown
	maxOutput = 1 << 20         // bytes of a short answer
	endGrace  = 5 * time.Second // for pipes to close after git was killed
	sizeEvery = 50 * time.Millisecond
	localTime = 2 * time.Minute // of one call that does not leave the machine
)

// git runs the real program on one repository: nothing of the user's or the repository's
// settings that runs programs, no prompts, bounded time.
type git struct {
	program string
	dir     string // the repository
	user    bool   // the repository of the person who runs this: their own settings hold, as which folders are safe
	remote  remote
	ssh     string // GIT_SSH_COMMAND
}

// fixed are the settings of every call; they win over a repository's own.
func fixed() []string {
	var args []string
	for _, c := range []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
		"protocol.ext.allow=never", "credential.helper=", "core.askPass=", "core.bigFileThreshold=8m", "core.quotePath=true",
		"fetch.recurseSubmodules=false", "fetch.unpackLimit=1", "submodule.recurse=false", "gc.auto=0", "maintenance.auto=false",
		"http.followRedirects=false", "http.lowSpeedLimit=100", "http.lowSpeedTime=30", "log.showSignature=false", "log.mailmap=false",
		"fetch.writeCommitGraph=false", "init.templateDir=", "advice.detachedHead=false",
	} {
		args = append(args, "-c", c)
	}
	return args
}

// environ is all that git gets to see.
func (g *git) environ() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL=file:https:http:ssh", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_SSH_COMMAND=" + g.ssh, "GIT_PAGER=cat",
	}
	pass := []string{"SSH_AUTH_SOCK", "TMPDIR", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"}
	if g.user {
		pass = append(pass, "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
	} else {
		env = append(env, "HOME="+g.dir, "GIT_CONFIG_GLOBAL=/dev/null") // no .netrc, no .gitconfig
	}
	for _, name := range pass {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if g.remote.header != "" { // not an argument: everybody on the machine can read those
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http."+g.remote.address+".extraHeader", "GIT_CONFIG_VALUE_0="+g.remote.header)
	}
	return env
}

func (g *git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, append(append([]string{"-C", g.dir}, fixed()...), args...)...) //nolint:gosec // the operator's git; refs and hashes are checked
	cmd.Env = g.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // also its helpers
	cmd.WaitDelay = endGrace
	return cmd
}

// run gives what a call prints, which must be short.
func (g *git) run(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, said := core.Head{Most: maxOutput}, core.Head{Most: maxStderr}
	cmd := g.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", g.explain(ctx, args[0], limit, err, said.String())
	}
	if out.Over() {
		return "", fmt.Errorf("git %s: %w: more than %d KiB of output", args[0], core.ErrInvalid, maxOutput>>10)
	}
	return out.String(), nil
}

// explain returns what failed, without secrets. A call that the caller ended gives the cause.
func (g *git) explain(ctx context.Context, verb string, limit time.Duration, err error, said string) error {
	said = strings.TrimSpace(g.remote.redact(strings.ToValidUTF8(said, "?")))
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("git %s: %w: not done within %v", verb, core.ErrTimeout, limit)
	case cause != nil:
		return fmt.Errorf("git %s: %w", verb, cause)
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("git %s: the program git is not installed: %w", verb, err)
	case said == "":
		return fmt.Errorf("git %s: %w", verb, err)
	}
	return fmt.Errorf("git %s: %s", verb, said)
}

// stream runs a call and lets read take its output as it comes.
func (g *git) stream(ctx context.Context, limit time.Duration, in io.Reader, read func(*bufio.Reader) error, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := core.Head{Most: maxStderr}
	cmd := g.command(ctx, args...)
	cmd.Stdin, cmd.Stderr = in, &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return g.explain(ctx, args[0], limit, err, "")
	}
	failed := read(bufio.NewReaderSize(out, 64<<10))
	if failed != nil {
		kill := cmd.Cancel()
		_ = cmd.Wait() // it was killed for its output
		if errors.Is(failed, io.ErrUnexpectedEOF) || errors.Is(failed, io.EOF) || kill != nil && ctx.Err() != nil {
			return g.explain(ctx, args[0], limit, failed, said.String())
		}
		return failed
	}
	if err := cmd.Wait(); err != nil {
		return g.explain(ctx, args[0], limit, err, said.String())
	}
	return nil
}

// errTooLarge ends a fetch.
var errTooLarge = errors.New("the repository is too large")

// watched runs a call that writes into the repository, and ends it when the folder grows over
// a number of bytes.
func (g *git) watched(ctx context.Context, limit time.Duration, most int64, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(sizeEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if sizeOf(g.dir) > most {
					cancel(fmt.Errorf("%w: %w: over %d MiB", core.ErrInvalid, errTooLarge, most>>20))
					return
				}
			}
		}
	})
	_, err := g.run(ctx, limit, args...)
	cancel(nil)
	watch.Wait()
	if err == nil && sizeOf(g.dir) > most {
		err = fmt.Errorf("git %s: %w: %w: over %d MiB", args[0], core.ErrInvalid, errTooLarge, most>>20)
	}
	return err
}

// sizeOf is the bytes of all files of a folder, as far as they can be seen while it changes.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // a file that went away has no size
	})
	return sum
}

// tidyLocks removes what a git that was killed left in the way of the next: nobody else
// writes here. No branch's name ends in .lock.
func (g *git) tidyLocks() {
	_ = filepath.WalkDir(g.dir, func(p string, d fs.DirEntry, err error) error {
		name := filepath.Base(p)
		if err == nil && d.Type().IsRegular() && (strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".keep") || name == "gc.pid" || strings.HasPrefix(name, "tmp_")) {
			_ = os.Remove(p) //nolint:gosec // the folder is the owner's alone; if the file stays, git says so
		}
		return nil // a file that went away is not in the way
	})
}
