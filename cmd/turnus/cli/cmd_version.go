package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
)

func versionLine() string {
	return fmt.Sprintf("turnus %s (%s, %s/%s)", settings.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  turnus version -o json",
		RunE: func(*cobra.Command, []string) error {
			if a.Output == "json" {
				return console.PrintJSON(a.Out, map[string]string{"version": settings.Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.Out, versionLine())
			return err
		},
	}
}
