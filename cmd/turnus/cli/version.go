package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionLine() string {
	return fmt.Sprintf("turnus %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  turnus version -o json",
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return printJSON(a.out, map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.out, versionLine())
			return err
		},
	}
}
