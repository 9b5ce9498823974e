package exec

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Exit codes of the helper, beside those of the command that it runs.
const (
	exitHeld        = 75  // the maintenance window does not allow more: end with a held event
	exitRefused     = 254 // wrong use, or refused, as by check mode
	exitUnreachable = 255 // the host cannot be reached
)

const usage = `turnus-host lets a script of a Turnus plugin work on its job's host, and keep its state.

  turnus-host exec [--read-only] [--stdin] [--timeout D] [--env K=V] [--secret NAME] COMMAND...
                                                        --secret: in the command's environment, past lists of processes
  turnus-host put [--mode 0644] [--owner USER] [--backup SUFFIX] FILE|- PATH
  turnus-host get [--max-size N] PATH [FILE|-]
  turnus-host artifact [--max-size N] NAME [FILE|-]     a file of the worker
  turnus-host save NAME [FILE|-]                        into the worker's fetch folder
  turnus-host probe                                     over a fresh connection
  turnus-host secret NAME                               of the step's secrets, which TURNUS_STEP_SECRETS lists
  turnus-host checkpoint NAME [JSON|-]                  75: the window says stop
  turnus-host may-start [D]                             75: not now

Exit codes: that of the command; 75 held; 254 refused; 255 unreachable.
`

// helper is one call of turnus-host.
type helper struct {
	in       io.Reader
	out, err io.Writer
	run      *sdk.Raw
	flags    *flag.FlagSet

	owner, backup, mode string
	readOnly, stdin     bool
	timeout             time.Duration
	maxSize             int64
	env, secrets        map[string]string
}

// Helper is turnus-host: args are those behind its name. It returns the exit code.
func Helper(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(out, usage)
		return 0
	}
	h := &helper{in: in, out: out, err: errs, env: map[string]string{}, secrets: map[string]string{}, flags: flag.NewFlagSet(HelperName, flag.ContinueOnError)}
	h.flags.SetOutput(io.Discard)
	h.flags.StringVar(&h.owner, "owner", "", "")
	h.flags.StringVar(&h.backup, "backup", "", "")
	h.flags.StringVar(&h.mode, "mode", "0", "")
	h.flags.BoolVar(&h.readOnly, "read-only", false, "")
	h.flags.BoolVar(&h.stdin, "stdin", false, "")
	h.flags.DurationVar(&h.timeout, "timeout", 0, "")
	h.flags.Int64Var(&h.maxSize, "max-size", 0, "")
	h.flags.Func("env", "", func(pair string) error {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("expected NAME=VALUE")
		}
		h.env[name] = value
		return nil
	})
	h.flags.Func("secret", "", func(name string) error {
		h.secrets[name] = name
		return nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	code, err := h.do(ctx, args[0], args[1:])
	if err != nil {
		fmt.Fprintf(errs, "%s %s: %v\n", HelperName, args[0], err)
	}
	return code
}

func (h *helper) do(ctx context.Context, verb string, args []string) (int, error) {
	verbs := map[string]struct {
		least, most int
		run         func(context.Context, []string) (int, error)
	}{
		"exec": {1, 1 << 10, h.exec}, "put": {2, 2, h.put}, "get": {1, 2, h.get}, "artifact": {1, 2, h.artifact}, "save": {1, 2, h.save},
		"probe": {0, 0, h.probe}, "secret": {1, 1, h.secret}, "checkpoint": {1, 2, h.checkpoint}, "may-start": {0, 1, h.mayStart},
	}
	v, ok := verbs[verb]
	if !ok {
		return exitRefused, errors.New("no such verb; turnus-host help lists them")
	}
	if err := h.flags.Parse(args); err != nil {
		return exitRefused, err
	}
	if n := h.flags.NArg(); n < v.least || n > v.most {
		return exitRefused, fmt.Errorf("%d arguments; turnus-host help shows how it is used", n)
	}
	var err error
	if h.run, err = sdk.Attach(); err != nil {
		return exitRefused, err
	}
	return v.run(ctx, h.flags.Args())
}

// code is the exit code of an error.
func code(err error) (int, error) {
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, sdk.ErrUnreachable):
		return exitUnreachable, err
	}
	return exitRefused, err
}

func (h *helper) exec(ctx context.Context, args []string) (int, error) {
	c := sdk.Command{Run: strings.Join(args, " "), Env: h.env, Secrets: h.secrets, ReadOnly: h.readOnly, Timeout: h.timeout, Stdout: h.out, Stderr: h.err}
	if h.stdin {
		c.Stdin = h.in
	}
	exit, err := h.run.Host().Exec(ctx, c)
	if err != nil {
		return code(err)
	}
	if exit.Signal != "" && exit.Code == 0 {
		return 128, fmt.Errorf("the command was ended by signal %s", exit.Signal)
	}
	return exit.Code, nil
}

func (h *helper) put(ctx context.Context, args []string) (int, error) {
	mode, err := strconv.ParseUint(h.mode, 8, 32)
	if err != nil {
		return exitRefused, fmt.Errorf("--mode %s: expected octal digits", h.mode)
	}
	from, err := h.source(args[0])
	if err != nil {
		return exitRefused, err
	}
	defer from.Close()
	_, err = h.run.Host().Put(ctx, sdk.PutFile{Path: args[1], Mode: uint32(mode), Owner: h.owner, Backup: h.backup}, from)
	return code(err)
}

func (h *helper) get(ctx context.Context, args []string) (int, error) {
	return h.into(args, func(to io.Writer) error {
		_, err := h.run.Host().Get(ctx, args[0], h.maxSize, to)
		return err
	})
}

func (h *helper) artifact(ctx context.Context, args []string) (int, error) {
	return h.into(args, func(to io.Writer) error {
		_, err := h.run.Artifact(ctx, args[0], h.maxSize, to)
		return err
	})
}

func (h *helper) save(ctx context.Context, args []string) (int, error) {
	name := "-"
	if len(args) > 1 {
		name = args[1]
	}
	from, err := h.source(name)
	if err != nil {
		return exitRefused, err
	}
	defer from.Close()
	_, err = h.run.SaveFile(ctx, args[0], from)
	return code(err)
}

func (h *helper) probe(ctx context.Context, _ []string) (int, error) {
	_, err := h.run.Host().Probe(ctx, h.timeout)
	return code(err)
}

func (h *helper) secret(ctx context.Context, args []string) (int, error) {
	value, err := h.run.Secret(ctx, args[0])
	if err != nil {
		return code(err)
	}
	_, err = io.WriteString(h.out, value)
	return code(err)
}

func (h *helper) checkpoint(ctx context.Context, args []string) (int, error) {
	state := []byte("{}")
	if len(args) > 1 {
		state = []byte(args[1])
	}
	if string(state) == "-" {
		var err error
		if state, err = io.ReadAll(io.LimitReader(h.in, 1<<20)); err != nil {
			return exitRefused, err
		}
	}
	if !json.Valid(state) {
		return exitRefused, fmt.Errorf("the state is not JSON: %.80s", state)
	}
	if err := checkState(state); err != nil {
		return exitRefused, err
	}
	return held(h.run.Checkpoint(ctx, args[0], state))
}

func (h *helper) mayStart(ctx context.Context, args []string) (int, error) {
	var need time.Duration
	if len(args) > 0 {
		var err error
		if need, err = time.ParseDuration(args[0]); err != nil {
			return exitRefused, err
		}
	}
	return held(h.run.MayStart(ctx, need))
}

func held(err error) (int, error) {
	if errors.Is(err, sdk.ErrWindowClosed) {
		return exitHeld, err
	}
	return code(err)
}

func (h *helper) source(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(h.in), nil
	}
	return os.Open(name)
}

// into runs a reading into the file of the second argument: whole or not at all, stdout when there
// is none.
func (h *helper) into(args []string, read func(io.Writer) error) (int, error) {
	if len(args) < 2 || args[1] == "-" {
		return code(read(h.out))
	}
	f, err := os.OpenFile(args[1]+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return exitRefused, err
	}
	err = errors.Join(read(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), args[1])
	} else {
		_ = os.Remove(f.Name())
	}
	return code(err)
}
