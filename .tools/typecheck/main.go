// Command typecheck type-checks packages and their tests for another system, from source. Nothing is
// compiled: go vet for another system first compiles each dependency for it, which takes minutes on a
// fresh machine.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck GOOS PACKAGES...")
		os.Exit(2)
	}
	system := os.Args[1]
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Tests:      true,
		BuildFlags: []string{"-tags=labs"},
		Env:        append(os.Environ(), "GOOS="+system),
	}, os.Args[2:]...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "check types for %s: %v\n", system, err)
		os.Exit(1)
	}
	if len(loaded) == 0 || packages.PrintErrors(loaded) > 0 {
		os.Exit(1)
	}
}
