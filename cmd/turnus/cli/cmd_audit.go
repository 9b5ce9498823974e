package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/windows"
)

func (a *app) auditCmd() *cobra.Command {
	var r remote.Flags
	var f client.AuditFilter
	var m most
	var since, until string
	c := &cobra.Command{
		Use: "audit", Short: "List who changed what on a server, newest first", Args: cobra.NoArgs,
		Example: `  turnus admin audit --object 20261120-021500-ab3cd5ef
  turnus admin audit --who alice --since 2026-11-01T00:00:00Z -o json      # with before and after`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if since != "" {
				if f.Since, err = instantFlag("--since", since, time.Local); err != nil {
					return err
				}
			}
			if until != "" {
				if f.Until, err = instantFlag("--until", until, time.Local); err != nil {
					return err
				}
			}
			entries, err := client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.Entry], error) { return c.Audit(ctx, f, p) })
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(entries))
			}
			cells := [][]string{{"TIME", "WHO", "WHAT", "OBJECT", "TENANT"}}
			for _, e := range entries {
				cells = append(cells, []string{console.LocalTime(e.Time), console.Printable(e.Who), e.What, console.Printable(e.Object), e.Tenant})
			}
			console.Table(a.Out, cells)
			return nil
		}),
	}
	r.Add(c)
	m.add(c, "entries")
	c.Flags().StringVar(&f.Who, "who", "", "only of this token's name")
	c.Flags().StringVar(&f.What, "what", "", "only this action, as run.cancel")
	c.Flags().StringVar(&f.Kind, "kind", "", "only about things of this kind, as run")
	c.Flags().StringVar(&f.Object, "object", "", "only about this thing: a run's id, a schedule's name")
	c.Flags().StringVar(&since, "since", "", "from this time on: RFC 3339, or local time as 2026-11-01T22:00 or 2026-11-01")
	c.Flags().StringVar(&until, "until", "", "before this time")
	return c
}

func (a *app) tokensCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "tokens", Short: "Make, list and revoke the tokens by which people and pipelines ask a server",
		Example: `  turnus admin tokens create ci --role operator --tenant acme --expires 90d > ci.token
  turnus admin tokens ls`,
	}
	c.AddCommand(a.tokensCreateCmd(), a.tokensListCmd(), a.tokensRevokeCmd())
	return c
}

func (a *app) tokensCreateCmd() *cobra.Command {
	var r remote.Flags
	var n api.NewToken
	var inLedger, expires string
	var keys service.KeyringFlags
	var permissions permissionFlags
	c := &cobra.Command{
		Use: "create NAME --role ROLE", Short: "Make a token and print its secret to stdout, once", Args: cobra.ExactArgs(1),
		Long: `Make a token and print its secret to stdout, once.

  viewer    reads
  operator  reads; runs, cancels and schedules
  approver  reads; approves windows, and runs that others launched
  admin     all of it; makes tokens and applies projects
  worker    uploads outputs (turnus worker --server), and reads nothing

No role includes turnus exec: --exec, --exec-outside-windows and --exec-become give that to an
operator or an admin.

For four eyes a token counts as the person who made it.

--ledger makes a token in the ledger itself, without a server. That token counts as a person of
its own. Use it if all admin tokens are lost.`,
		Example: `  turnus admin tokens create alice --role operator --tenant acme --expires 90d > alice.token
  turnus admin tokens create bob --role operator --tenant acme --exec > bob.token
  turnus admin tokens create "worker 7" --role worker > worker.token
  turnus admin tokens create ann --role admin --ledger sqlite:turnus-data/ledger.db > admin.token`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			n.Name, n.Permissions = args[0], permissions.list()
			token, err := c.CreateToken(ctx, n)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, token)
			}
			fmt.Fprintln(a.Out, token.Secret)
			a.Message(fmt.Sprintf("token %s of %s: %s of tenant %s", token.ID, token.Name, roleText(token), token.Tenant))
			return nil
		}),
	}
	r.Add(c)
	c.Flags().StringVar(&n.Role, "role", "", "viewer, operator, approver, admin or worker")
	c.Flags().StringVar(&n.Tenant, "tenant", "*", "tenant whose things it reaches; * is all")
	c.Flags().StringVar(&expires, "expires", "", "how long it holds, as 12h or 90d (default: until it is revoked)")
	c.Flags().StringVar(&inLedger, "ledger", "", "make the token in the ledger itself, without a server: sqlite:PATH or postgres://…")
	permissions.add(c)
	keys.AddFile(c)
	ask := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if expires != "" {
			d, err := windows.ParseDuration(expires)
			if err != nil {
				return console.Invalid("--expires: %w", err)
			}
			n.Expires = core.InSeconds(d)
		}
		if inLedger == "" {
			return ask(cmd, args)
		}
		n.Name, n.Permissions = args[0], permissions.list()
		return a.createTokenIn(cmd.Context(), inLedger, &keys, n)
	}
	needs(c, "role")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "approver", "admin", "worker"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) tokensListCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "ls", Short: "List tokens, without their secrets", Args: cobra.NoArgs, Example: "  turnus admin tokens ls",
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Token, error) {
		return client.All(ctx, 0, c.Tokens)
	}
	return remote.Table(a.Console, c, &r, list, []string{"TOKEN", "NAME", "TENANT", "ROLE", "CREATED", "EXPIRES", "LAST USED", "STATE"}, func(t *api.Token) []string {
		state := "holds"
		switch {
		case !t.Revoked.IsZero():
			state = "revoked"
		case !t.Expires.IsZero() && t.Expires.Before(time.Now()):
			state = "expired"
		}
		return []string{t.ID, t.Name, t.Tenant, roleText(*t), console.LocalTime(t.Created), console.LocalTime(t.Expires), console.LocalTime(t.LastUsed), state}
	})
}

func (a *app) tokensRevokeCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "revoke TOKEN", Short: "End a token's right, by its id", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, tokenIDs), Example: "  turnus admin tokens revoke tok_4f2a",
	}
	ask := func(ctx context.Context, c *client.Client, args []string) (api.Token, error) {
		return c.RevokeToken(ctx, args[0])
	}
	return remote.Shown(a.Console, c, &r, ask, func(t api.Token) { fmt.Fprintf(a.Out, "%s of %s is revoked\n", t.ID, t.Name) })
}

func tokenIDs(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Tokens(ctx, client.Page{Limit: 500})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range list.Items {
		if t := &list.Items[i]; t.Revoked.IsZero() {
			ids = append(ids, t.ID+"\t"+t.Name+", "+t.Role)
		}
	}
	return ids, nil
}
