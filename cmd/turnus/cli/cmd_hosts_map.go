package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

func (a *app) hostsMapCmd() *cobra.Command {
	var r remote.Flags
	var customer, by string
	c := &cobra.Command{
		Use:   "map",
		Short: "Show the last outcome of each host of a server, as letters or as a picture",
		Long: `Show the last outcome of each host of a server's inventory, by customer and group: a
letter a host, or with -o svg the picture of the page Fleet.`,
		Example: `  turnus hosts map
  turnus hosts map --by site --customer acme
  turnus hosts map -o svg > fleet.svg`,
		Args: cobra.NoArgs, Annotations: map[string]string{"svg": "yes"},
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			if !slices.Contains([]string{pictures.ByGroup, pictures.BySite, pictures.ByHAGroup}, by) {
				return console.Invalid("--by %s: expected group, site or ha_group", by)
			}
			all, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.FleetHost], error) {
				return c.Fleet(ctx, customer, p)
			})
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(all))
			}
			fleet := pictures.Fleet(pictures.Hosts(all, by))
			if a.Output == "svg" {
				return a.Out.Picture(pictures.FleetDocument(fleet, time.Now()))
			}
			a.printMap(fleet)
			return nil
		}),
	}
	r.Add(c)
	c.Flags().StringVar(&customer, "customer", "", "hosts of this customer only")
	c.Flags().StringVar(&by, "by", pictures.ByGroup, "hosts that stand together: group, site or ha_group")
	return c
}

// mapColumns is how many letters of a group are in a line.
const mapColumns = 60

// printMap prints a letter a host, and what the letters mean.
func (a *app) printMap(fleet []pictures.Customer) {
	rows := [][]string{{"CUSTOMER", "GROUP", "HOSTS", "LAST OUTCOMES"}}
	var hosts []pictures.Host
	for _, c := range fleet {
		for _, g := range c.Groups {
			hosts = append(hosts, g.Hosts...)
			first := []string{pictures.Named(c.Name), pictures.Named(g.Name), fmt.Sprint(len(g.Hosts))}
			for part := range slices.Chunk(g.Hosts, mapColumns) {
				var letters strings.Builder
				for _, h := range part {
					letters.WriteString(pictures.Letter(string(h.Outcome)))
				}
				rows = append(rows, append(first, letters.String()))
				first = []string{"", "", ""}
			}
		}
	}
	console.Table(a.Out, rows)
	var legend []string
	for _, c := range pictures.Counts(hosts) {
		legend = append(legend, fmt.Sprintf("%s %d %s", pictures.Letter(string(c.Outcome)), c.Hosts, c.Word()))
	}
	if len(legend) == 0 {
		legend = []string{"the server's inventory has no such hosts"}
	}
	fmt.Fprintln(a.Out, strings.Join(legend, ", "))
}
