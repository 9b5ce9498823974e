package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/pictures"
)

// mapColumns is how many letters of a group are in a line.
const mapColumns = 60

// ShowFleet prints a letter a host, its last outcome, and what the letters mean.
func ShowFleet(con *console.Console, fleet []pictures.Customer) {
	rows := [][]string{{"CUSTOMER", "GROUP", "HOSTS", "LAST OUTCOMES"}}
	var hosts []pictures.Host
	for _, c := range fleet {
		for _, g := range c.Groups {
			hosts = append(hosts, g.Hosts...)
			first := []string{pictures.Named(c.Name), pictures.Named(g.Name), fmt.Sprint(len(g.Hosts))}
			for part := range slices.Chunk(g.Hosts, mapColumns) {
				var letters strings.Builder
				for _, h := range part {
					letters.WriteString(pictures.Letter(string(h.Outcome)))
				}
				rows = append(rows, append(first, letters.String()))
				first = []string{"", "", ""}
			}
		}
	}
	console.Table(con.Out, rows)
	var legend []string
	for _, c := range pictures.Counts(hosts) {
		legend = append(legend, fmt.Sprintf("%s %d %s", pictures.Letter(string(c.Outcome)), c.Hosts, c.Word()))
	}
	if len(legend) == 0 {
		legend = []string{"the server's inventory has no such hosts"}
	}
	fmt.Fprintln(con.Out, strings.Join(legend, ", "))
}
