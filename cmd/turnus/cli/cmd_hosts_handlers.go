package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) handlersCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "handlers", Short: "List and drop handlers that did not succeed after a change",
		Long: `List and drop handlers that did not succeed after a change. The next run of their playbook
on the host runs them, also if it changes nothing.

Those of runs on a server are kept there; --local asks for those of turnus run, which are kept on this machine.`,
		Example: `  turnus hosts handlers ls --playbook nginx
  turnus hosts handlers drop nginx --host web1
  turnus hosts handlers ls --local`,
	}
	c.AddCommand(a.handlersListCmd(), a.handlersDropCmd())
	return c
}

func (a *app) handlersListCmd() *cobra.Command {
	var r remote.Flags
	var f client.HandlerFilter
	var m most
	c := &cobra.Command{
		Use: "ls", Short: "List pending handlers, newest first", Args: cobra.NoArgs,
		Example: "  turnus hosts handlers ls\n  turnus hosts handlers ls --host web1 -o json\n  turnus hosts handlers ls --local",
	}
	c.RunE = remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.PendingHandler], error) {
			return c.Handlers(ctx, f, p)
		})
		if err != nil {
			return err
		}
		return a.listHandlers(all)
	})
	r.Add(c)
	r.AddLocal(c, true)
	m.add(c, "handlers")
	c.Flags().StringVar(&f.Playbook, "playbook", "", "only of this playbook")
	c.Flags().StringVar(&f.Host, "host", "", "only on this host")
	c.Flags().StringVar(&f.Handler, "handler", "", "only of this name")
	c.Flags().StringVar(&f.Run, "run", "", "only those that this run left")
	remote.CompletePending(c, &r)
	return c
}

func (a *app) listHandlers(all []api.PendingHandler) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, console.ListOf(all))
	}
	if len(all) == 0 {
		fmt.Fprintln(a.Out, "no handler is pending")
		return nil
	}
	cells := [][]string{{"PLAYBOOK", "HOST", "HANDLER", "SINCE", "RUN"}}
	for _, h := range all {
		cells = append(cells, []string{console.Printable(h.Playbook), console.Printable(h.Host), console.Printable(h.Handler), console.LocalTime(h.Since), h.Run})
	}
	console.Table(a.Out, cells)
	said := map[string]bool{}
	for _, h := range all {
		if text := runview.RemovedText("playbook "+h.Playbook, h.Playbook, h.Handler, h.At, ""); h.Removed && !said[text] {
			said[text] = true
			fmt.Fprintf(a.Out, "%s: %s\n", console.Printable(h.Handler), text)
		}
	}
	return nil
}

func (a *app) handlersDropCmd() *cobra.Command {
	var r remote.Flags
	var in api.DropHandlers
	c := &cobra.Command{
		Use: "drop PLAYBOOK", Short: "Forget pending handlers of a playbook", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.Pending(remote.PendingPlaybook)),
		Long: `Forget pending handlers of a playbook: those that it has no more, or on hosts where a person did
what the handler does. One call drops 1000 at most. A server's audit log names the caller.`,
		Example: "  turnus hosts handlers drop nginx --handler reload\n  turnus hosts handlers drop nginx --host web1 --local",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			in.Playbook = args[0]
			out, err := c.DropHandlers(ctx, in)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(out.Items))
			}
			fmt.Fprintf(a.Out, "%s dropped\n", core.Plural(len(out.Items), "pending handler"))
			return nil
		}),
	}
	r.Add(c)
	r.AddLocal(c, false)
	c.Flags().StringVar(&in.Host, "host", "", "only on this host")
	c.Flags().StringVar(&in.Handler, "handler", "", "only of this name")
	remote.CompletePending(c, &r)
	return c
}
