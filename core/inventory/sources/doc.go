// Package sources owns inventories that other systems keep: the settings of sources, fetching a
// whole generation of hosts from NetBox, an HTTP server or a program, deciding whether it takes
// the place of the last one, and keeping both in the ledger.
//
// What a source gives is data: it names hosts, and no file, program or variable of this machine.
//
// It must not know playbooks, runs, or how anything is shown.
package sources
