package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/launch"
)

// execFlags are the flags of exec that a server takes.
var execFlags = []string{"stop-after", "timeout", "needs", "disruptive", "outside-windows", "skip-no-window", "max-in-flight", "become", "become-user", "reason"}

// remoteNames are the flags of exec that select a server.
var remoteNames = []string{"server", "context", "token-file", "ca-file", "cert-file", "key-file"}

// newExec returns what a server is asked for.
func newExec(c *launch.Command, f *localrun.RunFlags) (api.NewExec, error) {
	become, err := f.Play.BecomeRule()
	n := api.NewExec{
		Command: c.Line, Timeout: core.InSeconds(c.Timeout), Needs: core.InSeconds(c.Needs), StopAfter: c.StopAfter, Disruptive: c.Disruptive, MaxInFlight: f.Play.MaxInFlight,
		SkipNoWindow: f.Play.SkipNoWindow, OutsideWindows: f.Outside, Reason: f.Play.Reason,
	}
	if become != nil {
		n.Become, n.BecomeUser = &become.On, become.User
	}
	return n, err
}

// execRemote has a server run a command on the hosts of a pattern, and follows the run to its end.
func (a *app) execRemote(cmd *cobra.Command, r *remote.Flags, command *launch.Command, f *localrun.RunFlags) error {
	if err := onlyLocal(cmd); err != nil {
		return err
	}
	n, err := newExec(command, f)
	if err != nil {
		return err
	}
	if strings.TrimSpace(n.Reason) == "" {
		for _, f := range []struct {
			flag  string
			needs bool
		}{{"outside-windows", n.OutsideWindows}, {"become", n.Become != nil && *n.Become}} {
			if f.needs {
				return console.Invalid("--%s: no reason is given, and the audit log of the server needs one\nhint: --reason 'ticket 4711'", f.flag)
			}
		}
	}
	return remote.Run(a.Console, r, func(ctx context.Context, c *client.Client, _ []string) (err error) {
		if n.Limit, err = remote.LimitParts(f.Play.Inv.Limit); err != nil {
			return err
		}
		run, err := c.Exec(ctx, onceKey(), n)
		if err != nil {
			return err
		}
		a.Message(run.ID + " is accepted")
		return runview.WatchExec(ctx, a.Console, c, run.ID)
	})(cmd, nil)
}

// onlyLocal refuses flags about how this machine reaches hosts: a server has its own inventory,
// logins and workers.
func onlyLocal(cmd *cobra.Command) error {
	server := map[string]bool{}
	for _, names := range [][]string{execFlags, remoteNames} {
		for _, name := range names {
			server[name] = true
		}
	}
	var refused error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !server[f.Name] && refused == nil && cmd.InheritedFlags().Lookup(f.Name) == nil {
			refused = console.Invalid("--%s is for a command that this machine runs, and --context or --server names a server, which has its own inventory and workers\nhint: leave out --%s", f.Name, f.Name)
		}
	})
	return refused
}

// onlyRemote refuses flags that mean something to a server only.
func onlyRemote(fl *pflag.FlagSet) error {
	for _, name := range remoteNames {
		if fl.Changed(name) {
			return console.Invalid("--%s is for a server, and none is named\nhint: --context NAME or --server URL has a server run the command; turnus context ls lists contexts", name)
		}
	}
	return nil
}
