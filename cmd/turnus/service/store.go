package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"gocloud.dev/blob"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/ledger"
)

// StoreFlags define where a ledger and its large outputs are, for commands that work on them
// without a server.
type StoreFlags struct {
	Data, Ledger, outputs string
	Keyring               KeyringFlags // of commands that read the data of a ledger
}

// Add gives the command the flags.
func (f *StoreFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.Data, "data", "turnus-data", "data folder of the service: its ledger and outputs are meant unless others are named")
	fl.StringVar(&f.Ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "ledger: sqlite:PATH or postgres://… (TURNUS_LEDGER; default: a file in --data)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	fl.StringVar(&f.outputs, "outputs", "", "large outputs: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL] (default: outputs in --data)")
}

// LedgerURL returns the ledger that the flags name.
func (f *StoreFlags) LedgerURL() string {
	if f.Ledger != "" {
		return f.Ledger
	}
	return "sqlite:" + filepath.Join(f.Data, "ledger.db")
}

// Objects opens the folder or bucket of large outputs; nil if no flag names one and the default
// folder does not exist. A named folder must exist, unless make is set.
func (f *StoreFlags) Objects(ctx context.Context, make bool) (*blob.Bucket, error) {
	where := cmp.Or(f.outputs, filepath.Join(f.Data, "outputs"))
	if !make && !strings.Contains(where, "://") {
		_, err := os.Stat(where)
		switch {
		case err == nil:
		case f.outputs == "" && errors.Is(err, fs.ErrNotExist):
			return nil, nil //nolint:nilnil // no large output was ever written
		default:
			return nil, console.Invalid("cannot read the folder of large outputs: %v\nhint: check --outputs and --data, and that it is mounted", err)
		}
	}
	return ledger.OpenBucket(ctx, where)
}

// LedgerThere refuses a file that is not there: opening would make an empty ledger.
func LedgerThere(url string) error {
	if path, ok := ledger.FileOf(url); ok {
		if _, err := os.Stat(path); err != nil {
			return console.Invalid("there is no ledger: %v", err)
		}
	}
	return nil
}

// There refuses flags that name no ledger.
func (f *StoreFlags) There() error {
	if err := LedgerThere(f.LedgerURL()); err != nil {
		return fmt.Errorf("%w\nhint: --data FOLDER, or --ledger", err)
	}
	return nil
}

// Open opens the ledger with its outputs.
func (f *StoreFlags) Open(ctx context.Context, con *console.Console) (*ledger.Ledger, error) {
	if err := f.There(); err != nil {
		return nil, err
	}
	ring, err := f.Keyring.Open(con)
	if err != nil {
		return nil, err
	}
	bucket, err := f.Objects(ctx, false)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, f.LedgerURL(), ledger.Options{Bucket: bucket, Keyring: ring})
	if err != nil && bucket != nil {
		err = errors.Join(err, bucket.Close())
	}
	return l, err
}

// WhoHere is how the audit log names who changes a ledger without a server.
func WhoHere() string {
	if u, err := user.Current(); err == nil {
		return "ledger: " + u.Username
	}
	return "ledger"
}
