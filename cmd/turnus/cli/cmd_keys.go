package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
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

// keyDoc is a key as -o json prints it.
type keyDoc struct {
	Key     string `json:"key"`
	Primary bool   `json:"primary"`
}

func (a *app) showKey(id keyring.ID, primary bool, text string) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, keyDoc{id.String(), primary})
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
			docs, cells := []keyDoc{}, [][]string{{"KEY", "USE"}}
			for _, k := range list {
				docs = append(docs, keyDoc{k.ID.String(), k.Primary})
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

// encryptedPlaces say where encrypted things lie.
type encryptedPlaces struct {
	keyring       service.KeyringFlags
	data, outputs string
	ledger        string
	redis, pool   string
}

func (f *encryptedPlaces) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "", "data folder of a turnus up: its ledger, outputs, and states of jobs")
	fl.StringVar(&f.ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "the record: sqlite:PATH or postgres://… (TURNUS_LEDGER)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	fl.StringVar(&f.outputs, "outputs", "", "where outputs over 64 KiB are: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL] (default: outputs in --data)")
}

// addQueue is for commands that also read the queue.
func (f *encryptedPlaces) addQueue(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.redis, "redis", os.Getenv("TURNUS_REDIS"), "Redis of the queue (TURNUS_REDIS)")
	fl.Lookup("redis").DefValue = ""
	fl.StringVar(&f.pool, "pool", "", "worker pool in that Redis (default: \"default\")")
}

func (f *encryptedPlaces) check() error {
	if f.keyring.File == "" {
		return console.Invalid("no key ring is named\nhint: --keyring FILE, or TURNUS_KEYRING")
	}
	if f.ledger == "" && f.data != "" {
		f.ledger = "sqlite:" + filepath.Join(f.data, "ledger.db")
	}
	if f.outputs == "" && f.data != "" {
		f.outputs = filepath.Join(f.data, "outputs")
	}
	if f.ledger == "" {
		return console.Invalid("no ledger is named\nhint: --ledger postgres://…, or --data FOLDER of a turnus up")
	}
	return service.LedgerThere(f.ledger)
}

func (f *encryptedPlaces) openLedger(ctx context.Context, a *app) (*ledger.Ledger, *keyring.Ring, error) {
	ring, err := f.keyring.Open(a.Console)
	if err != nil {
		return nil, nil, err
	}
	o := ledger.Options{Keyring: ring}
	if f.outputs != "" {
		if o.Bucket, err = ledger.OpenBucket(ctx, f.outputs); err != nil {
			return nil, nil, err
		}
	}
	l, err := ledger.Open(ctx, f.ledger, o)
	if err != nil && o.Bucket != nil {
		err = errors.Join(err, o.Bucket.Close())
	}
	return l, ring, err
}

// keyUse is how much of something is encrypted with one key, or not at all.
type keyUse struct {
	Where  string `json:"where"` // ledger, redis, states
	What   string `json:"what,omitempty"`
	Key    string `json:"key"` // "" where it is not encrypted
	Values int    `json:"values"`
}

// encryptedCheck is the -o json document of keys check.
type encryptedCheck struct {
	Primary string   `json:"primary"`
	Redis   bool     `json:"redis"` // it was checked
	Uses    []keyUse `json:"uses"`
	Keys    []struct {
		keyDoc
		Values int `json:"values"`
	} `json:"keys"`
	Plain int `json:"plain"`
}

// uses counts by key what is in all places.
func (f *encryptedPlaces) uses(ctx context.Context, a *app) (out encryptedCheck, err error) {
	l, ring, err := f.openLedger(ctx, a)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	counted, err := l.KeyUses(ctx)
	if err != nil {
		return out, err
	}
	for _, u := range counted {
		one := keyUse{Where: "ledger", What: u.What, Values: u.Count}
		if u.Encrypted {
			one.Key = u.Key.String()
		}
		out.Uses = append(out.Uses, one)
	}
	known, err := keyring.Keys(f.keyring.File)
	if err != nil {
		return out, err
	}
	if f.redis != "" {
		out.Redis = true
		some, err := f.inRedis(ctx, known, ring)
		if err != nil {
			return out, err
		}
		out.Uses = append(out.Uses, some...)
	}
	if f.data != "" {
		some, err := statesIn(f.data)
		if err != nil {
			return out, err
		}
		out.Uses = append(out.Uses, some...)
	}
	for _, k := range known {
		if k.Primary {
			out.Primary = k.ID.String()
		}
		n := 0
		for _, u := range out.Uses {
			if u.Key == k.ID.String() {
				n += u.Values
			}
		}
		out.Keys = append(out.Keys, struct {
			keyDoc
			Values int `json:"values"`
		}{keyDoc{k.ID.String(), k.Primary}, n})
	}
	for _, u := range out.Uses {
		if u.Key == "" {
			out.Plain += u.Values
		}
	}
	return out, nil
}

// inRedis reads all that Turnus keeps in Redis, of all pools: they may share a ring. Of keys that
// are not in the ring it says nothing: random bytes may look like one.
func (f *encryptedPlaces) inRedis(ctx context.Context, known []keyring.Key, ring *keyring.Ring) (_ []keyUse, err error) {
	client, err := redisconn.Dial(f.redis)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	found := map[keyring.ID]int{}
	for _, ours := range redisconn.RoleKeys(redisconn.DoctorRole) {
		if err := redisconn.Values(ctx, client, ours, func(_ string, value []byte) error {
			keyring.Find(value, func(id keyring.ID) { found[id]++ })
			return nil
		}); err != nil {
			return nil, err
		}
	}
	var uses []keyUse
	for _, k := range known {
		if n := found[k.ID]; n > 0 {
			uses = append(uses, keyUse{Where: "redis", Key: k.ID.String(), Values: n})
		}
	}
	q, err := redis.New(client, redis.Options{Pool: cmp.Or(f.pool, node.DefaultPool)})
	if err != nil {
		return nil, err
	}
	plain, err := encrypted.New(q, ring, nil).Unencrypted(ctx)
	if len(plain) > 0 {
		uses = append(uses, keyUse{Where: "redis", What: "runs", Values: len(plain)})
	}
	return uses, err
}

// statesIn counts the states of jobs in a data folder.
func statesIn(data string) ([]keyUse, error) {
	counts := map[string]int{}
	err := filepath.WalkDir(filepath.Join(data, "states"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // below a folder of mode 0700, whose owner this is
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		key := ""
		if id, ok := keyring.KeyOf(text); ok {
			key = id.String()
		}
		counts[key]++
		return err
	})
	var uses []keyUse
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		uses = append(uses, keyUse{Where: "states", Key: key, Values: counts[key]})
	}
	return uses, err
}

// begunSince refuses to retire a key while a queue in a process, which nobody else can read, may
// hold things that are encrypted with it: its process began before the ledger was encrypted with
// the present key.
func (f *encryptedPlaces) begunSince(ctx context.Context, a *app, id keyring.ID) (err error) {
	if f.data == "" || f.redis != "" {
		return nil
	}
	began, held, err := service.HeldSince(f.data)
	if err != nil || !held {
		return err
	}
	l, _, err := f.openLedger(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	since, err := l.EncryptedSince(ctx)
	if err == nil && !began.After(since) {
		err = console.Invalid("key %s is needed: the process that holds %s started before the ledger was encrypted with the present key, and its queue may use this one\nhint: stop and start turnus up (its runs continue), then retire the key", id, f.data)
	}
	return err
}

func (a *app) keysCheckCmd() *cobra.Command {
	var f encryptedPlaces
	c := &cobra.Command{
		Use: "check --keyring FILE --ledger URL", Short: "Count the encrypted values of each key, and plain ones", Args: cobra.NoArgs,
		Long: `Count the encrypted values of each key, and plain ones: in the ledger, the outputs, Redis, and
the data folder of a turnus up. It reads the start of every value, and in Redis only the keys of
Turnus. The service can run meanwhile.`,
		Example: `  turnus admin keys check --keyring keyring.json --ledger postgres://turnus@db/turnus --redis rediss://queue:6379/0
  turnus admin keys check --keyring keyring.json --data turnus-data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			out, err := f.uses(cmd.Context(), a)
			if err != nil {
				return err
			}
			if out.Uses == nil {
				out.Uses = []keyUse{}
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, out)
			}
			a.writeUses(out)
			return nil
		},
	}
	f.keyring.AddFile(c)
	f.add(c)
	f.addQueue(c)
	return c
}

func (a *app) writeUses(out encryptedCheck) {
	cells := [][]string{{"KEY", "WHERE", "WHAT", "VALUES"}}
	slices.SortStableFunc(out.Uses, func(x, y keyUse) int { return cmp.Compare(x.Key, y.Key) })
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
			fmt.Fprintf(a.Out, "key %s is needed for %s\n", k.Key, console.Plural(k.Values, "value"))
		}
	}
	if out.Plain > 0 {
		fmt.Fprintf(a.Out, "not encrypted: %s\n", console.Plural(out.Plain, "value"))
	}
	if !out.Redis {
		a.Message("Redis was not checked: --redis names it")
	}
}

func (a *app) keysReencryptCmd() *cobra.Command {
	var f encryptedPlaces
	c := &cobra.Command{
		Use: "reseal --keyring FILE --ledger URL", Short: "Re-encrypt values of older keys", Args: cobra.NoArgs,
		Long: `Re-encrypt values of older keys in the ledger with the key ring's primary key. It works in
small batches while the service runs. You can stop it and call it again. Large outputs have keys
of their own: only those keys are encrypted again. Redis forgets its values with their runs.
With --keyring-accept-plain it also encrypts values that are plain.`,
		Example: `  turnus admin keys reseal --keyring keyring.json --ledger postgres://turnus@db/turnus
  turnus admin keys reseal --keyring keyring.json --data turnus-data --keyring-accept-plain`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.reencrypt(cmd.Context(), &f)
		},
	}
	f.keyring.Add(c)
	f.add(c)
	return c
}

// reencryptDoc is the -o json document of keys reseal.
type reencryptDoc struct {
	Ledger   int      `json:"ledger"` // values encrypted again
	Failed   int      `json:"failed"`
	Failures []string `json:"failures"` // the first of them
}

func (a *app) reencrypt(ctx context.Context, f *encryptedPlaces) (err error) {
	l, _, err := f.openLedger(ctx, a)
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
		return fmt.Errorf("%w\nhint: %s were encrypted again; run the command again to continue", err, console.Plural(done.Values, "value"))
	}
	doc := reencryptDoc{Ledger: done.Values, Failed: done.Failed, Failures: append([]string{}, done.Failures...)}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Out, "encrypted again: %s of the ledger\n", console.Plural(doc.Ledger, "value"))
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
	var f encryptedPlaces
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
			if err := f.check(); err != nil {
				return err
			}
			if f.redis == "" && f.data == "" {
				return console.Invalid("a key may be needed for what the queue holds: --redis names it; --data the folder of a turnus up, whose queue is in its process")
			}
			out, err := f.uses(cmd.Context(), a)
			if err != nil {
				return err
			}
			for _, u := range out.Uses {
				if u.Key == id.String() {
					return console.Invalid("key %s is needed: %s in %s\nhint: turnus admin keys reseal encrypts the ledger with the present key; Redis removes runs a day after their end", id, console.Plural(u.Values, "value"), strings.TrimSpace(u.Where+" "+u.What))
				}
			}
			if err := f.begunSince(cmd.Context(), a, id); err != nil {
				return err
			}
			if err := keyring.Retire(f.keyring.File, id); err != nil {
				return err
			}
			return a.showKey(id, false, "key %s is retired")
		},
	}
	f.keyring.AddFile(c)
	f.add(c)
	f.addQueue(c)
	return c
}
