package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// completeWithin bounds how long a shell waits for what a server could complete.
const completeWithin = 1500 * time.Millisecond

// Complete asks a server what an argument may be. No answer is no completion.
func Complete(f *Flags, list func(context.Context, *client.Client) ([]string, error)) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		c, end, err := f.completing(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer end()
		names, err := list(ctx, c)
		if err != nil && f.orLocal && f.Server+f.Context == "" && !f.Local { // the server of the context does not answer
			own, end, problem := ownRecord(ctx)
			if problem != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			defer end()
			names, err = list(ctx, own)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completing returns a client of the server that is named, or of the record on this machine where
// the command reads that.
func (f *Flags) completing(ctx context.Context) (*client.Client, func(), error) {
	if !f.Local {
		c, err := f.Client(time.Millisecond)
		if err == nil {
			return c, c.Close, nil
		}
		if !f.orLocal || !errors.Is(err, ErrNoServer) {
			return nil, nil, err
		}
	}
	return ownRecord(ctx)
}

// ownRecord returns a client of the record on this machine.
func ownRecord(ctx context.Context) (*client.Client, func(), error) {
	c, _, end, err := localrun.Client(ctx, console.New(strings.NewReader(""), io.Discard, io.Discard))
	return c, end, err
}

// completedRuns is how many of the newest runs are completed.
const completedRuns = 50

// RunIDs returns the newest runs.
func RunIDs(ctx context.Context, c *client.Client) ([]string, error) {
	runs, err := c.Runs(ctx, client.RunFilter{}, client.Page{Limit: completedRuns})
	return core.Map(runs.Items, func(r api.Run) string { return fmt.Sprintf("%s\t%s, %s", r.ID, r.Playbook, r.Phase) }), err
}

// CompleteFlag is Complete for the value of a flag.
func CompleteFlag(c *cobra.Command, flag string, f *Flags, list func(context.Context, *client.Client) ([]string, error)) {
	ask := Complete(f, list)
	_ = c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return ask(cmd, nil, part)
	})
}

// completedHosts is how many hosts are completed.
const completedHosts = 1000

// HostNames returns hosts.
func HostNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Hosts(ctx, client.Page{Limit: completedHosts})
	return core.Map(list.Items, func(h api.Host) string { return h.Name + "\t" + h.Customer }), err
}

// CompleteHosts completes hosts of the server that flags name, and without one those of here.
func CompleteHosts(f *Flags, here func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if f.Server+f.Context == "" {
			return here(cmd, args, part)
		}
		return Complete(f, HostNames)(cmd, args, part)
	}
}

// CompleteLaunch completes options of a launch on a server: --limit by its hosts, --tags,
// --skip-tags and -e by the playbook that name returns.
func CompleteLaunch(c *cobra.Command, f *Flags, name func(args []string) string) {
	limit := func(ctx context.Context, c *client.Client, _, part string) ([]string, error) {
		list, err := c.Hosts(ctx, client.Page{Limit: completedHosts})
		hosts := core.Map(list.Items, func(h api.Host) core.Host {
			return core.Host{Name: h.Name, Customer: h.Customer, Site: h.Site, Groups: h.Groups}
		})
		return localrun.ContinuePattern(part, hosts), err
	}
	tags := func(ctx context.Context, c *client.Client, playbook, part string) ([]string, error) {
		p, err := c.Playbook(ctx, playbook)
		return localrun.ContinueTags(part, []byte(p.Source)), err
	}
	params := func(ctx context.Context, c *client.Client, playbook, part string) ([]string, error) {
		p, err := c.Playbook(ctx, playbook)
		return localrun.ContinueParams(part, []byte(p.Source)), err
	}
	for flag, list := range map[string]func(ctx context.Context, c *client.Client, playbook, part string) ([]string, error){"limit": limit, "tags": tags, "skip-tags": tags, "extra-vars": params} {
		_ = c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			names, directive := Complete(f, func(ctx context.Context, c *client.Client) ([]string, error) { return list(ctx, c, name(args), part) })(cmd, nil, part)
			return names, directive | cobra.ShellCompDirectiveNoSpace
		})
	}
}

// Pending returns a function that lists one field of pending handlers, each value once.
func Pending(field func(api.PendingHandler) string) func(context.Context, *client.Client) ([]string, error) {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		list, err := c.Handlers(ctx, client.HandlerFilter{}, client.Page{Limit: completedHosts})
		names := core.Map(list.Items, field)
		slices.Sort(names)
		return slices.Compact(names), err
	}
}

// CompletePending completes the flags that narrow pending handlers.
func CompletePending(c *cobra.Command, f *Flags) {
	for flag, field := range map[string]func(api.PendingHandler) string{"playbook": PendingPlaybook, "host": pendingHost, "handler": pendingName} {
		if c.Flags().Lookup(flag) != nil {
			CompleteFlag(c, flag, f, Pending(field))
		}
	}
}

// PendingPlaybook returns the playbook of a pending handler.
func PendingPlaybook(h api.PendingHandler) string { return h.Playbook }
func pendingHost(h api.PendingHandler) string     { return h.Host }
func pendingName(h api.PendingHandler) string     { return h.Handler }

// CompleteRunHost completes a run, then one of its hosts.
func CompleteRunHost(f *Flags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return Complete(f, RunIDs)(cmd, args, part)
		}
		return Complete(f, func(ctx context.Context, c *client.Client) ([]string, error) {
			jobs, err := c.Jobs(ctx, args[0], client.JobFilter{}, client.Page{Limit: completedHosts})
			return core.Map(jobs.Items, func(j api.Job) string { return j.Host + "\t" + cmp.Or(string(j.Outcome), string(j.State)) }), err
		})(cmd, nil, part)
	}
}

// CompleteContexts completes the names of contexts.
func CompleteContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := settings.LoadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
