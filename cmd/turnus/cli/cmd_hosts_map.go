package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
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
			runview.ShowFleet(a.Console, fleet)
			return nil
		}),
	}
	r.Add(c)
	c.Flags().StringVar(&customer, "customer", "", "hosts of this customer only")
	c.Flags().StringVar(&by, "by", pictures.ByGroup, "hosts that stand together: group, site or ha_group")
	return c
}
