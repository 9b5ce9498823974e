package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/bench"
)

func (a *app) adminCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "admin", Short: "Operate a service: check, back up, keys, tokens, workers, settings",
		Example: `  turnus admin health
  turnus admin doctor --ledger sqlite:turnus-data/ledger.db
  turnus admin tokens create ci --role operator`,
	}
	c.AddCommand(
		a.doctorCmd(), a.healthCmd(), a.settingsCmd(), a.keysCmd(), a.tokensCmd(), a.auditCmd(), a.exportCmd(), a.backupCmd(), a.restoreCmd(), a.pruneCmd(),
		a.queueCmd(), a.workersCmd(), a.sharesCmd(), a.notificationsCmd(), bench.Command(a.Console), a.manCmd(),
	)
	return c
}
