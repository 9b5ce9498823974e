package service

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
)

// KeyDoc is a key as -o json prints it.
type KeyDoc struct {
	Key     string `json:"key"`
	Primary bool   `json:"primary"`
}

// EncryptedPlaces are where encrypted things are.
type EncryptedPlaces struct {
	Keyring       KeyringFlags
	Data, outputs string
	ledger        string
	Redis, pool   string
}

// Add gives the command the flags.
func (f *EncryptedPlaces) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.Data, "data", "", "data folder of a turnus up: its ledger, outputs, and states of jobs")
	fl.StringVar(&f.ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "the record: sqlite:PATH or postgres://… (TURNUS_LEDGER)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	fl.StringVar(&f.outputs, "outputs", "", "where outputs over 64 KiB are: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL] (default: outputs in --data)")
}

// AddQueue is for commands that also read the queue.
func (f *EncryptedPlaces) AddQueue(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.Redis, "redis", os.Getenv("TURNUS_REDIS"), "Redis of the queue (TURNUS_REDIS)")
	fl.Lookup("redis").DefValue = ""
	fl.StringVar(&f.pool, "pool", "", "worker pool in that Redis (default: \"default\")")
}

// Check refuses flags that name no ring or no ledger, and fills in what --data implies.
func (f *EncryptedPlaces) Check() error {
	if f.Keyring.File == "" {
		return console.Invalid("no key ring is named\nhint: --keyring FILE, or TURNUS_KEYRING")
	}
	if f.ledger == "" && f.Data != "" {
		f.ledger = "sqlite:" + filepath.Join(f.Data, "ledger.db")
	}
	if f.outputs == "" && f.Data != "" {
		f.outputs = filepath.Join(f.Data, "outputs")
	}
	if f.ledger == "" {
		return console.Invalid("no ledger is named\nhint: --ledger postgres://…, or --data FOLDER of a turnus up")
	}
	return LedgerThere(f.ledger)
}

// OpenLedger opens the ledger with its ring.
func (f *EncryptedPlaces) OpenLedger(ctx context.Context, con *console.Console) (*ledger.Ledger, *keyring.Ring, error) {
	ring, err := f.Keyring.Open(con)
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

// KeyUse is how much of something is encrypted with one key, or not at all.
type KeyUse struct {
	Where  string `json:"where"` // ledger, redis, states
	What   string `json:"what,omitempty"`
	Key    string `json:"key"` // "" where it is not encrypted
	Values int    `json:"values"`
}

// EncryptedCheck is the -o json document of keys check.
type EncryptedCheck struct {
	Primary string   `json:"primary"`
	Redis   bool     `json:"redis"` // it was checked
	Uses    []KeyUse `json:"uses"`
	Keys    []struct {
		KeyDoc
		Values int `json:"values"`
	} `json:"keys"`
	Plain int `json:"plain"`
}

// Uses counts by key what is in all places.
func (f *EncryptedPlaces) Uses(ctx context.Context, con *console.Console) (out EncryptedCheck, err error) {
	out.Uses = []KeyUse{}
	l, ring, err := f.OpenLedger(ctx, con)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	counted, err := l.KeyUses(ctx)
	if err != nil {
		return out, err
	}
	for _, u := range counted {
		one := KeyUse{Where: "ledger", What: u.What, Values: u.Count}
		if u.Encrypted {
			one.Key = u.Key.String()
		}
		out.Uses = append(out.Uses, one)
	}
	known, err := keyring.Keys(f.Keyring.File)
	if err != nil {
		return out, err
	}
	if f.Redis != "" {
		out.Redis = true
		some, err := f.inRedis(ctx, known, ring)
		if err != nil {
			return out, err
		}
		out.Uses = append(out.Uses, some...)
	}
	if f.Data != "" {
		some, err := statesIn(f.Data)
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
			KeyDoc
			Values int `json:"values"`
		}{KeyDoc{k.ID.String(), k.Primary}, n})
	}
	for _, u := range out.Uses {
		if u.Key == "" {
			out.Plain += u.Values
		}
	}
	return out, nil
}

// inRedis reads all that Turnus keeps in Redis, of all pools: they may share a ring. It leaves out
// keys that are not in the ring: random bytes may look like one.
func (f *EncryptedPlaces) inRedis(ctx context.Context, known []keyring.Key, ring *keyring.Ring) (_ []KeyUse, err error) {
	client, err := redisconn.Dial(f.Redis)
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
	var uses []KeyUse
	for _, k := range known {
		if n := found[k.ID]; n > 0 {
			uses = append(uses, KeyUse{Where: "redis", Key: k.ID.String(), Values: n})
		}
	}
	q, err := redis.New(client, redis.Options{Pool: cmp.Or(f.pool, node.DefaultPool)})
	if err != nil {
		return nil, err
	}
	plain, err := encrypted.New(q, ring, nil).Unencrypted(ctx)
	if len(plain) > 0 {
		uses = append(uses, KeyUse{Where: "redis", What: "runs", Values: len(plain)})
	}
	return uses, err
}

// statesIn counts the states of jobs in a data folder.
func statesIn(data string) ([]KeyUse, error) {
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
	uses := core.Map(slices.Sorted(maps.Keys(counts)), func(key string) KeyUse { return KeyUse{Where: "states", Key: key, Values: counts[key]} })
	return uses, err
}

// BegunSince refuses to retire a key while a queue in a process, which nobody else can read, may
// hold things that are encrypted with it: its process began before the ledger was encrypted with
// the present key.
func (f *EncryptedPlaces) BegunSince(ctx context.Context, con *console.Console, id keyring.ID) (err error) {
	if f.Data == "" || f.Redis != "" {
		return nil
	}
	began, held, err := HeldSince(f.Data)
	if err != nil || !held {
		return err
	}
	l, _, err := f.OpenLedger(ctx, con)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	since, err := l.EncryptedSince(ctx)
	if err == nil && !began.After(since) {
		err = console.Invalid("key %s is needed: the process that holds %s started before the ledger was encrypted with the present key, and its queue may use this one\nhint: stop and start turnus up (its runs continue), then retire the key", id, f.Data)
	}
	return err
}
