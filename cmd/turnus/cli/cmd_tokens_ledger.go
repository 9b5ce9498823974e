package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/server"
)

// tokenName is the form of a token's name, as in the API.
var tokenName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+ -]{0,99}$`) })

// permissionFlags are the flags for what no role includes.
type permissionFlags struct{ exec, outside, become bool }

func (f *permissionFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.exec, "exec", false, "also run commands: turnus exec; no role includes it")
	c.Flags().BoolVar(&f.outside, "exec-outside-windows", false, "also run commands outside of the windows of their hosts; includes --exec")
	c.Flags().BoolVar(&f.become, "exec-become", false, "also run commands as root or another user: turnus exec --become; includes --exec")
}

func (f *permissionFlags) list() (all []api.Permission) {
	if f.exec || f.outside || f.become {
		all = append(all, api.PermitExec)
	}
	if f.outside {
		all = append(all, api.PermitOutside)
	}
	if f.become {
		all = append(all, api.PermitBecome)
	}
	return all
}

// roleText is the role of a token with its permissions: operator+exec.
func roleText(t api.Token) string {
	words := []string{t.Role}
	for _, p := range t.Permissions {
		words = append(words, string(p))
	}
	return strings.Join(words, "+")
}

// createTokenIn makes a token in the ledger itself: the token of a person of its own for four eyes,
// and a way back if all admin tokens are lost. A person who can write the ledger may do anything
// anyway; the audit log names this way.
func (a *app) createTokenIn(ctx context.Context, url string, keys *service.KeyringFlags, n api.NewToken) (err error) {
	if !tokenName().MatchString(n.Name) {
		return console.Invalid("the name %q: expected letters, digits, blanks and . _ @ + -, and a letter or digit first", n.Name)
	}
	wanted, err := server.TokenFor(n)
	if err != nil {
		return err
	}
	if err := service.LedgerThere(url); err != nil {
		return err
	}
	ring, err := keys.Open(a.Console)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, url, ledger.Options{Keyring: ring})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	who := "ledger"
	if u, err := user.Current(); err == nil {
		who += ": " + u.Username
	}
	secret, token, err := l.NewToken(ctx, who, wanted)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, api.Token{ID: token.ID, Name: token.Name, Tenant: n.Tenant, Role: n.Role, Permissions: n.Permissions, Created: token.Created, Secret: secret})
	}
	fmt.Fprintln(a.Out, secret)
	a.Message(fmt.Sprintf("token %s of %s: %s of tenant %s, made in the ledger; turnus admin tokens ls lists what else there is", token.ID, token.Name, roleText(api.Token{Role: n.Role, Permissions: n.Permissions}), n.Tenant))
	return nil
}
