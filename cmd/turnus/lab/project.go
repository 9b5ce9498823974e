package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
)

func (v *verbs) inventory() *cobra.Command {
	return &cobra.Command{
		Use:     "inventory",
		Short:   "Print the hosts as the inventory of a project, which holds no login",
		Example: "  turnus lab inventory > ops/inventory/hosts.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := ask(cmd.Context(), request{Do: "ls"})
			if err != nil {
				return err
			}
			text, err := os.ReadFile(got.Inventory)
			if err != nil {
				return fmt.Errorf("read the lab's inventory: %w", err)
			}
			return v.print("inventory", strings.Replace(string(text), identity(keyOf(got)), "", 1))
		},
	}
}

func (v *verbs) logins() *cobra.Command {
	return &cobra.Command{
		Use:     "logins",
		Short:   "Print the credential by which a service or worker logs in to the hosts",
		Example: "  turnus lab logins > logins.yaml\n  turnus up --project ops --secrets logins.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := ask(cmd.Context(), request{Do: "ls"})
			if err != nil {
				return err
			}
			return v.print("logins", fmt.Sprintf("credentials:\n  default: {identity_file: %q, addresses: [127.0.0.0/8]}\n", keyOf(got)))
		},
	}
}

// print prints a file, or an object with its text.
func (v *verbs) print(name, text string) error {
	if v.Output == "json" {
		return console.PrintJSON(v.Out, map[string]string{name: text})
	}
	_, err := fmt.Fprint(v.Out, text)
	return err
}

// keyOf is the path of the private key for logins.
func keyOf(got reply) string { return filepath.Join(filepath.Dir(got.Inventory), keyFile) }

// identity is the part of the inventory's defaults that names the private key.
func identity(path string) string { return fmt.Sprintf(", identity_file: %q", path) }
