package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/lab"
)

func (a *app) demoCmd() *cobra.Command {
	var hosts int
	var seed uint64
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run two playbooks on a fleet of simulated SSH hosts; nothing to install",
		Long: `Run two playbooks on a fleet of simulated SSH hosts on loopback: a big run in waves,
and a small urgent one that starts while the big one is under way. Each host is a real SSH server
with its own key and name; a few fail, hang, are slow, or have changed their key.
Exits 0 when every host ended as planned, the failing ones included.`,
		Example: "  turnus demo\n  turnus demo --hosts 200",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hosts < 40 || hosts > 20_000 {
				return console.Invalid("--hosts %d: expected 40 to 20000", hosts)
			}
			return lab.Demo(cmd.Context(), a.Console, hosts, seed)
		},
	}
	c.Flags().IntVar(&hosts, "hosts", 3000, "size of the fleet")
	c.Flags().Uint64Var(&seed, "seed", 1, "another seed is another fleet")
	return c
}
