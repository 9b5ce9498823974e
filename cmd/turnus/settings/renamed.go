package settings

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RenamedFlags maps each former flag to its present name. The variables and keys of settings follow
// their flags. docs/renamed.md lists them.
var RenamedFlags = []struct{ Old, Now string }{
	{"definitions", "project"},
	{"skip-unfit", "skip-no-window"},
	{"scale-slots", "scale-concurrency"},
	{"sealed", "encrypted"},
}

// AcceptRenamed makes all commands below root accept former flags. It calls renamed once for each
// that is used.
func AcceptRenamed(root *cobra.Command, renamed func(old, now string)) {
	used := map[string]bool{}
	root.SetGlobalNormalizationFunc(func(flags *pflag.FlagSet, name string) pflag.NormalizedName {
		for _, r := range RenamedFlags {
			if name != r.Old || flags.Lookup(r.Now) == nil { // without one, the error shows what was typed
				continue
			}
			if !used[name] {
				renamed("--"+r.Old, "--"+r.Now)
			}
			used[name] = true
			return pflag.NormalizedName(r.Now)
		}
		return pflag.NormalizedName(name)
	})
}

// formerName returns the former name of a flag, or "".
func formerName(flag string) string {
	for _, r := range RenamedFlags {
		if r.Now == flag {
			return r.Old
		}
	}
	return ""
}

// variableIn returns the variable of the environment that sets a flag, and its value; "" without
// one. It warns of a former name.
func variableIn(c *cobra.Command, flag string) (variable, value string) {
	variable = VariableOf(flag)
	if value = os.Getenv(variable); value != "" {
		return variable, value
	}
	if old := formerName(flag); old != "" && os.Getenv(VariableOf(old)) != "" {
		warnRenamed(c, VariableOf(old), variable)
		return VariableOf(old), os.Getenv(VariableOf(old))
	}
	return "", ""
}

func warnRenamed(c *cobra.Command, old, now string) {
	c.PrintErrf("warning: %s is now %s\n", old, now)
}
