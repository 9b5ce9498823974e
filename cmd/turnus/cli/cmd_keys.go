package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

func (a *app) keysCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "keys", Short: "Make, rotate and retire the keys that encrypt the data of a service",
		Long: `Make, rotate and retire the keys that encrypt the data of a service. The service
keeps running during a rotation, which has four steps. Add a key, and copy the file to every
server and worker. Promote the key, and copy the file again. Encrypt the old data again. Retire
the old key once check reports no data under it.`,
		Example: `  turnus admin keys new keyring.json
  turnus admin keys add keyring.json
  turnus admin keys promote keyring.json 5d0c1a77
  turnus admin keys check --keyring keyring.json --ledger postgres://turnus@db/turnus --redis rediss://queue:6379/0`,
	}
	c.AddCommand(a.keysNewCmd(), a.keysListCmd(), a.keysAddCmd(), a.keysPromoteCmd(), a.keysCheckCmd(), a.keysReencryptCmd(), a.keysRetireCmd())
	return c
}

func (a *app) showKey(id keyring.ID, primary bool, text string) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, service.KeyDoc{Key: id.String(), Primary: primary})
	}
	fmt.Fprintf(a.Out, text+"\n", id)
	return nil
}

func (a *app) keysNewCmd() *cobra.Command {
	return &cobra.Command{
		Use: "new FILE", Short: "Make a key ring with one key", Args: cobra.ExactArgs(1), Example: "  turnus admin keys new /etc/turnus/keyring.json",
		Long: `Make a key ring with one key, readable by its owner only. Keep a copy apart from
the service's backups: only its keys decrypt the data.`,
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := keyring.New(args[0])
			if err != nil {
				return err
			}
			return a.showKey(id, true, args[0]+" encrypts with key %s")
		},
	}
}

func (a *app) keysListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "ls FILE", Short: "List the keys of a ring, without the keys themselves", Args: cobra.ExactArgs(1), Example: "  turnus admin keys ls /etc/turnus/keyring.json",
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := keyring.Keys(args[0])
			if err != nil {
				return err
			}
			docs, cells := []service.KeyDoc{}, [][]string{{"KEY", "USE"}}
			for _, k := range list {
				docs = append(docs, service.KeyDoc{Key: k.ID.String(), Primary: k.Primary})
				use := "opens"
				if k.Primary {
					use = "encrypts and decrypts"
				}
				cells = append(cells, []string{k.ID.String(), use})
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(docs))
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
}

func (a *app) keysAddCmd() *cobra.Command {
	return &cobra.Command{
		Use: "add FILE", Short: "Add a key that decrypts, and does not encrypt yet", Args: cobra.ExactArgs(1), Example: "  turnus admin keys add /etc/turnus/keyring.json",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := keyring.Add(args[0])
			if err != nil {
				return err
			}
			if err := a.showKey(id, false, "key %s is added"); err != nil {
				return err
			}
			a.Message("bring the file to every server and worker, then: turnus admin keys promote " + args[0] + " " + id.String())
			return nil
		},
	}
}

func (a *app) keysPromoteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "promote FILE KEY", Short: "Encrypt with this key from now on", Args: cobra.ExactArgs(2), Example: "  turnus admin keys promote /etc/turnus/keyring.json 5d0c1a77",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := keyring.ParseID(args[1])
			if err != nil {
				return err
			}
			if err := keyring.Promote(args[0], id); err != nil {
				return err
			}
			return a.showKey(id, true, args[0]+" encrypts with key %s")
		},
	}
}

func (a *app) keysCheckCmd() *cobra.Command {
	var f service.EncryptedPlaces
	c := &cobra.Command{
		Use: "check --keyring FILE --ledger URL", Short: "Count the encrypted values of each key, and plain ones", Args: cobra.NoArgs,
		Long: `Count the encrypted values of each key, and plain ones: in the ledger, the outputs, Redis, and
the data folder of a turnus up. It reads the start of every value, and in Redis only the keys of
Turnus. The service can run meanwhile.`,
		Example: `  turnus admin keys check --keyring keyring.json --ledger postgres://turnus@db/turnus --redis rediss://queue:6379/0
  turnus admin keys check --keyring keyring.json --data turnus-data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			out, err := f.Uses(cmd.Context(), a.Console)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, out)
			}
			a.writeUses(out)
			return nil
		},
	}
	f.Keyring.AddFile(c)
	f.Add(c)
	f.AddQueue(c)
	return c
}

func (a *app) writeUses(out service.EncryptedCheck) {
	cells := [][]string{{"KEY", "WHERE", "WHAT", "VALUES"}}
	slices.SortStableFunc(out.Uses, func(x, y service.KeyUse) int { return cmp.Compare(x.Key, y.Key) })
	for _, u := range out.Uses {
		cells = append(cells, []string{cmp.Or(u.Key, "(not encrypted)"), u.Where, u.What, strconv.Itoa(u.Values)})
	}
	console.Table(a.Out, cells)
	for _, k := range out.Keys {
		switch {
		case k.Primary:
			fmt.Fprintf(a.Out, "key %s encrypts\n", k.Key)
		case k.Values == 0:
			fmt.Fprintf(a.Out, "key %s is not used any more\n", k.Key)
		default:
			fmt.Fprintf(a.Out, "key %s is needed for %s\n", k.Key, core.Plural(k.Values, "value"))
		}
	}
	if out.Plain > 0 {
		fmt.Fprintf(a.Out, "not encrypted: %s\n", core.Plural(out.Plain, "value"))
	}
	if !out.Redis {
		a.Message("Redis was not checked: --redis names it")
	}
}

func (a *app) keysReencryptCmd() *cobra.Command {
	var f service.EncryptedPlaces
	c := &cobra.Command{
		Use: "re-encrypt --keyring FILE --ledger URL", Short: "Re-encrypt values of older keys", Args: cobra.NoArgs,
		Long: `Re-encrypt values of older keys in the ledger with the key ring's primary key. It works in
small batches while the service runs. You can stop it and call it again. Large outputs have keys
of their own: only those keys are encrypted again. Redis forgets its values with their runs.
With --keyring-accept-plain it also encrypts values that are plain.`,
		Example: `  turnus admin keys re-encrypt --keyring keyring.json --ledger postgres://turnus@db/turnus
  turnus admin keys re-encrypt --keyring keyring.json --data turnus-data --keyring-accept-plain`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			return a.reencrypt(cmd.Context(), &f)
		},
	}
	f.Keyring.Add(c)
	f.Add(c)
	return c
}

// reencryptDoc is the -o json document of keys re-encrypt.
type reencryptDoc struct {
	Ledger   int      `json:"ledger"` // values encrypted again
	Failed   int      `json:"failed"`
	Failures []string `json:"failures"` // the first of them
}

func (a *app) reencrypt(ctx context.Context, f *service.EncryptedPlaces) (err error) {
	l, _, err := f.OpenLedger(ctx, a.Console)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	reported := 0
	done, err := l.Reencrypt(ctx, func(values int) {
		if values >= reported+10_000 {
			reported = values
			a.Message(fmt.Sprintf("%d values are encrypted again", values))
		}
	})
	if err != nil {
		return fmt.Errorf("%w\nhint: %s were encrypted again; run the command again to continue", err, core.Plural(done.Values, "value"))
	}
	doc := reencryptDoc{Ledger: done.Values, Failed: done.Failed, Failures: append([]string{}, done.Failures...)}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Out, "encrypted again: %s of the ledger\n", core.Plural(doc.Ledger, "value"))
		for _, text := range doc.Failures {
			fmt.Fprintln(a.Out, "cannot be opened: "+console.Printable(text))
		}
	}
	if doc.Failed > 0 {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}

func (a *app) keysRetireCmd() *cobra.Command {
	var f service.EncryptedPlaces
	c := &cobra.Command{
		Use: "retire KEY --keyring FILE --ledger URL", Short: "Remove an unused key from the ring", Args: cobra.ExactArgs(1),
		Long: `Remove an unused key from the ring. It counts as keys check does, and refuses a key that is
needed. Name every store of the service, also --redis if it has one. Restart a turnus up whose
queue is in its process between promote and retire.`,
		Example: "  turnus admin keys retire 5d0c1a77 --keyring keyring.json --ledger postgres://turnus@db/turnus --redis rediss://queue:6379/0",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := keyring.ParseID(args[0])
			if err != nil {
				return err
			}
			if err := f.Check(); err != nil {
				return err
			}
			if f.Redis == "" && f.Data == "" {
				return console.Invalid("a key may be needed for what the queue holds: --redis names it; --data the folder of a turnus up, whose queue is in its process")
			}
			out, err := f.Uses(cmd.Context(), a.Console)
			if err != nil {
				return err
			}
			for _, u := range out.Uses {
				if u.Key == id.String() {
					return console.Invalid("key %s is needed: %s in %s\nhint: turnus admin keys re-encrypt encrypts the ledger with the present key; Redis removes runs a day after their end", id, core.Plural(u.Values, "value"), strings.TrimSpace(u.Where+" "+u.What))
				}
			}
			if err := f.BegunSince(cmd.Context(), a.Console, id); err != nil {
				return err
			}
			if err := keyring.Retire(f.Keyring.File, id); err != nil {
				return err
			}
			return a.showKey(id, false, "key %s is retired")
		},
	}
	f.Keyring.AddFile(c)
	f.Add(c)
	f.AddQueue(c)
	return c
}
