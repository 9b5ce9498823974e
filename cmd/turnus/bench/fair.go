package bench

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/bench/queuebench"
	"github.com/turnus/turnus/cmd/turnus/console"
)

func benchFairCmd(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "fair",
		Short: "First come first served, the classic reordering pass, and Turnus side by side",
		Long: `Three contests for workers under three policies, in virtual time: first come first
served, the classic pass that reorders the overdue part of one sorted set, and the queue of Turnus.`,
		Example: "  turnus admin bench fair\n  turnus admin bench fair -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results, err := queuebench.Fair(cmd.Context(), queuebench.Scenarios())
			if err != nil {
				return err
			}
			if con.Output == "json" {
				return console.PrintJSON(con.Out, console.ListOf(results))
			}
			scenario := ""
			var rows [][]string
			flush := func() {
				if len(rows) > 0 {
					console.Table(con.Out, rows)
					fmt.Fprintln(con.Out)
				}
			}
			for _, r := range results {
				if r.Scenario != scenario {
					flush()
					scenario = r.Scenario
					fmt.Fprintf(con.Out, "%s (%s)\n", con.Paint(console.Bold, r.Scenario), fmt.Sprintf("concurrency %d", r.Concurrency))
					rows = [][]string{{"  POLICY", "WHO", "DONE", "TOOK", "LATER THAN ALONE", "WORKER TIME SHARE", "JAIN"}}
				}
				for _, p := range r.Parties {
					took, later := "-", "-"
					if p.Took > 0 {
						took, later = console.Short(p.Took.Duration()), fmt.Sprintf("%.1f %%", 100*p.Later)
					}
					rows = append(rows, []string{"  " + r.Policy, p.Name, fmt.Sprint(p.Done), took, later, fmt.Sprintf("%.1f %%", 100*p.Share), fmt.Sprintf("%.3f", r.Jain)})
				}
			}
			flush()
			return nil
		},
	}
}
