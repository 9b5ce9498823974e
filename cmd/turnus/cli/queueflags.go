package cli

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/queue/sealed"
	"github.com/turnus/turnus/core/queue/stash"
	"github.com/turnus/turnus/core/redisconn"
)

// queueFlags choose where runs wait.
type queueFlags struct {
	url, pool string
	keyring   keyringFlags
	patient   bool           // a queue that is away at the start is waited for
	remains   memory.Remains // of the queue in the process before this one
	states    string         // folder in which the states of jobs outlive a queue in the process; "" for none
	own       *memory.Queue  // the queue in the process, once it is open; nil over Redis
}

func (f *queueFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "redis", os.Getenv("TURNUS_REDIS"), "Redis queue that other workers share: redis://, rediss://, unix://, redis-sentinel://, redis-cluster:// (TURNUS_REDIS)")
	c.Flags().Lookup("redis").DefValue = "" // --help would print the password
	settings.ReadsEnvironment(c.Flags(), "redis")
	f.keyring.add(c)
	c.Flags().StringVar(&f.pool, "pool", "", "worker pool in that Redis (default: the pool of the run's hosts, or \"default\")")
}

// choosePool takes the pool of the hosts where --pool names none. Hosts of several pools are
// refused: a run has the workers of one pool, and those of another do not reach its hosts.
func (f *queueFlags) choosePool(launches []*launch.Launch) error {
	pools := map[string][]string{}
	for _, l := range launches {
		if err := launch.CheckPool(l.Playbook, l.Hosts, f.pool); err != nil {
			return &console.Exit{Code: console.ExitInvalid, Err: err}
		}
		for _, h := range l.Hosts {
			if pool := launch.PoolOf(l.Playbook, h); pool != "" {
				pools[pool] = append(pools[pool], h.Name)
			}
		}
	}
	if f.pool != "" {
		return nil
	}
	if len(pools) > 1 {
		names := slices.Sorted(maps.Keys(pools))
		for _, pool := range names { // several playbooks may have the same hosts
			slices.Sort(pools[pool])
			pools[pool] = slices.Compact(pools[pool])
		}
		return console.Invalid("the hosts are in the pools %s (%s); a run has the workers of one pool\nhint: --select 'host.pool == %q', one run for each pool",
			strings.Join(names, ", "), launch.ListPools(pools), names[0])
	}
	for pool := range pools {
		f.pool = pool
	}
	return nil
}

// open makes the queue, behind which all is sealed where there is a key ring, and says what of it an operator should know. closeQueue comes after its last use.
func (f *queueFlags) open(ctx context.Context, a *app) (q queue.Queue, closeQueue func() error, err error) {
	ring, err := f.keyring.open(a)
	if err != nil {
		return nil, nil, err
	}
	loud := func(text string) { a.Message(a.Paint(console.Yellow, "warning: ") + text) }
	if f.url == "" {
		f.own = memory.New(memory.Options{Remains: f.remains})
		closeQueue = func() error { f.own.Shutdown(); return nil }
		if f.states == "" {
			return sealed.New(f.own, ring, loud), closeQueue, nil
		}
		kept, err := stash.New(f.own, f.states)
		if err != nil {
			return nil, nil, errors.Join(err, closeQueue())
		}
		return sealed.New(kept, ring, loud), closeQueue, nil
	}
	client, err := redisconn.Dial(f.url)
	if err != nil {
		return nil, nil, err
	}
	r, err := redis.New(client, redis.Options{Pool: cmp.Or(f.pool, node.DefaultPool)})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	warnings, err := r.Preflight(ctx)
	if f.patient && errors.Is(err, core.ErrUnavailable) {
		a.Message(a.Paint(console.Yellow, "warning: ") + "the queue does not answer yet: " + err.Error())
		err = nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	for _, w := range warnings {
		a.Message(a.Paint(console.Yellow, "warning: ") + w)
	}
	return sealed.New(r, ring, loud), client.Close, nil
}
