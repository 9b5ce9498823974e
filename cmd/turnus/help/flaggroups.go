package help

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ownFlags is the group of flags that one command has for itself.
const ownFlags = "Flags"

// FlagGroups are the groups of flags in help, in this order. A name that ends with "-" stands for
// all flags that begin so. Short help shows the everyday flags and those of the group ownFlags.
var FlagGroups = []struct {
	Title            string
	Everyday, Seldom []string
}{
	{Title: "Targeting", Everyday: []string{"inventory", "limit", "select", "tags", "extra-vars", "ask", "retry-failed"}, Seldom: []string{"skip-tags", "list-hosts"}},
	{Title: ownFlags},
	{
		Title: "Rollout", Everyday: []string{"check", "diff", "forks", "max-in-flight", "timeout", "windows", "yes"},
		Seldom: []string{"outside-windows", "skip-no-window", "stop-after", "needs", "disruptive", "cpu-limit", "memory-limit", "upload-rate"},
	},
	{
		Title: "SSH", Everyday: []string{"user", "become", "ask-become-pass", "private-key", "known-hosts"},
		Seldom: []string{"agent", "become-", "host-ca", "first-contact", "connect-timeout", "password-", "passphrase-", "ssh-"},
	},
	{Title: "Secrets", Everyday: []string{"secrets"}, Seldom: []string{"secrets-identity", "keyring", "keyring-accept-plain"}},
	{
		Title:  "Output",
		Seldom: []string{"verbose", "events", "page", "fetch-dir", "config-dir", "no-record", "log-", "otlp-endpoint", "trace-ratio", "metrics-tenants"},
	},
	{Title: "Cluster", Everyday: []string{"redis"}, Seldom: []string{"pool", "no-worker", "scale-"}},
	{Title: "Plugins", Seldom: []string{"plugins", "plugin-"}},
	{Title: "Server", Everyday: []string{"server", "local", "reason"}, Seldom: []string{"context", "token-file", "ca-file", "cert-file", "key-file"}},
	{Title: "API", Everyday: []string{"listen", "tls-cert", "tls-key"}, Seldom: []string{"tls-client-ca", "insecure-listen", "acme-", "webhook-secret-file"}},
	{Title: "Logins", Seldom: []string{"oidc-"}},
	{Title: "Notifications", Seldom: []string{"notify", "notify-"}},
	{Title: "Hosts of other systems", Seldom: []string{"sources"}},
	{Title: "Retention", Seldom: []string{"keep-", "retention", "outputs", "outputs-quota"}},
	{Title: "Metrics", Seldom: []string{"metrics", "metrics-"}},
}

// GroupOf returns the group of a flag, and whether short help shows the flag. -n, --limit of lists
// is a count, a --check without -C is no dry run, and other commands have a --from of their own.
func GroupOf(f *pflag.Flag) (title string, everyday bool) {
	of := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return f.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(f.Name, name)
		})
	}
	if strings.HasPrefix(f.Usage, "with --retry-failed, ") {
		return FlagGroups[0].Title, false
	}
	for _, g := range FlagGroups {
		switch {
		case f.Name == "limit" && f.Shorthand == "n", f.Name == "check" && f.Shorthand == "":
		case of(g.Everyday):
			return g.Title, true
		case of(g.Seldom):
			return g.Title, false
		}
	}
	return ownFlags, true
}
