package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/snapshot"
)

// QueueFlags choose where runs wait.
type QueueFlags struct {
	URL, Pool string
	Keyring   KeyringFlags
	patient   bool           // a queue that is away at the start is waited for
	remains   memory.Remains // of the queue in the process before this one
	states    string         // folder in which the states of jobs outlive a queue in the process; "" for none
	own       *memory.Queue  // the queue in the process, once it is open; nil over Redis
}

// Add gives the command the flags.
func (f *QueueFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.URL, "redis", os.Getenv("TURNUS_REDIS"), "Redis queue that other workers share: redis://, rediss://, unix://, redis-sentinel://, redis-cluster:// (TURNUS_REDIS)")
	c.Flags().Lookup("redis").DefValue = "" // --help would print the password
	settings.ReadsEnvironment(c.Flags(), "redis")
	f.Keyring.Add(c)
	c.Flags().StringVar(&f.Pool, "pool", "", "worker pool in that Redis (default: the pool of the run's hosts, or \"default\")")
}

// ChoosePool takes the pool of the hosts where --pool names none. Hosts of several pools are
// refused: a run has the workers of one pool, and those of another do not reach its hosts.
func (f *QueueFlags) ChoosePool(launches []*launch.Launch) error {
	pools := map[string][]string{}
	for _, l := range launches {
		if err := snapshot.CheckPool(l.Playbook, l.Hosts, f.Pool); err != nil {
			return &console.Exit{Code: console.ExitInvalid, Err: err}
		}
		for _, h := range l.Hosts {
			if pool := snapshot.PoolOf(l.Playbook, h); pool != "" {
				pools[pool] = append(pools[pool], h.Name)
			}
		}
	}
	if f.Pool != "" {
		return nil
	}
	if len(pools) > 1 {
		names := slices.Sorted(maps.Keys(pools))
		for _, pool := range names { // several playbooks may have the same hosts
			slices.Sort(pools[pool])
			pools[pool] = slices.Compact(pools[pool])
		}
		return console.Invalid("the hosts are in the pools %s (%s); a run has the workers of one pool\nhint: --select 'host.pool == %q', one run for each pool",
			strings.Join(names, ", "), snapshot.ListPools(pools), names[0])
	}
	for pool := range pools {
		f.Pool = pool
	}
	return nil
}

// Open makes the queue, behind which all is encrypted where there is a key ring, and prints what
// an operator should know of it. closeQueue comes after its last use.
func (f *QueueFlags) Open(ctx context.Context, con *console.Console) (q encrypted.Backend, closeQueue func() error, err error) {
	ring, err := f.Keyring.Open(con)
	if err != nil {
		return nil, nil, err
	}
	loud := func(text string) { con.Report(con.Paint(console.Yellow, "warning: ") + text) }
	if f.URL == "" {
		var suspended []memory.Begun
		if f.states != "" {
			if suspended, err = memory.Suspended(f.states); err != nil {
				return nil, nil, err
			}
		}
		f.own = memory.New(memory.Options{Remains: f.remains, Suspended: suspended})
		closeQueue = func() error { f.own.Shutdown(); return nil }
		if f.states == "" {
			return encrypted.New(f.own, ring, loud), closeQueue, nil
		}
		kept, err := memory.NewStates(f.own, f.states)
		if err != nil {
			return nil, nil, errors.Join(err, closeQueue())
		}
		return encrypted.New(kept, ring, loud), closeQueue, nil
	}
	client, err := redisconn.Dial(f.URL)
	if err != nil {
		return nil, nil, err
	}
	r, err := redis.New(client, redis.Options{Pool: cmp.Or(f.Pool, node.DefaultPool)})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	warnings, err := r.Preflight(ctx)
	if f.patient && errors.Is(err, core.ErrUnavailable) {
		con.Report(con.Paint(console.Yellow, "warning: ") + "the queue does not answer yet: " + core.ErrorText(err))
		err = nil
	}
	if err != nil {
		return nil, nil, errors.Join(awayHint(err), client.Close())
	}
	for _, w := range warnings {
		con.Report(con.Paint(console.Yellow, "warning: ") + w)
	}
	closeQueue = func() error {
		r.Shutdown()
		return client.Close()
	}
	return encrypted.New(r, ring, loud), closeQueue, nil
}

// awayHint adds what to do about a Redis that does not answer.
func awayHint(err error) error {
	if !errors.Is(err, core.ErrUnavailable) || strings.Contains(err.Error(), "\nhint: ") {
		return err
	}
	return fmt.Errorf("%w\nhint: check that Redis runs there, and that --redis names it: redis-cli -u URL ping", err)
}
