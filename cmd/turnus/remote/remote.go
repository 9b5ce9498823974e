// Package remote owns the client side of commands: which server is asked and as whom, logging in to
// it, what completion asks it, and what to type after it refused.
//
// It must not know what a command asks for.
package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/telemetry"
)

// Flags define which server is asked, and as whom.
type Flags struct {
	Server, TokenFile, Context, CAFile string
	CertFile, KeyFile                  string
	Local                              bool // the record of turnus run is asked, and no server
	hasLocal, orLocal                  bool // there is --local; it is taken where no server is named
}

// Add gives the command the flags.
func (f *Flags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.Server, "server", "", "URL of the server, instead of a context's (TURNUS_SERVER)")
	fl.StringVar(&f.TokenFile, "token-file", "", "file that holds the token (TURNUS_TOKEN holds the token itself)")
	fl.StringVar(&f.Context, "context", "", "context to ask, see turnus context; the chosen one when empty")
	fl.StringVar(&f.CAFile, "ca-file", "", "certificates, in PEM, of the certificate authority that signed the server's")
	fl.StringVar(&f.CertFile, "cert-file", "", "certificate of this client, in PEM, where the server asks for one (turnus up --tls-client-ca)")
	fl.StringVar(&f.KeyFile, "key-file", "", "its key, in PEM")
	_ = c.RegisterFlagCompletionFunc("context", CompleteContexts)
}

// AddLocal gives the command --local. One that only reads goes without it where no server is named.
func (f *Flags) AddLocal(c *cobra.Command, reads bool) {
	f.hasLocal, f.orLocal = true, reads
	text := "ask the record of turnus run on this machine, and no server"
	if reads {
		text += "; without it that happens where none is named"
	}
	c.Flags().BoolVar(&f.Local, "local", false, text)
}

// ErrNoServer is the error where no server is named.
var ErrNoServer = console.Invalid("no server is named\nhint: turnus up runs one here; turnus context set NAME --server URL --token-file FILE keeps another; or --server URL")

// Arguments returns the flags that are given, for another command: --context prod.
func (f *Flags) Arguments() (words []string) {
	for _, flag := range []struct{ name, value string }{
		{"--context", f.Context}, {"--server", f.Server}, {"--token-file", f.TokenFile},
		{"--ca-file", f.CAFile}, {"--cert-file", f.CertFile}, {"--key-file", f.KeyFile},
	} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	return words
}

// Target returns the server by flags, environment and contexts. Flags win over the environment, and
// that over the chosen context.
func (f *Flags) Target() (settings.Context, error) {
	var s settings.Context
	env := os.Getenv("TURNUS_SERVER")
	switch {
	case f.Server != "" && f.Context != "":
		return s, console.Invalid("--server and --context both name a server: give one")
	case f.Server != "":
		s.Server = f.Server
	case f.Context == "" && env != "":
		s.Server = env
	default:
		file, err := settings.LoadContexts()
		if err != nil {
			return s, err
		}
		name := cmp.Or(f.Context, file.Current)
		if name == "" {
			return s, ErrNoServer
		}
		if s, err = file.Find(name); err != nil {
			return s, err
		}
	}
	if f.CAFile != "" {
		s.CAFile = f.CAFile
	}
	if f.CertFile != "" || f.KeyFile != "" {
		s.CertFile, s.KeyFile = f.CertFile, f.KeyFile
	}
	if token := os.Getenv("TURNUS_TOKEN"); token != "" {
		s.Token, s.TokenFile = strings.TrimSpace(token), ""
	}
	if f.TokenFile != "" {
		s.TokenFile = f.TokenFile
	}
	return s, nil
}

// Client makes the client of the server that is asked.
func (f *Flags) Client(patience time.Duration) (*client.Client, error) {
	s, err := f.Target()
	if err != nil {
		return nil, err
	}
	return ClientOf(s, patience)
}

// ClientOf makes the client of a context.
func ClientOf(s settings.Context, patience time.Duration) (_ *client.Client, err error) {
	cfg := client.Config{Server: s.Server, Insecure: s.Insecure, Agent: "turnus/" + settings.Version(), Patience: patience}
	if cfg.Token, err = s.ReadToken(); err != nil {
		return nil, err
	}
	if s.CAFile != "" {
		if cfg.CAs, err = settings.ReadFile(s.CAFile, 1<<20); err != nil {
			return nil, console.Invalid("--ca-file: %w", err)
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return nil, console.Invalid("--cert-file and --key-file go together")
	}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, console.Invalid("--cert-file %s, --key-file %s: %w", s.CertFile, s.KeyFile, err)
		}
		cfg.Certificate = &pair
	}
	return client.New(cfg)
}

// Run makes what a verb does with a server the RunE of its command.
func Run(con *console.Console, f *Flags, do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, end, err := connect(cmd.Context(), con, f)
		if err != nil {
			return err
		}
		defer end()
		ctx, stop := con.Interruptible(telemetry.UnderTrace(cmd.Context(), os.Getenv(telemetry.TraceVariable))) // that of a pipeline that calls
		defer stop()
		err = Reported(do(ctx, c, args))
		if e, ok := errors.AsType[*client.Error](err); ok && e.Status == 0 && f.orLocal && errors.Is(e, core.ErrUnavailable) {
			err = fmt.Errorf("%w; --local asks the record of turnus run on this machine", err)
		}
		return err
	}
}

// connect returns a client of the server that is asked, or of the record on this machine.
func connect(ctx context.Context, con *console.Console, f *Flags) (*client.Client, func(), error) {
	if f.Local && f.Server+f.Context != "" {
		return nil, nil, console.Invalid("--local asks no server: leave out --server and --context")
	}
	if !f.Local {
		c, err := f.Client(0)
		if err == nil {
			return c, c.Close, nil
		}
		if !f.orLocal || !errors.Is(err, ErrNoServer) {
			if errors.Is(err, ErrNoServer) && f.hasLocal {
				err = fmt.Errorf("%w; or --local, for turnus run on this machine", err)
			}
			return nil, nil, err
		}
	}
	c, found, end, err := localrun.Client(ctx, con)
	switch {
	case err != nil:
		return nil, nil, err
	case !f.Local && !found:
		end()
		return nil, nil, ErrNoServer
	case !f.Local:
		con.Message("no server is named: this is the record of turnus run on this machine")
	}
	return c, end, nil
}

// Table makes cmd a command that lists things of a server.
func Table[T any](con *console.Console, cmd *cobra.Command, r *Flags, list func(context.Context, *client.Client, []string) ([]T, error), head []string, cells func(*T) []string) *cobra.Command {
	ask := func(ctx context.Context, c *client.Client, args []string) (console.List[T], error) {
		all, err := list(ctx, c, args)
		return console.ListOf(all), err
	}
	return Shown(con, cmd, r, ask, func(all console.List[T]) {
		rows := [][]string{head}
		for i := range all.Items {
			rows = append(rows, cells(&all.Items[i]))
		}
		console.Table(con.Out, rows)
	})
}

// Shown makes cmd a command that asks a server for something and writes it.
func Shown[T any](con *console.Console, cmd *cobra.Command, r *Flags, ask func(context.Context, *client.Client, []string) (T, error), write func(T)) *cobra.Command {
	cmd.RunE = Run(con, r, func(ctx context.Context, c *client.Client, args []string) error {
		v, err := ask(ctx, c, args)
		if err != nil {
			return err
		}
		if con.Output == "json" {
			return console.PrintJSON(con.Out, v)
		}
		write(v)
		return nil
	})
	r.Add(cmd)
	return cmd
}

// clientOptions are the flags that certificates of clients come from, for hints.
func clientOptions() securefile.TLSHints {
	return securefile.TLSHints{CA: "--ca-file", Cert: "--cert-file and --key-file name one; turnus context set keeps them", Name: "--server https://NAME"}
}

// Reported adds what to do next to the error of a server, and chooses the exit code: what the
// server refuses is wrong input or usage, as if it had been found here.
func Reported(err error) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case errors.Is(err, client.ErrNoToken):
		return &console.Exit{Code: console.ExitInvalid, Err: fmt.Errorf("%w\nhint: give a token with --token-file FILE, or log in: turnus login. An admin makes tokens: turnus admin tokens create; the first one of turnus up is the file admin.token in its data folder. turnus context set NAME --token-file FILE keeps it", err)}
	case errors.Is(err, core.ErrNotFound) && strings.Contains(e.Detail, "\nhint: "):
		return &console.Exit{Code: console.ExitInvalid, Err: err}
	case errors.Is(err, core.ErrNotFound):
		return &console.Exit{Code: console.ExitInvalid, Err: fmt.Errorf("%w\nhint: %s", err, listOf(e))}
	case errors.Is(err, client.ErrForbidden), errors.Is(err, core.ErrConflict), errors.Is(err, core.ErrInvalid):
		if next := afterRefusal(e); next != "" {
			err = fmt.Errorf("%w\nhint: %s", err, next)
		}
		return &console.Exit{Code: console.ExitInvalid, Err: err}
	case e.Cause != nil && securefile.ExplainTLS(e.Cause, clientOptions()) != "":
		return fmt.Errorf("%w: %s", err, securefile.ExplainTLS(e.Cause, clientOptions()))
	case e.Status == 0:
		return fmt.Errorf("%w\nhint: is it running? turnus up runs one here; turnus context ls shows which server is asked", err)
	case errors.Is(err, core.ErrUnavailable) && !e.Local() && !strings.Contains(e.Detail, "\nhint: "):
		return fmt.Errorf("%w\nhint: the server may be overloaded: run the command again later. turnus admin health %s shows whether it works", err, e.Server)
	}
	return err
}

// listOf is the command that lists what was not found.
func listOf(e *client.Error) string {
	local := ""
	if e.Local() {
		local = " --local"
	}
	detail := strings.TrimPrefix(e.Detail, "there is no ")
	asked := e.What[:strings.LastIndexByte(e.What, ' ')+1] // without the name, which is of whatever words
	for _, known := range []struct{ kind, command string }{
		{"host ", "turnus hosts ls"}, {"schedule ", "turnus schedules ls"}, {"playbook ", "turnus project playbooks ls"}, {"worker ", "turnus admin workers ls"},
		{"token ", "turnus admin tokens ls"}, {"notification ", "turnus admin notifications ls"}, {"source ", "turnus inventory ls"}, {"window set ", "turnus windows approvals"},
	} {
		if strings.HasPrefix(detail, known.kind) || !strings.HasPrefix(detail, "run ") && strings.HasSuffix(asked, known.kind) {
			return known.command + " lists what there is"
		}
	}
	if id := runOf(e.What); strings.Contains(e.Detail, "no host to retry") {
		return "turnus runs show " + id + " --jobs lists its hosts with their outcomes"
	}
	return "turnus runs ls" + local + " lists the runs"
}
