// Command turnus runs playbooks on managed hosts.
package main

import (
	"os"
	_ "time/tzdata" // time zones mean the same on every machine, also on one without zone files

	"github.com/turnus/turnus/cmd/turnus/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
