package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/spf13/cobra"
	"gocloud.dev/blob"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/ledger"
)

// storeFlags say where a ledger and its large outputs are, for commands that work on them without a server.
type storeFlags struct {
	data, ledger, outputs string
	keyring               keyringFlags // of commands that look into a ledger
}

func (f *storeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "turnus-data", "data folder of the service: its ledger and outputs are meant unless others are named")
	fl.StringVar(&f.ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "ledger: sqlite:PATH or postgres://… (TURNUS_LEDGER; default: a file in --data)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	fl.StringVar(&f.outputs, "outputs", "", "large outputs: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL] (default: outputs in --data)")
}

func (f *storeFlags) ledgerURL() string {
	if f.ledger != "" {
		return f.ledger
	}
	return "sqlite:" + filepath.Join(f.data, "ledger.db")
}

// objects opens where large outputs are; nil where there are none: the folder that nobody named is not there.
func (f *storeFlags) objects(ctx context.Context, make bool) (*blob.Bucket, error) {
	where := f.outputs
	if where == "" {
		where = filepath.Join(f.data, "outputs")
		if _, err := os.Stat(where); err != nil && !make {
			return nil, nil //nolint:nilnil // no large output was ever written
		}
	}
	return ledger.OpenBucket(ctx, where)
}

// ledgerThere refuses a file that is not there: opening would make an empty ledger.
func ledgerThere(url string) error {
	if path, ok := ledger.FileOf(url); ok {
		if _, err := os.Stat(path); err != nil {
			return console.Invalid("there is no ledger: %v", err)
		}
	}
	return nil
}

// there refuses flags that name no ledger.
func (f *storeFlags) there() error {
	if err := ledgerThere(f.ledgerURL()); err != nil {
		return fmt.Errorf("%w\nhint: --data FOLDER, or --ledger", err)
	}
	return nil
}

// open opens the ledger with its outputs.
func (f *storeFlags) open(ctx context.Context, a *app) (*ledger.Ledger, error) {
	if err := f.there(); err != nil {
		return nil, err
	}
	ring, err := f.keyring.open(a)
	if err != nil {
		return nil, err
	}
	bucket, err := f.objects(ctx, false)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, f.ledgerURL(), ledger.Options{Bucket: bucket, Keyring: ring})
	if err != nil && bucket != nil {
		err = errors.Join(err, bucket.Close())
	}
	return l, err
}

// whoHere is how the audit log names who changes a ledger without a server.
func whoHere() string {
	if u, err := user.Current(); err == nil {
		return "ledger: " + u.Username
	}
	return "ledger"
}
