package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ownFlags is the group of flags that one command has for itself.
const ownFlags = "Flags"

// flagGroups are the groups of flags in help, in this order. A name that ends with "-" stands for
// all flags that begin so. Short help shows the everyday flags and those of the group ownFlags.
var flagGroups = []struct {
	title            string
	everyday, seldom []string
}{
	{title: "Targeting", everyday: []string{"inventory", "limit", "select", "tags", "extra-vars", "ask", "retry-failed"}, seldom: []string{"skip-tags", "list-hosts"}},
	{title: ownFlags},
	{
		title: "Rollout", everyday: []string{"check", "diff", "forks", "max-in-flight", "timeout", "windows", "yes"},
		seldom: []string{"outside-windows", "skip-unfit", "stop-after", "needs", "disruptive", "cpu-limit", "memory-limit", "upload-rate"},
	},
	{
		title: "SSH", everyday: []string{"user", "become", "private-key", "known-hosts"},
		seldom: []string{"agent", "ask-become-pass", "become-", "host-ca", "connect-timeout", "password-", "passphrase-", "ssh-"},
	},
	{title: "Secrets", everyday: []string{"secrets"}, seldom: []string{"secrets-identity", "keyring", "keyring-accept-plain"}},
	{
		title:  "Output",
		seldom: []string{"verbose", "events", "page", "fetch-dir", "config-dir", "no-record", "log-", "otlp-endpoint", "trace-ratio", "metrics-tenants"},
	},
	{title: "Cluster", everyday: []string{"redis"}, seldom: []string{"pool", "no-worker", "scale-"}},
	{title: "Plugins", seldom: []string{"plugins", "plugin-"}},
	{title: "Server", everyday: []string{"server", "local", "reason"}, seldom: []string{"context", "token-file", "ca-file", "cert-file", "key-file"}},
	{title: "API", everyday: []string{"listen", "tls-cert", "tls-key"}, seldom: []string{"tls-client-ca", "insecure-listen", "acme-", "webhook-secret-file"}},
	{title: "Logins", seldom: []string{"oidc-"}},
	{title: "Notifications", seldom: []string{"notify", "notify-"}},
	{title: "Hosts of other systems", seldom: []string{"sources"}},
	{title: "Retention", seldom: []string{"keep-", "retention", "outputs", "outputs-quota"}},
	{title: "Metrics", seldom: []string{"metrics", "metrics-"}},
}

// groupOf returns the group of a flag, and whether short help shows the flag. -n, --limit of lists
// is a count.
func groupOf(f *pflag.Flag) (title string, everyday bool) {
	of := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return f.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(f.Name, name)
		})
	}
	for _, g := range flagGroups {
		switch {
		case f.Name == "limit" && f.Shorthand == "n":
		case of(g.everyday):
			return g.title, true
		case of(g.seldom):
			return g.title, false
		}
	}
	return ownFlags, true
}
