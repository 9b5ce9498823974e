package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) handlersCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "handlers", Short: "List and drop handlers that did not succeed after a change",
		Long: `List and drop handlers that did not succeed after a change. The next run of their playbook
on the host runs them, also if it changes nothing.

Those of runs on a server are kept there; --local asks for those of turnus run, which are kept on this machine.`,
		Example: `  turnus handlers ls --playbook nginx
  turnus handlers drop nginx --host web-17
  turnus handlers ls --local`,
	}
	c.AddCommand(a.handlersListCmd(), a.handlersDropCmd())
	return c
}

// orLocal adds to the error of a command that found no server that handlers of turnus run need none.
func orLocal(err error) error {
	if errors.Is(err, errNoServer) {
		return fmt.Errorf("%w; or --local, for the handlers of turnus run on this machine", err)
	}
	return err
}

func matches(f client.HandlerFilter) func(api.PendingHandler) bool {
	return func(h api.PendingHandler) bool {
		for _, eq := range [][2]string{{f.Playbook, h.Playbook}, {f.Host, h.Host}, {f.Handler, h.Handler}, {f.Run, h.Run}} {
			if eq[0] != "" && eq[0] != eq[1] {
				return false
			}
		}
		return true
	}
}

func (a *app) handlersListCmd() *cobra.Command {
	var r remoteFlags
	var f client.HandlerFilter
	var m most
	var local bool
	ask := a.remote(&r, func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.PendingHandler], error) {
			return c.Handlers(ctx, f, p)
		})
		if err != nil {
			return err
		}
		return a.listHandlers(all)
	})
	c := &cobra.Command{
		Use: "ls", Short: "List pending handlers, newest first", Args: cobra.NoArgs,
		Example: "  turnus handlers ls\n  turnus handlers ls --host web-17 -o json\n  turnus handlers ls --local",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !local {
				return orLocal(ask(cmd, args))
			}
			all, err := localrun.LocalHandlers()
			if err != nil {
				return err
			}
			match := matches(f)
			return a.listHandlers(slices.DeleteFunc(all, func(h api.PendingHandler) bool { return !match(h) }))
		},
	}
	r.add(c)
	m.add(c, "handlers")
	c.Flags().StringVar(&f.Playbook, "playbook", "", "only of this playbook")
	c.Flags().StringVar(&f.Host, "host", "", "only on this host")
	c.Flags().StringVar(&f.Handler, "handler", "", "only of this name")
	c.Flags().StringVar(&f.Run, "run", "", "only those that this run left")
	c.Flags().BoolVar(&local, "local", false, "those of turnus run on this machine, not of a server")
	return c
}

func (a *app) listHandlers(all []api.PendingHandler) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, all)
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
	return nil
}

func (a *app) handlersDropCmd() *cobra.Command {
	var r remoteFlags
	var in api.DropHandlers
	var local bool
	ask := a.remote(&r, func(ctx context.Context, c *client.Client, _ []string) error {
		out, err := c.DropHandlers(ctx, in)
		if err != nil {
			return err
		}
		return a.showDropped(out.Items)
	})
	c := &cobra.Command{
		Use: "drop PLAYBOOK", Short: "Forget pending handlers of a playbook", Args: cobra.ExactArgs(1),
		Long: `Forget pending handlers of a playbook: those that it has no more, or on hosts where a person did
what the handler does. A server drops at most 1000 at once, and its audit log says who did it.`,
		Example: "  turnus handlers drop nginx --handler reload\n  turnus handlers drop nginx --host web-17 --local",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Playbook = args[0]
			if !local {
				return orLocal(ask(cmd, args))
			}
			var dropped []api.PendingHandler
			match := matches(client.HandlerFilter{Playbook: in.Playbook, Host: in.Host, Handler: in.Handler})
			err := localrun.ChangeHandlers(in.Playbook, func(doc *localrun.HandlersDoc) {
				doc.Drop(func(h api.PendingHandler) bool {
					if match(h) {
						dropped = append(dropped, h)
						return true
					}
					return false
				})
			})
			if err != nil {
				return err
			}
			if len(dropped) == 0 {
				return console.Invalid("no such handler of playbook %s is pending here\nhint: turnus handlers ls --local lists them", in.Playbook)
			}
			return a.showDropped(dropped)
		},
	}
	r.add(c)
	c.Flags().StringVar(&in.Host, "host", "", "only on this host")
	c.Flags().StringVar(&in.Handler, "handler", "", "only of this name")
	c.Flags().BoolVar(&local, "local", false, "those of turnus run on this machine, not of a server")
	return c
}

func (a *app) showDropped(all []api.PendingHandler) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, all)
	}
	fmt.Fprintf(a.Out, "%s dropped\n", console.Plural(len(all), "pending handler"))
	return nil
}
