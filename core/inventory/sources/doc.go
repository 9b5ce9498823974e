// Package sources owns inventories that other systems keep. It has the settings of sources, fetches
// a whole generation of hosts from NetBox, an HTTP server or a program, decides whether it replaces
// the last one, and keeps both in the ledger.
//
// The output of a source is data: it names hosts, and no file, program or variable of this machine.
//
// It must not know playbooks, runs, or how anything is shown.
package sources
