package cli

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

func (a *app) execCmd() *cobra.Command {
	var f localrun.RunFlags
	var command launch.Command
	var r remote.Flags
	c := &cobra.Command{
		Use:   "exec PATTERN [-i INVENTORY] -- COMMAND...",
		Short: "Run one command on hosts, and group the hosts by what it printed",
		Long: `Run one command on the hosts of a pattern, and group the hosts by what it printed: failures
first, then the smallest groups. PATTERN is what --limit of turnus run takes: names, groups,
globs, !not, &and, @FILE, or all.

One argument after -- is a shell command line. Several arguments are one command with its
arguments: each reaches the host as one word, whatever it holds.

The run is recorded and locks its hosts as those of turnus run do, with the same exit codes.

With --context or --server the server runs it on its own inventory. That takes a token with the
permission exec: turnus admin tokens create NAME --role operator --exec. The audit log has the command.
There --become takes the permission exec-become, a --reason, and passwords that the workers have.`,
		Example: `  turnus exec web -i hosts.ini -- uptime
  turnus exec all -i hosts.ini -- 'uptime | head -c 20'
  turnus exec 'web*' -i hosts.ini --become --stop-after 10% -- systemctl restart nginx
  turnus exec 'web*' --context prod --needs 1m --reason 'ticket 4711' -- uptime`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.Play.Inv.Limit, command.Line, err = execArguments(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			if err := checkExec(cmd.Flags(), &command, &f); err != nil {
				return err
			}
			if r.Server+r.Context != "" {
				return a.execRemote(cmd, &r, &command, &f)
			}
			if err := onlyRemote(cmd.Flags()); err != nil {
				return err
			}
			f.Play.Command = &command
			return localrun.Run(cmd.Context(), a.Console, nil, &f)
		},
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return f.Play.Inv.Complete(c, args, part)
	}
	f.Play.AddCommand(c)
	f.Node.Add(c)
	f.Node.Login.Add(c)
	f.Node.Login.AddBecome(c)
	f.Node.Login.AddFirstContact(c)
	f.Play.AddBecome(c)
	f.Queue.Add(c)
	r.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.Play.Reason, "reason", "", "why, in one line of at most 1000 characters: for the record of the run and the audit log of a server")
	fl.StringVar(&command.StopAfter, "stop-after", "", "failure threshold: start no more hosts after so many failed, as 5 or 10%")
	fl.DurationVar(&command.Timeout, "timeout", 0, "end the command on a host after this time")
	fl.DurationVar(&command.Needs, "needs", 0, "time that must be left in the window of a host, for hosts with a window set")
	fl.BoolVar(&command.Disruptive, "disruptive", false, "never on two hosts of an HA group at the same time")
	fl.BoolVar(&f.Outside, "outside-windows", false, "run now, whatever window sets the hosts have: an emergency")
	fl.BoolVar(&f.Play.SkipNoWindow, "skip-no-window", false, "leave out hosts that no window fits; without it such a run is refused")
	fl.BoolVar(&f.NoRecord, "no-record", false, "keep no record of the run: turnus runs and turnus logs will not know it")
	for _, r := range execRefused {
		fl.BoolP(r.flag, r.short, false, "refused")
		_ = fl.MarkHidden(r.flag)
	}
	return c
}

// execRefused are flags that people know from elsewhere, with why exec has none and what to do.
var execRefused = []struct{ flag, short, why string }{
	{"check", "C", "nobody knows what a command would change, so a dry run of it cannot report anything\nhint: use job types that have check mode in a playbook: turnus run PLAYBOOK --check --diff"},
}

// checkExec refuses flags that exec has not, and values that mean nothing.
func checkExec(fl *pflag.FlagSet, command *launch.Command, f *localrun.RunFlags) error {
	for _, r := range execRefused {
		if fl.Changed(r.flag) {
			return console.Invalid("--%s: %s", r.flag, r.why)
		}
	}
	for flag, d := range map[string]time.Duration{"timeout": command.Timeout, "needs": command.Needs} {
		if fl.Changed(flag) && d < time.Millisecond {
			return console.Invalid("--%s %v: expected a duration such as 30s", flag, d)
		}
	}
	if command.StopAfter != "" {
		if _, err := rollout.ParseSize(command.StopAfter); err != nil {
			return console.Invalid("--stop-after %s: expected a number of hosts or a share, as 5 or 10%%\nhint: turnus exec --stop-after 10%% ...", command.StopAfter)
		}
	}
	if f.Play.MaxInFlight < 0 {
		return console.Invalid("--max-in-flight %d: expected at least 1, or 0 for no limit", f.Play.MaxInFlight)
	}
	return nil
}

// execArguments returns the pattern of hosts and the command line. dash is the number of arguments
// before --, or -1.
func execArguments(args []string, dash int) (pattern, line string, err error) {
	const hint = "\nhint: turnus exec 'web*' -i hosts.ini -- uptime"
	switch {
	case dash < 0:
		return "", "", console.Invalid("turnus exec: the command must stand behind --" + hint)
	case dash == 0:
		return "", "", console.Invalid("turnus exec: no PATTERN is given: all is every host" + hint)
	case dash > 1:
		return "", "", console.Invalid("turnus exec: unexpected argument %q: one PATTERN stands before --, its parts joined by commas"+hint, args[1])
	case args[0] == "":
		return "", "", console.Invalid("turnus exec: PATTERN is empty: all is every host" + hint)
	case len(args) == dash:
		return "", "", console.Invalid("turnus exec: no COMMAND is given behind --" + hint)
	}
	return args[0], commandLine(args[1:]), nil
}

// assignment is a first word that a shell takes for a variable, not for a command.
var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`) })

// commandLine returns a shell command line: one argument as it stands, several as one word each.
func commandLine(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	line := shell.Quote(args...)
	if assignment().MatchString(args[0]) && !strings.HasPrefix(line, "'") {
		line = "'" + args[0] + "'" + strings.TrimPrefix(line, args[0])
	}
	return line
}
