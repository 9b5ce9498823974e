package inventory

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Document is an inventory as another system gave it: JSON in the Turnus format, or in that of
// Ansible. It is data: it has no credentials.
type Document struct {
	Name string // in places: source nb
	Data []byte
	List bool // it is what a program prints for --list
	// Customer is the customer of hosts for which nothing names one, and hosts of others are left
	// out; "" takes all.
	Customer string
	// From is where that system has a value of a host; nil or "": it is at a line and column of Data.
	From func(host, field string) string
}

// document reads a Document.
func (b *builder) document(d Document) {
	f := b.file(d.Name)
	f.given = true
	if len(d.Data) > maxFile {
		f.fail(1, 1, "larger than %d MB", maxFile>>20)
		return
	}
	root := f.parseJSON(d.Data)
	if root == nil {
		return
	}
	if d.From != nil {
		b.froms[d.Name] = d.From
	}
	if d.List && root.Kind == yaml.MappingNode {
		f.listing(root, nil)
	} else {
		f.parsed(root)
	}
	for _, e := range b.list {
		if e.at.file == d.Name && e.own.customer == "" {
			e.own.customer = d.Customer
		}
	}
}

// LeftOut returns why a host of the document is left out; "" takes it.
func (d *Document) LeftOut(h *core.Host) string {
	if d.Customer == "" || h.Customer == d.Customer {
		return ""
	}
	return fmt.Sprintf("its customer is %s, but the source is of tenant %s: add a filter to the source", yamlread.Quote(h.Customer), d.Customer)
}

// LoadDocument returns the hosts that a document names, with the values that paths of a tree add to
// them. Nothing of the document reaches a host that it does not name, so With can put several
// together.
func LoadDocument(ctx context.Context, tree fs.FS, paths []string, d Document) (*Inventory, error) {
	b := newBuilder(tree)
	b.of = &d
	return b.load(ctx, paths)
}

// known are names that paths may refer to, and that are defined elsewhere.
type known struct{ hosts, groups map[string]bool }

// parts are an inventory of documents and paths.
type parts struct {
	tree      fs.FS
	paths     []string
	docs      []Document
	explained string
	origins   []Origin // of the host that is explained
}

// load puts the hosts of each document together, and then those of the paths alone.
func (p *parts) load(ctx context.Context) (*Inventory, error) {
	ran, names := map[string][]byte{}, known{map[string]bool{}, map[string]bool{}}
	for _, d := range p.docs {
		b := newBuilder(p.tree)
		b.document(d) // its mistakes are reported below
		for name := range b.hosts {
			names.hosts[name] = true
		}
		for name := range b.groups {
			names.groups[name] = true
		}
	}
	all := &Inventory{index: map[string]int{}, members: map[string][]int{}, logins: map[string]Login{}}
	for i := range len(p.docs) + 1 {
		b := newBuilder(p.tree)
		b.ran, b.known, b.explained = ran, names, p.explained
		if i < len(p.docs) {
			b.of = &p.docs[i]
		}
		part, err := b.load(ctx, p.paths)
		if err != nil {
			return nil, err
		}
		if _, had := all.index[p.explained]; !had {
			p.origins = b.origins
		}
		if all = all.beside(part, b.of); len(all.Hosts) > maxHosts {
			return nil, fmt.Errorf("inventory: %w: more than %d hosts in all sources and files together", core.ErrInvalid, maxHosts)
		}
	}
	return all, nil
}

// maxLeft is how many hosts a warning names.
const maxLeft = 5

// beside returns the inventory with the hosts of a document, or with those of the paths.
func (inv *Inventory) beside(part *Inventory, of *Document) *Inventory {
	var left []string
	all, twice := inv.With(part, func(h *core.Host) bool {
		if of == nil {
			return true
		}
		why := of.LeftOut(h)
		if why != "" {
			left = append(left, h.Name+": "+why)
		}
		return why == ""
	})
	for _, w := range part.Warnings { // each part reads the same files
		if !slices.Contains(inv.Warnings, w) {
			all.Warnings = append(all.Warnings, w)
		}
	}
	for _, e := range part.foreign {
		if !slices.ContainsFunc(inv.foreign, func(o *Error) bool { return *o == *e }) {
			all.foreign = append(all.foreign, e)
		}
	}
	if of == nil { // the paths may add to a host of a document
		return all
	}
	for _, host := range twice {
		left = append(left, host+": another source has a host of this name")
	}
	if len(left) > 0 {
		all.Warnings = append(all.Warnings, fmt.Sprintf("%s: left out %s: %s", of.Name, core.Plural(len(left), "host"), core.Few(left, maxLeft)))
	}
	return all
}
