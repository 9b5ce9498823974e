// Command turnus runs playbooks on managed hosts.
package main

import (
	"os"

	"github.com/turnus/turnus/cmd/turnus/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
