package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

func (a *app) sharesCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "shares", Short: "Show the worker time that each tenant used in the last 24 hours, against its fair share",
		Long: `Show the worker time of host tasks that ended in the last 24 hours, by tenant. The fair share
is the worker time of all tenants, by weight among those that used any in the same hour. With
-o svg it is the picture of the page of queue and workers, hour by hour.`,
		Example: `  turnus admin shares
  turnus admin shares -o svg > shares.svg`,
		Args: cobra.NoArgs, Annotations: map[string]string{"svg": "yes"},
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			h, err := c.ShareHistory(ctx)
			if err != nil {
				return err
			}
			switch a.Output {
			case "json":
				return console.PrintJSON(a.Out, h)
			case "svg":
				return a.Out.Picture(pictures.ShareHistoryDocument(&h))
			}
			a.printShares(&h)
			return nil
		}),
	}
	r.Add(c)
	return c
}

func (a *app) printShares(h *api.ShareHistory) {
	rows := [][]string{{"TENANT", "WEIGHT", "HOST TASKS", "WORKER TIME", "FAIR SHARE"}}
	for i := range h.Tenants {
		t := &h.Tenants[i]
		rows = append(rows, []string{pictures.Tenant(t.Tenant), strconv.Itoa(t.Weight), strconv.Itoa(t.Hosts), pictures.Worked(t.Used), pictures.Worked(t.Fair)})
	}
	console.Table(a.Out, rows)
	if h.LeftOut > 0 {
		fmt.Fprintf(a.Out, "%s left out\n", console.Plural(h.LeftOut, "further tenant"))
	}
	if h.Partial {
		a.Message("more than 2 million host tasks ended: only the newest runs are counted")
	}
}
