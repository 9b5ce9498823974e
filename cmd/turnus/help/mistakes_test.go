package help

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// A command of a hint can be copied where a file has a blank in its name. Control: other names stay
// as they are.
func TestHintsQuoteFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  func(file string) error
		want string // with the file as %
	}{
		{func(f string) error { return playbooks.Diagnostics{{File: f}} }, "turnus validate %"},
		{func(f string) error { return windows.Problems{{File: f}} }, "turnus windows lint %"},
		{func(f string) error { return &inventory.Error{File: f} }, "turnus hosts ls -i %"},
		{func(f string) error { return &fs.PathError{Op: "open", Path: f + "/x", Err: fs.ErrNotExist} }, "ls %"},
		{func(f string) error {
			return &ledger.DamagedError{File: strings.TrimPrefix(f, "sqlite:"), Err: fs.ErrInvalid}
		}, "--ledger %"},
	} {
		for file, word := range map[string]string{"sqlite:my book": "'sqlite:my book'", "sqlite:book": "sqlite:book"} {
			got, want := ErrorMessage(&cobra.Command{}, c.err(file), console.ExitInvalid), strings.ReplaceAll(c.want, "%", word)
			if !strings.HasSuffix(got, want) {
				t.Errorf("%s, expected the end %s", got, want)
			}
		}
	}
}
