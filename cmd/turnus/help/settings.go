package help

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SettingsPage returns the Markdown page about the settings of services. variable returns the
// environment's name of a flag, and "" if the flag is no setting. A setting that differs between
// services has a row for each of them.
func SettingsPage(root *cobra.Command, services []*cobra.Command, variable func(*pflag.Flag) string) string {
	type row struct{ group, name, cells, of string }
	var rows []row
	for _, c := range services {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || variable(f) == "" {
				return
			}
			title, _ := GroupOf(f)
			r := row{title, f.Name, "`" + variable(f) + "` | " + defaultAndMeaning(root, f), c.Name()}
			at := slices.IndexFunc(rows, func(s row) bool { return s.name == r.name && s.cells == r.cells })
			if at >= 0 {
				rows[at].of += ", " + r.of
				return
			}
			rows = append(rows, r)
		})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("# Settings of a service\n\nShow the settings of a service, and where each comes from:\n\n" +
		"```sh\nturnus admin settings show up\nturnus admin settings check server --config /etc/turnus/server.yaml\n```\n\n" +
		wrapped("`turnus up`, `turnus server` and `turnus worker` read a setting from a flag (`--listen`), a variable (`TURNUS_LISTEN`), "+
			"or a key of the YAML file of `--config` (`listen`). The first one found wins: "+
			"[commands.md](../commands.md#settings-of-a-service). `make generate` makes this page from the flags.") + "\n")
	for _, g := range FlagGroups {
		of := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.group != g.Title })
		if len(of) == 0 {
			continue
		}
		title := g.Title
		if title == ownFlags {
			title = "Service"
		}
		b.WriteString("\n## " + title + "\n\n| setting | of | variable | default | meaning |\n| --- | --- | --- | --- | --- |\n")
		for _, r := range of {
			b.WriteString("| `" + r.name + "` | " + r.of + " | " + r.cells + " |\n")
		}
	}
	return b.String()
}
