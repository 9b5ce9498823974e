// Package definitions owns the content of a git tree of an operator: playbooks, inventory,
// windows, schedules and references to secrets as one validated value; what differs between two of
// them; and following a branch of a repository.
//
// A tree is data: no program, hook, filter or submodule of it is ever run. All of it is valid, or
// none of it is passed on.
//
// It must not know queues, runs, the ledger, or how anything is shown.
package definitions

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// Bounds of one tree.
const (
	MaxEntries   = 200_000  // files of the tree, artifacts included
	MaxDocuments = 20_000   // files that are read
	MaxFileSize  = 10 << 20 // bytes of one file that is read
	MaxSize      = 11 << 20 // bytes of all files that are read, with their paths: the ledger keeps them as one JSON document
	maxPath      = 1024     // bytes
	maxFolders   = 32       // levels
	maxProblems  = 200      // reported together
)

// Set is the content of one tree. It is valid, is not changed after it was loaded, and is safe for
// concurrent use.
type Set struct {
	Revision  Revision
	Playbooks []*playbooks.Playbook // by name
	Inventory *inventory.Inventory
	Windows   *windows.Definitions
	Schedules []Schedule             // by playbook
	Secrets   []secrets.Entry        // by name: where their values are, never what they are
	Notify    *policy.Policy         // who is notified of what
	Warnings  []playbooks.Diagnostic // what is valid, but probably not meant

	fourEyes []string       // tenants whose runs need another person's approval
	weights  map[string]int // of tenants; 1 of those that are not named
	docs     []Document     // by path
	sent     []entry        // of a commit: files beside playbooks, which those may send; nil: not known
	windows  []windows.Document
	layout   layout
	others   []inventory.Document  // of WithHosts
	apart    playbooks.Diagnostics // Warnings, except those about the hosts that targets: selects
	selected map[string][]string   // playbook to the names of the hosts that targets: selects
}

// FourEyes reports whether the runs of a tenant, and those on its hosts, need another person's
// approval.
func (s *Set) FourEyes(tenant string) bool { return slices.Contains(s.fourEyes, tenant) }

// TenantWeight is a tenant's share of the workers beside other tenants: from 1.
func (s *Set) TenantWeight(tenant string) int { return max(s.weights[tenant], 1) }

// Revision is the commit that a set comes from. The zero Revision is none: a plain folder.
type Revision struct {
	Commit      string    `json:"commit,omitempty"` // the whole hash
	Author      string    `json:"author,omitempty"` // NAME <ADDRESS>
	CommittedAt time.Time `json:"committed_at,omitzero"`
	Subject     string    `json:"subject,omitempty"`
}

// Short is how people write the commit; "" is none.
func (r Revision) Short() string { return r.Commit[:min(12, len(r.Commit))] }

// Schedule is when a playbook launches automatically.
type Schedule struct {
	Playbook string
	playbooks.Schedule
}

// Options guide loading.
type Options struct {
	Playbooks playbooks.Options // what is known of job types; no Types: uses: and with: are not checked
	Revision  Revision          // reported by the set
	Sources   []KnownSource     // that give hosts beside the tree; none: the tree has all hosts, or nobody knows
	within    time.Duration     // playbooks.TargetsTime when zero; less in tests
}

// KnownSource is a source of hosts that the settings of a process have. The zero KnownSource is any
// that another process may have.
type KnownSource struct {
	Name   string
	Tenant string // of all its hosts; "": any
}

// Load reads a folder. Either the set is valid, or the error is playbooks.Diagnostics with
// everything that is wrong, file:line:col where that is known; errors.Is(err, core.ErrInvalid)
// holds. Other errors mean that the folder could not be read.
func Load(ctx context.Context, dir string, o Options) (*Set, error) {
	t, err := openFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return loadTree(ctx, t, o)
}

// FromDocuments makes the set of what Documents gave elsewhere. Errors are those of Load: a
// server whose job types differ may refuse what another took.
func FromDocuments(ctx context.Context, docs []Document, o Options) (*Set, error) {
	return loadTree(ctx, memory(docs), o)
}

// Playbook finds a playbook by name.
func (s *Set) Playbook(name string) (*playbooks.Playbook, bool) {
	for _, p := range s.Playbooks {
		if p.Name == name {
			return p, true
		}
	}
	return nil, false
}

// Selected is the names of the hosts that a playbook's targets: selects, in the order of
// the inventory. Callers must not change it.
func (s *Set) Selected(playbook string) []string { return s.selected[playbook] }

// Documents are the files that the set consists of, by path. FromDocuments makes the same
// set of them. Callers must not change what they point to.
func (s *Set) Documents() []Document { return s.docs }

// WindowDocuments returns the files of windows, as admission.NewCalendar takes them. Callers must
// not change them.
func (s *Set) WindowDocuments() []windows.Document { return s.windows }

// Hash identifies the content of the set, without its revision: sha256:HEX.
func (s *Set) Hash() string { return Hash(s.docs) }

func loadTree(ctx context.Context, t tree, o Options) (*Set, error) {
	entries, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	l := &loader{ctx: ctx, t: t, entries: entries, set: &Set{Revision: o.Revision}, sources: o.Sources, within: cmp.Or(o.within, playbooks.TargetsTime)}
	if err := l.load(o); err != nil {
		return nil, err
	}
	if len(l.problems) > 0 {
		return nil, bounded(l.problems)
	}
	l.set.Warnings = bounded(slices.Concat(l.set.apart, l.warnings))
	if _, ok := t.(*gitTree); ok {
		l.set.sent = l.set.beside(entries)
	}
	return l.set, nil
}

// beside returns the files below the folders of playbooks that are no documents.
func (s *Set) beside(entries []entry) []entry {
	folders := map[string]bool{}
	for _, p := range s.Playbooks {
		folders[path.Dir(p.File)] = true
	}
	out := []entry{}
	for _, e := range entries {
		if hidden(e.path) || s.layout.documents(e.path) {
			continue
		}
		for dir := path.Dir(e.path); ; dir = path.Dir(dir) {
			if folders[dir] {
				out = append(out, e)
			}
			if folders[dir] || dir == "." {
				break
			}
		}
	}
	return out
}
