package service

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/keyring"
)

// KeyringFlags name the key ring that is encrypted with before anything leaves the process.
type KeyringFlags struct {
	File        string
	acceptPlain bool
	ring        *keyring.Ring // once it is open
}

// Add gives the command the flags.
func (f *KeyringFlags) Add(c *cobra.Command) {
	f.AddFile(c)
	c.Flags().BoolVar(&f.acceptPlain, "keyring-accept-plain", false, "also accept data that is not encrypted; only while a service gets its first key ring")
}

// AddFile gives the command the flag of the key ring\'s file.
func (f *KeyringFlags) AddFile(c *cobra.Command) {
	c.Flags().StringVar(&f.File, "keyring", os.Getenv("TURNUS_KEYRING"), "key ring that encrypts ledger, outputs and Redis; turnus admin keys new makes one (TURNUS_KEYRING)")
	settings.ReadsEnvironment(c.Flags(), "keyring")
	settings.NamesSecretFiles(c.Flags(), "keyring")
}

// Open reads the ring; nil where none is named.
func (f *KeyringFlags) Open(con *console.Console) (*keyring.Ring, error) {
	if f.File == "" {
		if f.acceptPlain {
			return nil, console.Invalid("--keyring-accept-plain goes with --keyring: without a key ring all is plain")
		}
		return nil, nil //nolint:nilnil // nothing is encrypted
	}
	if f.ring != nil {
		return f.ring, nil
	}
	var err error
	warn := func(text string) { con.Report(con.Paint(console.Yellow, "warning: ") + text) }
	f.ring, err = keyring.Open(f.File, keyring.Options{AcceptPlain: f.acceptPlain, Reported: con.Message, Refused: warn})
	if err == nil && f.acceptPlain {
		warn("data that is not encrypted is also accepted (--keyring-accept-plain): anybody who can write to Redis or the ledger can have anything run")
	}
	return f.ring, err
}

// Lacks are those of some keys that the ring's file has not: all of them where there is none, or
// none that can be read.
func (f *KeyringFlags) Lacks(keys []string) []string {
	var known []keyring.Key
	if f.File != "" {
		known, _ = keyring.Keys(f.File) // the caller that opens it reports why not
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.ContainsFunc(known, func(k keyring.Key) bool { return k.ID.String() == key })
	})
}
