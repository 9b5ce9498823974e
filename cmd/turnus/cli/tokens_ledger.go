package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/server"
)

// tokenName is what the API takes as the name of a token, too.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+ -]{0,99}$`)

// createTokenIn makes an admin token in the ledger itself, for who has lost all that the server takes. Who can write the ledger
// may do anything anyway; the audit log says that it went this way.
func (a *app) createTokenIn(ctx context.Context, url string, keys *keyringFlags, n api.NewToken) (err error) {
	if n.Role != string(server.Admin) || n.Tenant != "*" || n.Expires != "" {
		return invalid("--ledger makes admin tokens of all tenants only: with such a one ask the server for others\nhint: turnus tokens create NAME --role admin --ledger URL")
	}
	if !tokenName.MatchString(n.Name) {
		return invalid("the name %q: expected letters, digits, blanks and . _ @ + -, and a letter or digit first", n.Name)
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil { // opening would make an empty one
			return invalid("there is no ledger: %v", err)
		}
	}
	ring, err := keys.open(a)
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
	secret, token, err := l.NewToken(ctx, who, ledger.Token{Name: n.Name, AllTenants: true, Roles: []string{n.Role}})
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.out, api.Token{ID: token.ID, Name: token.Name, Tenant: n.Tenant, Role: n.Role, Created: token.Created, Secret: secret})
	}
	fmt.Fprintln(a.out, secret)
	a.message(fmt.Sprintf("token %s of %s: admin of tenant *, made in the ledger; turnus tokens ls lists what else there is", token.ID, token.Name))
	return nil
}
