package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/core"
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
	var inv localrun.InventoryFlags
	var vars bool
	c := &cobra.Command{
		Use:   "ls -i INVENTORY",
		Short: "List the hosts of an inventory, as runs would see them",
		Example: `  turnus hosts ls -i hosts.yaml
  turnus hosts ls -i hosts.ini --limit 'web*:!web3' -o json
  turnus hosts ls -i hosts.yaml --select 'host.labels.role == "firewall"' --vars`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, hosts, err := inv.Load(cmd.Context())
			if err != nil {
				return err
			}
			for _, w := range all.Warnings {
				fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+w)
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(localrun.Shown(hosts)))
			}
			if vars {
				return a.printHostVars(hosts)
			}
			cells := [][]string{{"HOST", "ADDRESS", "CUSTOMER", "SITE", "POOL", "HA GROUP", "GROUPS"}}
			for _, h := range hosts {
				address := h.Target()
				if h.SSH.Port != 0 && h.SSH.Port != 22 {
					address += ":" + strconv.Itoa(h.SSH.Port)
				}
				cells = append(cells, []string{h.Name, address, h.Customer, h.Site, h.Pool, h.HAGroup, strings.Join(h.Groups, ",")})
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
	inv.Add(c)
	c.Flags().BoolVar(&vars, "vars", false, "also show labels and vars")
	return c
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
