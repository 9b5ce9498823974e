package definitions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Project is a folder of definitions as a person works in it: what turnus run takes where no flag
// is given. Paths are absolute.
type Project struct {
	Root        string
	Inventory   []string
	Windows     []string
	KnownHosts  []string
	Concurrency int // 0: not set
}

const maxLayout = 1 << 20 // bytes of turnus.yaml

// FindProject returns the project that dir is in: the nearest folder upward with a turnus.yaml.
// Without one it returns nil.
//
// The file chooses whose host keys count. So a turnus.yaml of another user, as in a shared /tmp, is
// an error, and so is one that everybody may write.
func FindProject(dir string) (*Project, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for {
		file := filepath.Join(dir, layoutFile)
		text, err := securefile.Read(file, securefile.Rule{Most: maxLayout, Shut: 0o002, Owned: true})
		if err == nil {
			return readProject(dir, file, text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the project's file: %w", err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, nil
		}
		dir = parent
	}
}

// IsProject reports whether a folder has turnus.yaml, or the usual place of playbooks or inventory.
func IsProject(dir string) bool {
	for _, name := range slices.Concat([]string{layoutFile}, usualNames(partPlaybooks), usualNames(partInventory)) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// readProject reads what concerns turnus run. The rest of the file is for the tree as a whole:
// turnus project diff checks it.
func readProject(root, file string, text []byte) (*Project, error) {
	p := &Project{Root: root}
	var problems yamlread.Problems
	r, top := problems.Open(file, text)
	var run runDefaults
	places := layout{}
	if top != nil {
		for _, pair := range r.Pairs(top, "the file") {
			switch key := pair.Name; key {
			case partInventory, partWindows:
				places[key] = []string{}
				for _, n := range r.OneOrMore(pair.Value, "a path or a list of paths") {
					places[key] = append(places[key], n.Value)
				}
			case keyRun:
				run.read(r, pair.Value)
			}
		}
	}
	p.Inventory = p.at(places, partInventory)
	p.Windows = p.at(places, partWindows)
	for _, file := range run.knownHosts {
		p.KnownHosts = append(p.KnownHosts, p.path(file))
	}
	p.Concurrency = run.concurrency
	return p, problems.Err()
}

// at returns where a part is: as in the file, or at the first of its usual names that exists.
func (p *Project) at(places layout, part string) []string {
	var out []string
	for _, place := range places[part] {
		out = append(out, p.path(place))
	}
	if places[part] != nil {
		return out
	}
	for _, name := range usualNames(part) {
		if _, err := os.Stat(p.path(name)); err == nil {
			return []string{p.path(name)}
		}
	}
	return nil
}

func (p *Project) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.Root, filepath.FromSlash(name))
}

// runDefaults is the key run: of turnus.yaml, for the person who types turnus run. A service reads
// it to check it, and obeys none of it: a commit names no file of a server.
type runDefaults struct {
	knownHosts  []string
	concurrency int
}

func (d *runDefaults) read(r *yamlread.Reader, n *yaml.Node) {
	r.Mapping(n, keyRun, r.Texts("known_hosts", &d.knownHosts), r.Int("concurrency", &d.concurrency, 1, 10_000))
}
