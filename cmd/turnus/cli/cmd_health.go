package cli

import (
	"cmp"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/service"
)

func (a *app) healthCmd() *cobra.Command {
	var f service.HealthFlags
	c := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask a server or a worker whether it does its work",
		Long: `Ask a server or a worker whether it does its work (GET /healthz), or, with --ready,
whether it takes any (GET /readyz): for the health check of a container, which has no other
program to ask with. Without a URL, that of TURNUS_HEALTH or the process that holds the
data folder is asked, over the address that it listens on. It exits with 0, with 1 for what
does not answer or refuses, and with 5 for wrong usage.`,
		Example: `  turnus admin health --data /var/lib/turnus
  turnus admin health http://127.0.0.1:9470 --ready`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Ask(cmd.Context(), a.Console, cmp.Or(strings.Join(args, ""), os.Getenv("TURNUS_HEALTH")))
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Data, "data", "turnus-data", "data folder of the process that is asked")
	fl.BoolVar(&f.Ready, "ready", false, "ask whether it takes work")
	fl.StringVar(&f.Files.CA, "ca-file", "", "certificates, in PEM, of the certificate authority that signed the certificate at the URL")
	fl.StringVar(&f.Files.Cert, "cert-file", "", "certificate, in PEM, where the process asks for one (--tls-client-ca, --metrics-client-ca)")
	fl.StringVar(&f.Files.Key, "key-file", "", "its key, in PEM")
	return c
}
