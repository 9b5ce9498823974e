package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

func (a *app) sharesCmd() *cobra.Command {
	var r remote.Flags
	var now bool
	c := &cobra.Command{
		Use: "shares", Short: "Show the worker time that each tenant used in the last 24 hours, against its fair share",
		Long: `Show the worker time of host tasks that ended in the last 24 hours, by tenant. The fair share
is the worker time of all tenants, by weight among those that used any in the same hour. With
--now it is the hosts at work at this moment, and those that wait. With -o svg it is the picture
of the page of queue and workers.`,
		Example: `  turnus admin shares
  turnus admin shares --now
  turnus admin shares -o svg > shares.svg`,
		Args: cobra.NoArgs, Annotations: map[string]string{"svg": "yes"},
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			if now {
				return a.sharesNow(ctx, c)
			}
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
	c.Flags().BoolVar(&now, "now", false, "the hosts at work at this moment, and those that wait")
	return c
}

// sharesNow shows what tenants have of the workers at this moment.
func (a *app) sharesNow(ctx context.Context, c *client.Client) error {
	list, err := client.All(ctx, 0, c.Shares)
	if err != nil {
		return err
	}
	pictures.SortShares(list)
	switch a.Output {
	case "json":
		return console.PrintJSON(a.Out, console.ListOf(list))
	case "svg":
		return a.Out.Picture(pictures.SharesDocument(list, time.Now()))
	}
	rows := [][]string{{"TENANT", "WEIGHT", "AT WORK", "FAIR SHARE", "DUE", "WAITING", "OLDEST"}}
	for i := range list {
		s := &list[i]
		rows = append(rows, []string{
			pictures.Tenant(s.Tenant), strconv.Itoa(s.Weight), strconv.Itoa(s.Running), fmt.Sprintf("%.1f", s.Fair),
			strconv.Itoa(s.Due), strconv.Itoa(s.Waiting), console.Short(s.Oldest.Duration().Round(time.Second)),
		})
	}
	console.Table(a.Out, rows)
	return nil
}

func (a *app) printShares(h *api.ShareHistory) {
	rows := [][]string{{"TENANT", "WEIGHT", "HOST TASKS", "WORKER TIME", "FAIR SHARE"}}
	for i := range h.Tenants {
		t := &h.Tenants[i]
		rows = append(rows, []string{pictures.Tenant(t.Tenant), strconv.Itoa(t.Weight), strconv.Itoa(t.Hosts), pictures.Worked(t.Used), pictures.Worked(t.Fair)})
	}
	console.Table(a.Out, rows)
	if h.LeftOut > 0 {
		fmt.Fprintf(a.Out, "%s left out\n", core.Plural(h.LeftOut, "further tenant"))
	}
	if h.Partial {
		a.Message("more than 2 million host tasks ended: only the newest runs are counted")
	}
}
