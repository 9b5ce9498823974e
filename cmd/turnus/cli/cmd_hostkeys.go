package cli

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/keyview"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/hostkeys"
	"github.com/turnus/turnus/core/transport"
)

func (a *app) hostKeysCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "hostkeys", Short: "Scan, accept and check the SSH host keys of an inventory",
		Long: `Scan, accept and check the SSH host keys of an inventory. A run refuses a host whose key is not known.

First scan, then compare each fingerprint with the host's console, then accept.`,
		Example: `  turnus hostkeys scan -i hosts.ini
  turnus hostkeys accept -i hosts.ini web1 SHA256:jyZGvBTD0JZnsrFLqd6y4vTfYlvj7kjHpxmTqPXg1xU
  turnus hostkeys check -i hosts.ini`,
	}
	c.AddCommand(a.hostKeysScanCmd(), a.hostKeysAcceptCmd(), a.hostKeysCheckCmd())
	return c
}

// keyFlags choose hosts and the way to reach them.
type keyFlags struct {
	inv    localrun.InventoryFlags
	node   node.Flags
	server remote.Flags // of commands that scan
}

func (f *keyFlags) add(c *cobra.Command) {
	f.inv.Add(c)
	c.ValidArgsFunction = f.inv.Complete
	f.node.AddDial(c)
	f.node.SSH.NewKnownHosts = true
}

// open loads the inventory, and makes a pool that has dialled nothing.
func (f *keyFlags) open(ctx context.Context, a *app, pattern []string) ([]core.Host, *transport.Pool, func(), error) {
	if err := f.inv.Pattern(pattern); err != nil {
		return nil, nil, nil, err
	}
	inv, hosts, err := f.inv.Load(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	a.Warn(inv.Warnings)
	f.node.SSH.Inventory = f.inv.Argument()
	pool, end, err := f.node.Dial(ctx, inv, a.Warnings())
	if err != nil {
		return nil, nil, nil, err
	}
	return hosts, pool, end, nil
}

func (a *app) hostKeysScanCmd() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use: "scan -i INVENTORY [PATTERN]", Short: "Show the keys of hosts, and remember them for accept",
		Long: `Show the keys of hosts, and remember them for accept for 24 hours. It trusts no key and does not log in
to the hosts: only to their jump hosts, and only if the keys of these are known. PATTERN is a --limit.

With --context or --server workers of the server scan the hosts, for a machine that cannot reach them.
That takes a token with the role operator. The keys are compared with those that this machine knows.

Exit codes: 0 all hosts showed keys; 2 a key has changed or is refused; 4 a host is unreachable.`,
		Example: `  turnus hostkeys scan -i hosts.ini
  turnus hostkeys scan -i hosts.ini 'web*' -o json
  turnus hostkeys scan -i hosts.ini --context prod`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.scanKeys(cmd, &f, args)
			if err != nil {
				return err
			}
			pending, err := pendingKeys()
			if err == nil {
				err = pending.Add(time.Now(), list)
			}
			if err != nil {
				return err
			}
			return keyview.Scanned(a.Console, list, nil, f.inv.Argument(), false)
		},
	}
	f.add(c)
	f.server.Add(c)
	return c
}

func (a *app) hostKeysCheckCmd() *cobra.Command {
	var f keyFlags
	var dns sshfpFlags
	c := &cobra.Command{
		Use: "check -i INVENTORY [PATTERN]", Short: "Compare the keys of hosts with the known ones",
		Long: `Compare the keys of hosts with the known ones. It stores nothing. --sshfp also compares them with the
SSHFP records of the hosts, where DNSSEC signs them. With --context or --server workers of the server
scan the hosts.

Exit codes: 0 all match; 2 a key is unknown, has changed or is refused; 4 a host is unreachable.`,
		Example: `  turnus hostkeys check -i hosts.ini
  turnus hostkeys check -i hosts.ini --sshfp`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.scanKeys(cmd, &f, args)
			if err != nil {
				return err
			}
			vouches, err := dns.lookUp(cmd.Context(), a, list)
			if err != nil {
				return err
			}
			return keyview.Scanned(a.Console, list, vouches, f.inv.Argument(), true)
		},
	}
	f.add(c)
	f.server.Add(c)
	dns.add(c, "also compare the keys with SSHFP records, where DNSSEC signs them")
	return c
}

// scanKeys returns the hosts and their jump hosts, these first.
func (a *app) scanKeys(cmd *cobra.Command, f *keyFlags, pattern []string) ([]hostkeys.Result, error) {
	hosts, pool, end, err := f.open(cmd.Context(), a, pattern)
	if err != nil {
		return nil, err
	}
	defer end()
	if f.server.Server+f.server.Context != "" {
		return a.askWorkers(cmd, f, pool, hosts)
	}
	if err := onlyRemote(cmd.Flags()); err != nil {
		return nil, err
	}
	ctx, stop := a.Interruptible(cmd.Context())
	defer stop()
	var asked atomic.Int64
	stopView := keyview.Progress(a.Console, len(hostkeys.Targets(pool, hosts)), func() int { return int(asked.Load()) })
	list := hostkeys.Scan(ctx, pool, hosts, func() { asked.Add(1) })
	stopView()
	return list, ctx.Err()
}

// askWorkers has workers of a server scan the hosts and their jump hosts.
func (a *app) askWorkers(cmd *cobra.Command, f *keyFlags, pool *transport.Pool, hosts []core.Host) (list []hostkeys.Result, err error) {
	var n api.NewKeyScan
	for _, h := range hostkeys.Targets(pool, hosts) {
		n.Hosts = append(n.Hosts, h.Name)
	}
	err = remote.Run(a.Console, &f.server, func(ctx context.Context, c *client.Client, _ []string) error {
		run, err := c.ScanHostKeys(ctx, onceKey(), n)
		if err != nil {
			return err
		}
		jobs, err := runview.Ended(ctx, a.Console, c, run.ID)
		list = keyview.Reported(pool, hosts, jobs)
		return err
	})(cmd, nil)
	return list, err
}

// pendingKeys remembers scans of this user.
func pendingKeys() (*hostkeys.Pending, error) {
	dir, err := settings.StateDir()
	if err != nil {
		return nil, err
	}
	return hostkeys.OpenPending(filepath.Join(dir, "hostkeys"))
}

func (a *app) hostKeysAcceptCmd() *cobra.Command {
	var f keyFlags
	var allNew, replace, pins bool
	var expect string
	var dns sshfpFlags
	c := &cobra.Command{
		Use: "accept -i INVENTORY [HOST SHA256:...]...", Short: "Trust scanned keys by their fingerprints",
		Long: `Trust scanned keys by their fingerprints: write them to known_hosts (the first --known-hosts file). It connects
to no host: it accepts only keys that the last scan showed. --sshfp asks DNS for the fingerprints, and
accepts answers only that a validating resolver marks as authentic.

Exit codes: 0 all are accepted; 2 some are refused.`,
		Example: `  turnus hostkeys accept -i hosts.ini web1 SHA256:jyZGvBTD0JZnsrFLqd6y4vTfYlvj7kjHpxmTqPXg1xU
  turnus hostkeys accept -i hosts.ini --expect console.txt
  turnus hostkeys accept -i hosts.ini --sshfp
  turnus hostkeys accept -i hosts.ini --accept-all-new
  turnus hostkeys accept -i hosts.ini --accept-all-new --pins > host-keys.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pairs, err := wantedKeys(args, expect)
			if err != nil {
				return err
			}
			if ways := []bool{allNew, dns.on, len(pairs) > 0}; len(slices.DeleteFunc(ways, func(on bool) bool { return !on })) != 1 || allNew && replace {
				return console.Invalid("expected HOST SHA256:…, --expect FILE, --sshfp, or --accept-all-new alone\nhint: turnus hostkeys accept --help")
			}
			list, err := a.decideKeys(cmd.Context(), &f, pairs, &dns, replace)
			if err != nil {
				return err
			}
			return a.acceptKeys(list, pins)
		},
	}
	f.add(c)
	dns.add(c, "accept the scanned keys that SSHFP records vouch for, where DNSSEC signs them")
	c.Flags().BoolVar(&allNew, "accept-all-new", false, "accept the scanned keys of all hosts of which no key is known")
	c.Flags().StringVar(&expect, "expect", "", "file of fingerprints read at the hosts' consoles, lines of HOST SHA256:...")
	c.Flags().BoolVar(&replace, "replace", false, "accept a changed key by its fingerprint or SSHFP record, in place of the known key")
	c.Flags().BoolVar(&pins, "pins", false, "print an inventory that pins the keys, and leave known_hosts alone")
	return c
}

const maxExpected = 16 << 20 // bytes of --expect

// wantedKeys reads the fingerprints of arguments and --expect.
func wantedKeys(args []string, expect string) ([]hostkeys.Pair, error) {
	pairs, err := hostkeys.Pairs(args)
	if err != nil {
		return nil, console.Invalid("%w", err)
	}
	if expect == "" {
		return pairs, nil
	}
	text, err := settings.ReadFile(expect, maxExpected)
	if err != nil {
		return nil, console.Invalid("--expect: %w", err)
	}
	more, err := hostkeys.ParsePairs(string(text))
	if err == nil && len(more) == 0 {
		return nil, console.Invalid("--expect %s: the file has no fingerprints", expect)
	}
	if err != nil {
		return nil, console.Invalid("--expect %s: %w", expect, err)
	}
	return append(pairs, more...), nil
}

// decideKeys decides about the keys that the last scan saw: by pairs, by DNS, or about all of them.
func (a *app) decideKeys(ctx context.Context, f *keyFlags, pairs []hostkeys.Pair, dns *sshfpFlags, replace bool) ([]hostkeys.Decision, error) {
	hosts, pool, end, err := f.open(ctx, a, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	pending, err := pendingKeys()
	if err != nil {
		return nil, err
	}
	seen, err := pending.Results(time.Now(), pool, hostkeys.Targets(pool, hosts))
	if err != nil {
		return nil, err
	}
	vouches, err := dns.lookUp(ctx, a, seen)
	switch {
	case err != nil:
		return nil, err
	case dns.on:
		return hostkeys.BySSHFP(seen, vouches, replace), nil
	case len(pairs) == 0:
		return hostkeys.AllNew(seen), nil
	}
	byName := map[string]hostkeys.Result{}
	for _, r := range seen {
		byName[r.Host.Name] = r
	}
	return hostkeys.ByFingerprint(byName, pairs, replace), nil
}

// acceptKeys writes what was decided, and shows it.
func (a *app) acceptKeys(list []hostkeys.Decision, pins bool) error {
	if pins {
		return keyview.Pins(a.Console, list)
	}
	list = hostkeys.Writable(list)
	if err := hostkeys.Save(list); err != nil {
		return err
	}
	return keyview.Decisions(a.Console, list)
}

// sshfpFlags are the flags for keys that DNS proves, and for the resolver that validates.
type sshfpFlags struct {
	on       bool
	resolver string
}

func (f *sshfpFlags) add(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.on, "sshfp", false, usage)
	c.Flags().StringVar(&f.resolver, "resolver", "", "validating DNS resolver that you trust, ADDRESS or ADDRESS:PORT; when not given, that of this machine on loopback")
}

// lookUp asks DNS for scanned hosts, and returns one answer for each; nil without --sshfp.
func (f *sshfpFlags) lookUp(ctx context.Context, a *app, list []hostkeys.Result) ([]hostkeys.Vouch, error) {
	if !f.on {
		if f.resolver != "" {
			return nil, console.Invalid("--resolver is for --sshfp\nhint: add --sshfp")
		}
		return nil, nil
	}
	r, err := hostkeys.OpenResolver(f.resolver)
	if err != nil {
		return nil, err
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	vouches := r.LookUp(ctx, list)
	return vouches, ctx.Err()
}
