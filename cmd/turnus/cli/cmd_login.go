package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/client"
)

func (a *app) loginCmd() *cobra.Command {
	var f remote.LoginFlags
	c := &cobra.Command{
		Use: "login", Short: "Log in to a server by its OpenID provider, and keep the session in a context", Args: cobra.NoArgs,
		Long: `Log in to a server by its OpenID provider, and keep the session in a context. The session
ends after the time that the server sets (8 hours), or with turnus logout.

Shows an address and a code, which are opened on any device. With --browser, or where the
provider knows no codes, a browser on this machine is sent there and comes back.`,
		Example: `  turnus login --server https://turnus.example.net --as prod
  turnus login --context prod --browser`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return a.login(ctx, &f)
		},
	}
	f.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.Name, "as", "", "name of the context to keep (default: the one that is asked, or the server's host)")
	fl.StringVar(&f.ProviderCA, "oidc-ca-file", "", "certificates, in PEM, of the certificate authority that signed the provider's")
	fl.BoolVar(&f.Browser, "browser", false, "log in with a browser on this machine instead of a code")
	return c
}

func (a *app) login(ctx context.Context, f *remote.LoginFlags) error {
	session, name, err := f.Login(ctx, a.Console)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, session)
	}
	a.Message(fmt.Sprintf("%s: %s of tenant %s, until %s; context %s", console.Printable(session.Name), session.Role, session.Tenant, console.LocalTime(session.Expires), name))
	return nil
}

func (a *app) logoutCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "logout", Short: "End the session of a login, on the server and in the context", Args: cobra.NoArgs, Example: "  turnus logout\n  turnus logout --context prod",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			ended, err := c.Logout(ctx)
			if err != nil && !errors.Is(err, client.ErrNoToken) { // it had ended before
				return err
			}
			if err := r.ForgetLogin(); err != nil {
				return err
			}
			if a.Output == "json" {
				return json.NewEncoder(a.Out).Encode(ended) //nolint:gosec // what has ended has no secret
			}
			a.Message("logged out of " + c.Server())
			return nil
		}),
	}
	r.Add(c)
	return c
}
