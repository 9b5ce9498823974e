package service

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/secrets"
)

// sourcesFlag names the file of the systems that keep hosts.
type sourcesFlag struct {
	file    string
	sources []sources.Source // its contents
}

func (f *sourcesFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "sources", "", "YAML file of other systems whose hosts are used beside the project's (docs/inventory-sources.md#in-the-service)")
	settings.NamesFiles(c.Flags(), "sources")
}

// check reads the file.
func (f *sourcesFlag) check() (err error) {
	if f.file == "" {
		return nil
	}
	if f.sources, err = sources.ReadFile(f.file); err != nil {
		return console.Invalid("--sources: %w", err)
	}
	return nil
}

// configure gives a catalog the sources, and what asks them. Programs are confined.
func (f *sourcesFlag) configure(cfg *catalog.Config, store *secrets.Store) error {
	if len(f.sources) == 0 {
		return nil
	}
	box, err := node.AskSandbox()
	if err != nil {
		return err
	}
	fetcher := &sources.Fetcher{Token: store.ForSource, Sandbox: box}
	cfg.Sources, cfg.Fetch = f.sources, fetcher.Fetch
	return nil
}
