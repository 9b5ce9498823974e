package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) hostsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "hosts", Short: "List hosts, their jobs, facts, config backups and pending handlers",
		Example: `  turnus hosts ls -i hosts.yaml
  turnus hosts map
  turnus hosts config diff fw1
  turnus hosts handlers ls`,
	}
	c.AddCommand(a.hostsListCmd(), a.hostsConfigCmd(), a.hostFactsCmd(), a.handlersCmd(), a.hostsMapCmd(),
		a.hostJobsCmd("history", "List what a server did on a host, newest first", (*client.Client).HostHistory),
		a.hostJobsCmd("jobs", "List what waits or runs on a host, by the tenant and the age of its run", (*client.Client).HostJobs))
	return c
}

func (a *app) hostsListCmd() *cobra.Command {
	var f inventoryFlags
	var vars bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the hosts of an inventory, as runs would see them, or those of a server",
		Long: `List the hosts of an inventory, as runs would see them. With --context or --server, list those of a
server: its project's and its sources'. turnus inventory show HOST shows all values of one host.`,
		Example: `  turnus hosts ls -i hosts.yaml
  turnus hosts ls -i hosts.ini --limit 'web*:!web3' -o json
  turnus hosts ls -i hosts.yaml --select 'host.labels.role == "firewall"' --vars
  turnus hosts ls --context prod`,
		Args: cobra.NoArgs,
	}
	here := func(ctx context.Context, _ []string) error {
		all, hosts, err := f.inv.Load(ctx)
		if err != nil {
			return err
		}
		a.Warn(all.Warnings)
		if a.Output == "json" {
			return console.PrintJSON(a.Out, console.ListOf(localrun.Shown(hosts)))
		}
		if vars {
			return a.printHostVars(hosts)
		}
		a.printHosts(core.Map(hosts, func(h core.Host) api.Host {
			address := h.Target()
			if h.SSH.Port != 0 && h.SSH.Port != 22 {
				address += ":" + strconv.Itoa(h.SSH.Port)
			}
			return api.Host{Name: h.Name, Address: address, Customer: h.Customer, Site: h.Site, Pool: h.Pool, HAGroup: h.HAGroup, Groups: h.Groups}
		}))
		return nil
	}
	there := func(ctx context.Context, server *client.Client, _ []string) error {
		for _, name := range []string{"limit", "select", "vars"} {
			if c.Flags().Changed(name) {
				return console.Invalid("--%s is for the inventory of this machine, and --context or --server names a server\nhint: leave it out; turnus inventory show HOST shows the vars of a host of a server", name)
			}
		}
		hosts, err := client.All(ctx, 0, server.Hosts)
		if err != nil {
			return err
		}
		if a.Output == "json" {
			return console.PrintJSON(a.Out, console.ListOf(hosts))
		}
		a.printHosts(hosts)
		return nil
	}
	c.RunE = a.either(&f, there, here)
	f.inv.Add(c)
	f.remote.Add(c)
	c.Flags().BoolVar(&vars, "vars", false, "also show labels and vars")
	return c
}

func (a *app) printHosts(hosts []api.Host) {
	cells := [][]string{{"HOST", "ADDRESS", "CUSTOMER", "SITE", "POOL", "HA GROUP", "GROUPS"}}
	for _, h := range hosts {
		row := []string{h.Name, cmp.Or(h.Address, h.Name), h.Customer, h.Site, h.Pool, h.HAGroup, strings.Join(h.Groups, ",")}
		cells = append(cells, core.Map(row, console.Printable)) // no name of a source makes a line of its own
	}
	console.Table(a.Out, cells)
}

func (a *app) printHostVars(hosts []core.Host) error {
	for _, h := range hosts {
		text, err := console.YAMLText(map[string]any{h.Name: map[string]any{"labels": h.Labels, "vars": h.Vars}})
		if err != nil {
			return err
		}
		fmt.Fprint(a.Out, text)
	}
	return nil
}
