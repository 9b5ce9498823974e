package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/core/client"
)

// completeWithin bounds how long a shell waits for what a server could complete.
const completeWithin = 1500 * time.Millisecond

// completion asks a server what an argument may be. No answer is no completion.
func completion(f *remoteFlags, list func(context.Context, *client.Client) ([]string, error)) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
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
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completing returns a client of the server that is named, or of the record on this machine where
// the command reads that.
func (f *remoteFlags) completing(ctx context.Context) (*client.Client, func(), error) {
	if !f.local {
		c, err := f.client(time.Millisecond)
		if err == nil {
			return c, c.Close, nil
		}
		if !f.orLocal || !errors.Is(err, errNoServer) {
			return nil, nil, err
		}
	}
	c, _, end, err := localrun.Client(ctx, console.New(strings.NewReader(""), io.Discard, io.Discard))
	return c, end, err
}

// completedRuns is how many of the newest runs are completed.
const completedRuns = 50

func runIDs(ctx context.Context, c *client.Client) ([]string, error) {
	runs, err := c.Runs(ctx, client.RunFilter{}, client.Page{Limit: completedRuns})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(runs.Items))
	for i, r := range runs.Items {
		ids[i] = fmt.Sprintf("%s\t%s, %s", r.ID, r.Playbook, r.Phase)
	}
	return ids, nil
}

// flagCompletion is completion for the value of a flag.
func flagCompletion(c *cobra.Command, flag string, f *remoteFlags, list func(context.Context, *client.Client) ([]string, error)) {
	ask := completion(f, list)
	_ = c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return ask(cmd, nil, part)
	})
}

// completedHosts is how many hosts are completed.
const completedHosts = 1000

func hostNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Hosts(ctx, client.Page{Limit: completedHosts})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i, h := range list.Items {
		names[i] = h.Name + "\t" + h.Customer
	}
	return names, nil
}

func tokenIDs(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Tokens(ctx, client.Page{Limit: 500})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range list.Items {
		if t := &list.Items[i]; t.Revoked.IsZero() {
			ids = append(ids, t.ID+"\t"+t.Name+", "+t.Role)
		}
	}
	return ids, nil
}

// completeRunHost completes a run, then one of its hosts.
func completeRunHost(f *remoteFlags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return completion(f, runIDs)(cmd, args, part)
		}
		return completion(f, func(ctx context.Context, c *client.Client) ([]string, error) {
			jobs, err := c.Jobs(ctx, args[0], client.JobFilter{}, client.Page{Limit: completedHosts})
			if err != nil {
				return nil, err
			}
			names := make([]string, len(jobs.Items))
			for i, j := range jobs.Items {
				names[i] = fmt.Sprintf("%s\t%s", j.Host, cmp.Or(string(j.Outcome), string(j.State)))
			}
			return names, nil
		})(cmd, nil, part)
	}
}
