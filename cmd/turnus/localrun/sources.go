package localrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/securefile"
)

// Sources returns the sources of -i files that define some, and the other values of -i.
func (f *InventoryFlags) Sources() (defined []sources.Source, paths []string, err error) {
	for _, path := range f.sources {
		if !definesSources(path) {
			paths = append(paths, path)
			continue
		}
		some, err := sources.ReadFile(path)
		if err != nil {
			return nil, nil, &console.Exit{Code: console.ExitInvalid, Err: err}
		}
		for i, s := range some {
			some[i].Given = node.InventoryArgument([]string{path})
			if i := slices.IndexFunc(defined, func(o sources.Source) bool { return o.Name == s.Name }); i >= 0 {
				return nil, nil, console.Invalid("%s: source %s is defined at %s already", s.Place(), s.Name, defined[i].Place())
			}
		}
		defined = append(defined, some...)
	}
	return defined, paths, nil
}

// definesSources reports whether a path is a file of sources. A file that cannot be read is
// reported when it is read as an inventory.
func definesSources(path string) bool {
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".yaml" && ext != ".yml" {
		return false
	}
	data, err := settings.ReadFile(path, maxSourcesFile)
	return err == nil && sources.IsFile(data)
}

const maxSourcesFile = 1 << 20

// Keeper opens the generations of this user's sources. close ends it.
func (f *InventoryFlags) Keeper(ctx context.Context) (_ *sources.Keeper, end func(), err error) {
	dir, err := settings.StateDir()
	if err == nil {
		dir, err = filepath.Abs(filepath.Join(dir, "sources"))
	}
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "ledger.db")
	if err := errors.Join(securefile.OwnFolder(dir), securefile.OwnFile(file)); err != nil {
		return nil, nil, console.Invalid("the generations of sources: %w\nhint: TURNUS_STATE names another folder for them", err)
	}
	l, err := ledger.Open(ctx, "sqlite:"+file, ledger.Options{Private: true})
	if err != nil {
		return nil, nil, fmt.Errorf("the generations of sources: %w", err)
	}
	store, err := node.SecretFlagsOf(f.flags).Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	box, err := node.AskSandbox()
	if err != nil {
		store.Close()
		return nil, nil, errors.Join(err, l.Close())
	}
	fetcher := &sources.Fetcher{Token: store.ForSource, Sandbox: box}
	return &sources.Keeper{Ledger: l, Fetch: fetcher.Fetch}, func() { store.Close(); _ = l.Close() }, nil // nothing is written after the last call
}

// documents returns the present output of the sources of -i, and the other values of -i.
func (f *InventoryFlags) documents(ctx context.Context) (docs []inventory.Document, paths, warnings []string, err error) {
	defined, paths, err := f.Sources()
	if err != nil || len(defined) == 0 {
		return nil, paths, nil, err
	}
	k, end, err := f.Keeper(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer end()
	loaded, warnings, err := k.Load(ctx, defined)
	f.uses = map[string]core.SourceUse{}
	for _, l := range loaded {
		docs = append(docs, l.Hosts)
		f.uses[l.Hosts.Name] = l.Use
	}
	return docs, paths, warnings, err
}

// sourceOf is launch.Options.Source of hosts of an inventory that Load returned. A host is the
// source's that names it first, whatever other values of -i add to it.
func (f *InventoryFlags) sourceOf(inv *inventory.Inventory) func(host string) (core.SourceUse, bool) {
	if len(f.uses) == 0 {
		return nil
	}
	return func(host string) (core.SourceUse, bool) {
		place, _, _, _ := inv.Place(host)
		use, ok := f.uses[place]
		return use, ok
	}
}

// Explain returns where each value of a host comes from.
func (f *InventoryFlags) Explain(ctx context.Context, host string) (origins []inventory.Origin, warnings []string, err error) {
	if len(f.sources) == 0 {
		return nil, nil, noInventory()
	}
	docs, paths, warnings, err := f.documents(ctx)
	if err != nil {
		return nil, nil, err
	}
	origins, err = inventory.Explain(ctx, paths, host, docs...)
	return origins, warnings, err
}

// Source returns one source of -i.
func (f *InventoryFlags) Source(name string) (sources.Source, error) {
	defined, _, err := f.Sources()
	if err != nil {
		return sources.Source{}, err
	}
	var names []string
	for _, s := range defined {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return sources.Source{}, console.Invalid("source %s: no file of -i defines sources\nhint: -i sources.yaml; docs/inventory-sources.md shows one", name)
	}
	return sources.Source{}, console.Invalid("source %s is not defined\nhint: there are: %s", name, strings.Join(names, ", "))
}
