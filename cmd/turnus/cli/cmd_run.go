package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/localrun"
)

func (a *app) runCmd() *cobra.Command {
	var f localrun.RunFlags
	c := &cobra.Command{
		Use:   "run PLAYBOOK... -i INVENTORY",
		Short: "Run playbooks on hosts now, and follow them to the end",
		Long: `Run playbooks on hosts now, and follow them to the end. Several playbooks run at
the same time and share the workers fairly.

Ctrl-C lets running jobs finish and starts no more; a second one cancels them.
Exit codes: 0 all well; 1 a fault of Turnus or its surroundings; 2 some host failed, was rolled back
or lost; 3 cancelled; 4 some host unreachable, none failed; 5 wrong input or usage.`,
		Example: `  turnus run site.yaml -i hosts.yaml
  turnus run site.yaml -i hosts.ini --limit 'web*' --check --diff
  turnus run site.yaml -i hosts.yaml -e version=1.4 -f 50 -o json > result.json
  turnus run site.yaml -i hosts.yaml --retry-failed
  turnus run site.yaml -i hosts.yaml --page          # watch it in a browser
  turnus run site.yaml -i hosts.yaml --redis rediss://queue:6379/0   # other nodes take part`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return localrun.Run(cmd.Context(), a.Console, args, &f) },
	}
	f.Play.Add(c)
	f.Node.Add(c)
	f.Node.Login.Add(c)
	f.Node.Login.AddBecome(c)
	f.Node.Login.AddFirstContact(c)
	f.Play.AddBecome(c)
	f.Play.AddAsk(c, a.Console)
	f.Queue.Add(c)
	c.Flags().BoolVar(&f.Events, "events", false, "write every event to stdout as it happens, a JSON line each")
	c.Flags().BoolVarP(&f.Yes, "yes", "y", false, "approve every wave")
	c.Flags().BoolVar(&f.ListHosts, "list-hosts", false, "list the hosts of the run and end")
	c.Flags().BoolVar(&f.Outside, "outside-windows", false, "run now, whatever windows a playbook asks for: an emergency")
	c.Flags().BoolVar(&f.Play.SkipNoWindow, "skip-no-window", false, "leave out hosts that no window fits; without it such a run is refused")
	c.Flags().BoolVar(&f.NoRecord, "no-record", false, "keep no record of the run: turnus runs and --retry-failed will not know it, and pending handlers are neither run nor kept")
	c.Flags().BoolVar(&f.Page, "page", false, "serve the page of the run to a browser of this machine, and print a link that logs in once")
	c.Flags().BoolVar(&f.NoWorker, "no-worker", false, "with --redis: leave all work to other nodes")
	return c
}
