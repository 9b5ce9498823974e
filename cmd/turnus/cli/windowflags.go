package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/windows"
)

// gatingFlags say which service windows runs keep.
type gatingFlags struct{ paths []string }

func (f *gatingFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.paths, "windows", nil, "file or folder with window sets, freezes and holidays (repeatable; read together): disruptive steps keep to them")
}

// book reads the definitions; nil when none are given.
func (f *gatingFlags) book() (*gate.Book, error) {
	if len(f.paths) == 0 {
		return nil, nil
	}
	docs, err := windows.Read(f.paths...)
	if err != nil {
		return nil, err
	}
	return gate.NewBook(docs)
}
