package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
)

func (a *app) manCmd() *cobra.Command {
	markdown := false
	c := &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages, one for each command, into a folder",
		Long: `Write the manual pages, one for each command, into a folder. The Debian package has them.
SOURCE_DATE_EPOCH gives their date, so that one revision always makes the same pages.`,
		Example: `  turnus admin man ~/.local/share/man/man1
  man turnus-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for all users
				return err
			}
			root := cmd.Root()
			if markdown {
				return help.WriteReference(a.referencePages(root), args[0])
			}
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "TURNUS", Section: "1", Source: "turnus " + settings.Version(), Manual: "Turnus", Date: date}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return err
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "turnus*.1"))
			if err != nil {
				return err
			}
			a.Message(fmt.Sprintf("%s in %s", core.Plural(len(pages), "manual page"), args[0]))
			return nil
		},
	}
	c.Flags().BoolVar(&markdown, "markdown", false, "write docs/commands instead; other Markdown files of the folder are removed")
	_ = c.Flags().MarkHidden("markdown") // for make generate
	return c
}

// referencePages are the pages of docs/commands, by file name.
func (a *app) referencePages(root *cobra.Command) map[string]string {
	pages := help.Reference(root)
	pages["settings.md"] = help.SettingsPage(root, commandsOf(a.longRunners()), func(f *pflag.Flag) string {
		if !settings.IsSetting(f) {
			return ""
		}
		return settings.VariableOf(f.Name)
	})
	return pages
}

// sourceDate reads SOURCE_DATE_EPOCH (seconds,
// https://reproducible-builds.org/specs/source-date-epoch/); "" is now.
func sourceDate(epoch string) (*time.Time, error) {
	now := time.Now()
	if epoch == "" {
		return &now, nil
	}
	var seconds int64
	if _, err := fmt.Sscanf(epoch, "%d", &seconds); err != nil {
		return nil, console.Invalid("SOURCE_DATE_EPOCH %q: expected seconds since 1970", epoch)
	}
	at := time.Unix(seconds, 0).UTC()
	return &at, nil
}
