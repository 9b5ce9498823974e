package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/launch"
)

// maxPlanHosts is how many names of a wave the text form shows.
const maxPlanHosts = 200

func (a *app) planCmd() *cobra.Command {
	var p playFlags
	var plugins pluginFlags
	c := &cobra.Command{
		Use:   "plan PLAYBOOK... -i INVENTORY",
		Short: "Show what a run would do: hosts, waves, order, limits; nothing is contacted",
		Example: `  turnus plan site.yaml -i hosts.yaml
  turnus plan site.yaml -i hosts.ini --limit 'fra*' -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sup, err := plugins.supervisor(nil, nil)
			if err != nil {
				return err
			}
			_, hosts, err := p.inv.load(cmd.Context())
			if err != nil {
				return err
			}
			launches, err := p.prepare(args, hosts, sup)
			if err != nil {
				return err
			}
			for _, l := range launches {
				if a.output == "json" {
					if err := printJSON(a.out, l.Plan()); err != nil {
						return err
					}
					continue
				}
				a.writePlan(l.Plan())
			}
			return nil
		},
	}
	p.add(c)
	plugins.add(c)
	return c
}

func (a *app) writePlan(p launch.Plan) {
	fmt.Fprintf(a.out, "%s: %s in %s", a.paint(bold, p.Playbook), plural(p.Total, "host"), plural(len(p.Waves), "wave"))
	if p.MaxInFlight > 0 {
		fmt.Fprintf(a.out, ", %d at once", p.MaxInFlight)
	}
	if p.StopAfter > 0 {
		fmt.Fprintf(a.out, ", stops after %d failed", p.StopAfter)
	}
	if p.StopUnreachable > 0 {
		fmt.Fprintf(a.out, ", stops after %d unreachable", p.StopUnreachable)
	}
	if p.Pause != "" {
		fmt.Fprintf(a.out, ", between waves: %s", p.Pause)
	}
	fmt.Fprintln(a.out)
	for _, s := range p.Steps {
		mark := ""
		if !s.Selected {
			mark = "  (not selected by tags)"
		}
		fmt.Fprintf(a.out, "  step %s (%s)%s\n", s.Name, s.Uses, mark)
	}
	for _, w := range p.Waves {
		fmt.Fprintf(a.out, "wave %d: %s\n", w.Wave, plural(w.Count, "host"))
		rows := [][]string{}
		for i, h := range w.Hosts {
			if i == maxPlanHosts {
				break
			}
			rows = append(rows, []string{"  " + h.Host, h.Address, h.Customer, h.Site, h.HAGroup})
		}
		table(a.out, rows)
		if w.Count > maxPlanHosts {
			fmt.Fprintf(a.out, "  … and %d more; -o json has them all\n", w.Count-maxPlanHosts)
		}
	}
}
