package secrets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

func compare(a, b string) int { return strings.Compare(a, b) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func fromEnv(name string) ([]byte, error) {
	v, ok := os.LookupEnv(name)
	if !ok {
		return nil, fmt.Errorf("the environment variable %s is not set on this node: %w", name, core.ErrInvalid)
	}
	return []byte(v), nil
}

// beside is a path of the node's own file: relative ones count from its folder.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// Modes that a file must not have: what is secret is read by nobody else, what is obeyed is written
// by nobody else. The group may read: service managers hand credentials over so.
const (
	readableByOthers fs.FileMode = 0o027
	writableByOthers fs.FileMode = 0o022
)

func fromFile(path string) ([]byte, error) {
	value, err := readTrusted(path, MaxValue+2, readableByOthers)
	if errors.Is(err, securefile.ErrTooLong) {
		return nil, fmt.Errorf("its value is longer than %d KiB: %w", MaxValue>>10, core.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return trimLine(value), nil
}

// trimLine cuts one end of line: editors and commands add it.
func trimLine(value []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
}

// readTrusted reads a file of at most so many bytes that this user or root owns and that has no bit
// of forbidden.
func readTrusted(path string, most int, forbidden fs.FileMode) ([]byte, error) {
	data, err := securefile.Read(path, securefile.Rule{Most: most, Shut: forbidden, Owned: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s: %w\nhint: turnus secrets --help shows how to make one", path, core.ErrInvalid)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "read" { // the disk's trouble, which may pass
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, core.ErrInvalid)
	}
	return data, nil
}

// fromCommand runs argv and gives what it printed, without one end of line. Its output, on either
// stream, is in no error: it may be the secret.
func fromCommand(ctx context.Context, argv []string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &bound{most: MaxValue + 2, full: func() {
		cancel(fmt.Errorf("it printed more than %d KiB, and was ended: %w", MaxValue>>10, core.ErrInvalid))
	}}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the operator's own command
	cmd.Stdout = out
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		clear(out.data)
		return nil, cause
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		clear(out.data)
		_ = cmd.Cancel() // its group, in which that program is
		return nil, fmt.Errorf("it ended, and left a program behind that holds its output: %w", core.ErrInvalid)
	}
	if err != nil {
		clear(out.data)
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			return nil, fmt.Errorf("it could not be run: %w: %w", err, core.ErrInvalid)
		}
		return nil, fmt.Errorf("it ended with %s: run it by hand to see why, because its output is not shown: %w", failed.ProcessState, core.ErrUnavailable)
	}
	return trimLine(out.data), nil
}

// bound takes what a command prints, up to most bytes. It is grown in one step, so that no copies
// are left behind.
type bound struct {
	data []byte
	most int
	full func()
}

func (b *bound) Write(p []byte) (int, error) {
	if b.data == nil {
		b.data = make([]byte, 0, b.most)
	}
	if len(b.data)+len(p) > b.most {
		b.full()
		return 0, errors.New("too much")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}
