// Package inventory owns the list of hosts: reading Turnus and Ansible
// inventories, ranges, precedence of vars, groups, and --limit patterns.
//
// It must not know playbooks, expressions, queues or SSH connections.
package inventory

import (
	"context"

	"github.com/turnus/turnus/core"
)

// Inventory is the hosts of one or more sources, read once and not changed after.
type Inventory struct {
	Hosts    []core.Host // in the order of the sources
	Sources  []string
	Warnings []string // things read but not used, each with its place
}

// Load reads each path: Turnus YAML, Ansible INI or YAML, an executable that prints
// Ansible's JSON, a folder of these, or "a,b,c," (a list of names). Later sources win.
// Errors carry file:line:col; all of one file's are reported together.
func Load(ctx context.Context, paths []string) (*Inventory, error) { return nil, nil }

// Host finds a host by name.
func (inv *Inventory) Host(name string) (core.Host, bool) { return core.Host{}, false }

// Limit selects hosts as ansible --limit does: names, groups, globs, ranges, ~regex,
// joined by "," or ":", with ! to take out and & to intersect, @FILE for a list.
// A part that matches nothing is an error that suggests near names.
func (inv *Inventory) Limit(pattern string) ([]core.Host, error) { return nil, nil }

// Password returns a literal password that an Ansible inventory held (ansible_password),
// which never enters a core.Host; "" when there is none.
func (inv *Inventory) Password(host string) string { return "" }
