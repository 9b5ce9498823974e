// Package inventory owns the list of hosts: reading Turnus and Ansible
// inventories, ranges, precedence of vars, groups, and --limit patterns.
//
// It must not know playbooks, expressions, queues or SSH connections.
//
// Vars, labels and settings come from these layers; a later one replaces a value
// of an earlier one as a whole, key by key:
//
//	defaults < customer < site < group all < other groups < host
//
// Among groups the outer come before the inner (by the longest way from the
// outside), then the lower priority, then the name. An Ansible inventory's
// group_vars files come after the values of groups in all inventories, its
// host_vars files after those of the host, as with Ansible.
// docs/inventory.md describes the format.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// Inventory is the hosts of one or more sources, read once and not changed after.
// Safe for concurrent use. Hosts share maps and slices: callers must not change
// what an entry points to.
type Inventory struct {
	Hosts    []core.Host // in the order of the sources
	Warnings []string    // things read but not used, each with its place

	index   map[string]int   // host name to its place in Hosts
	members map[string][]int // group, customer or site to the places of its hosts, as GROUP[N] counts them
	named   []string         // keys of members, groups first, in the order of the sources
	logins  map[string]Login
	foreign Errors  // places that set what to log in with
	places  []place // of hosts, as Hosts
}

// Load reads each path: Turnus YAML, Ansible INI or YAML, an executable that prints
// Ansible's JSON, a folder of these, or "a,b,c," (a list of names). Later sources win.
// Errors carry file:line:col; all of one file's are reported together, as Errors,
// which are core.ErrInvalid. Hosts of documents come before the others, as LoadDocument returns
// them.
func Load(ctx context.Context, paths []string, docs ...Document) (*Inventory, error) {
	return (&parts{tree: disk{}, paths: paths, docs: docs}).load(ctx)
}

// LoadBeside reads paths as Load does, and then group_vars and host_vars of one more folder, as
// Ansible reads those of a playbook's folder. It returns nil if the paths have those files already.
func LoadBeside(ctx context.Context, paths []string, folder string) (*Inventory, error) {
	b := newBuilder(disk{})
	b.beside = folder
	inv, err := b.load(ctx, paths)
	if b.besideRead {
		return nil, err
	}
	return inv, err
}

// addBeside adds the folder of LoadBeside to those whose group_vars and host_vars are read.
func (b *builder) addBeside() {
	if b.beside == "" {
		return
	}
	b.besideRead = true
	for _, kind := range []string{"group_vars", "host_vars"} {
		st, err := os.Stat(filepath.Join(b.beside, kind))
		have := slices.ContainsFunc(b.varDirs, func(dir string) bool {
			other, oerr := os.Stat(filepath.Join(dir, kind))
			return err == nil && oerr == nil && os.SameFile(st, other)
		})
		b.besideRead = b.besideRead && (have || errors.Is(err, fs.ErrNotExist))
	}
	if !b.besideRead {
		b.varDirs = append(b.varDirs, b.beside)
	}
}

// LoadFS reads paths of a tree as Load does, in which no program is run, no path is a list of
// names, and nothing has credentials: a tree that others wrote gives data and nothing else.
func LoadFS(ctx context.Context, tree fs.FS, paths []string) (*Inventory, error) {
	return newBuilder(tree).load(ctx, paths)
}

func (b *builder) load(ctx context.Context, paths []string) (*Inventory, error) {
	if b.of != nil {
		b.document(*b.of)
	}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("load inventory: %w", err)
		}
		if b.local() && strings.Contains(p, ",") {
			if _, err := os.Lstat(p); err != nil {
				b.nameList(p)
				continue
			}
		}
		if err := b.source(ctx, p, 0); err != nil {
			return nil, err
		}
	}
	b.addBeside()
	for _, dir := range b.varDirs {
		if err := b.varFiles(dir); err != nil {
			return nil, err
		}
	}
	var inv *Inventory
	if !b.bounds.Full { // else there is too much to look through
		inv = b.build()
	}
	if !b.local() {
		b.errs = append(b.errs, b.logins...)
	}
	if len(b.errs) > 0 {
		return nil, b.errs.sorted()
	}
	return inv, nil
}

// Host finds a host by name.
func (inv *Inventory) Host(name string) (core.Host, bool) {
	i, ok := inv.index[name]
	if !ok {
		return core.Host{}, false
	}
	return inv.Hosts[i], true
}

// Place is where a host is first named: a file, and a line and column from 1; false
// when there is no such host.
func (inv *Inventory) Place(host string) (file string, line, col int, ok bool) {
	i, ok := inv.index[host]
	if !ok {
		return "", 0, 0, false
	}
	at := inv.places[i]
	return at.file, at.line, at.col, true
}

// nameList reads "a,b,c,".
func (b *builder) nameList(list string) {
	src := b.file("-i " + list)
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		names, port, err := expandHost(part)
		if err != nil {
			src.fail(1, 1, "%v", err)
			continue
		}
		for _, n := range names {
			e := b.host(n, src.at(1, 1))
			if port > 0 {
				e.own.ssh.Port = port
				b.note(&e.own, "port", src.at(1, 1))
			}
		}
	}
}
