package cli

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/yamlread"
)

// aclDoc is the -o json document of queue acl.
type aclDoc struct {
	User     string   `json:"user"`
	Role     string   `json:"role"`
	Pools    []string `json:"pools"`
	Commands []string `json:"commands"`
	Keys     []string `json:"keys"`
	Rules    []string `json:"rules"`
	Password string   `json:"password,omitempty"`
}

func (a *app) queueACLCmd() *cobra.Command {
	var pools []string
	var user, passwordFile string
	c := &cobra.Command{
		Use: "acl ROLE", Short: "Print the Redis user with the least rights that a process needs",
		Long: `Print the command of Redis that makes the user with the least rights that a process needs.
ROLE is worker (also for turnus run --redis), server, doctor, or sentinel (the rights of all
processes at the Sentinels). The pools bound the keys; without one they are those of all pools.

Without --password-file a password is made, and printed on stderr, once. Redis keeps its hash.`,
		Example: `  turnus admin queue acl worker --pool dmz --password-file dmz.password | redis-cli --tls
  turnus admin queue acl server --password-file server.password >> users.acl`,
		Args: cobra.ExactArgs(1), ValidArgs: roleNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			doc := aclDoc{User: user, Role: args[0], Pools: pools}
			doc.User = cmp.Or(doc.User, "turnus-"+doc.Role)
			return a.queueACL(doc, passwordFile)
		},
	}
	c.Flags().StringArrayVar(&pools, "pool", nil, "pool of workers whose queue the user may use (repeatable; default: all)")
	c.Flags().StringVar(&user, "user", "", "name of the user (default: turnus-ROLE)")
	c.Flags().StringVar(&passwordFile, "password-file", "", "file with the user's password, of which only a hash is printed (default: one is made)")
	return c
}

func roleNames() []string {
	return core.Map(redisconn.Roles(), func(r redisconn.Role) string { return string(r) })
}

func (a *app) queueACL(doc aclDoc, passwordFile string) error {
	role := redisconn.Role(doc.Role)
	if !slices.Contains(redisconn.Roles(), role) {
		return console.Invalid("role %q of a Redis user, expected one of %s\nhint: %s", doc.Role, strings.Join(roleNames(), ", "), cmp.Or(yamlread.DidYouMean(doc.Role, roleNames()), "turnus admin queue acl --help shows what each is for"))
	}
	if strings.ContainsAny(doc.User, " \t\r\n\x00") {
		return console.Invalid("--user %q: expected a name without blanks", doc.User)
	}
	var password string
	if passwordFile != "" {
		var err error
		if password, err = settings.ReadTokenFile(passwordFile); err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
	} else {
		password = rand.Text()
		doc.Password = password
	}
	var err error
	if doc.Rules, err = redisconn.ACLRules(role, password, doc.Pools...); err != nil {
		return err
	}
	doc.Commands, doc.Keys = redisconn.RoleCommands(role), slices.Concat([]string{}, redisconn.RoleKeys(role, doc.Pools...))
	if doc.Pools == nil {
		doc.Pools = []string{}
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	fmt.Fprintln(a.Out, "ACL SETUSER "+doc.User+" "+strings.Join(doc.Rules, " "))
	if doc.Password != "" {
		a.Report("the password of " + doc.User + " is " + doc.Password + "; it is shown only here")
	}
	return nil
}
