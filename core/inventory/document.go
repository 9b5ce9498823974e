package inventory

import "gopkg.in/yaml.v3"

// Document is an inventory as another system gave it: JSON in the Turnus format, or in that of
// Ansible. It is data: it has no credentials.
type Document struct {
	Name string // in places: source nb
	Data []byte
	List bool // it is what a program prints for --list
	// Customer is the customer of hosts for which Data names none; "" leaves them without one.
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
