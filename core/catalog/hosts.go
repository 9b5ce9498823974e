package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// knownSource is a source as this server knows it from the ledger.
type knownSource struct {
	sources.Source
	version int64 // of its state
	state   sources.State
	read    bool // the generation of state.ID is in used
	used    *inventory.Document
	use     core.SourceUse // of used, without Hosts
}

// sourceHosts are the hosts of sources in a Current. They are never changed in place.
type sourceHosts struct {
	serial int64                     // another one after each change, in this process
	source map[string]string         // host to its source
	uses   map[string]core.SourceUse // by source, as read with its hosts
	taken  map[string]definitions.TakenHosts
}

func (c *Catalog) knownSources() []knownSource { return core.Locked(&c.mu, &c.sources) }

// knows lists the sources in the settings.
func (c *Catalog) knows() []definitions.KnownSource {
	return core.Map(c.cfg.Sources, func(s sources.Source) definitions.KnownSource {
		return definitions.KnownSource{Name: s.Name, Tenant: s.Tenant}
	})
}

// take puts the hosts of sources beside the project's.
func (c *Current) take(ctx context.Context, known []knownSource) error {
	var from []inventory.Document
	var names []string
	hosts := sourceHosts{serial: c.hosts.serial + 1, source: map[string]string{}, uses: map[string]core.SourceUse{}, taken: map[string]definitions.TakenHosts{}}
	for _, k := range known {
		if k.used != nil {
			from, names = append(from, *k.used), append(names, k.Name)
			hosts.uses[k.Name] = k.use
		}
	}
	c.Set = c.own
	if len(from) > 0 {
		set, taken, err := c.own.WithHosts(ctx, from)
		if err != nil {
			return err
		}
		c.Set = set
		for i, t := range taken {
			hosts.taken[names[i]] = t
			for _, h := range t.Names {
				hosts.source[h] = names[i]
			}
		}
	}
	c.hosts = hosts
	return nil
}

// refreshSources takes over what the ledger has of sources, if it is newer than what this server
// runs by.
func (c *Catalog) refreshSources(ctx context.Context) error {
	c.sourcing.Lock()
	defer c.sourcing.Unlock()
	next, other, moved := slices.Clone(c.knownSources()), false, false
	for i := range next {
		k := &next[i]
		version, err := c.keeper.Version(ctx, k.Source)
		if err != nil {
			return err
		}
		if version == k.version && k.read {
			continue
		}
		had := k.state.ID
		if k.state, err = c.keeper.State(ctx, k.Source); err != nil {
			return err
		}
		moved, k.version = true, version
		if k.read && had == k.state.ID {
			continue
		}
		used, _, err := c.keeper.Generations(ctx, k.Source)
		if errors.Is(err, core.ErrInvalid) { // a newer version wrote it: the other hosts are used
			c.trouble(ctx, "cannot read the hosts of source "+k.Name, err)
		} else if err != nil {
			return err
		}
		other, k.read, k.used = other || used != nil, true, nil
		if used != nil {
			doc := used.Document(k.Tenant)
			k.used, k.use = &doc, k.state.Use(used)
		}
	}
	if !moved {
		return nil
	}
	return c.adoptSources(ctx, next, other)
}

// adoptSources runs by what sources gave from now on.
func (c *Catalog) adoptSources(ctx context.Context, known []knownSource, other bool) error {
	c.taking.Lock()
	defer c.taking.Unlock()
	now := c.Current()
	if other && now.own != nil {
		if err := now.take(ctx, known); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.sources = &now, known
	return nil
}

// sourceOf returns launch.Options.Source of hosts of now; nil if no source gave any.
func (c *Catalog) sourceOf(now *Current) func(host string) (core.SourceUse, bool) {
	if len(now.hosts.source) == 0 {
		return nil
	}
	uses := maps.Clone(now.hosts.uses)
	for _, k := range c.knownSources() {
		if use, ok := uses[k.Name]; ok {
			uses[k.Name] = k.state.Seen(use)
		}
	}
	return func(host string) (core.SourceUse, bool) {
		use, ok := uses[now.hosts.source[host]]
		return use, ok
	}
}

// launchable returns what Prepare made, unless hosts of it are of a source that is too old.
func (c *Catalog) launchable(now *Current, made *launch.Launch, scope ledger.Scope, err error) (*launch.Launch, error) {
	if err == nil {
		err = c.fresh(now, made, scope)
	}
	if err != nil {
		return nil, c.unfetched(scope, err)
	}
	return made, nil
}

// unfetched is the error of a launch that finds no host. It names a source that has given no host
// yet, if there is one.
func (c *Catalog) unfetched(scope ledger.Scope, err error) error {
	if !errors.Is(err, core.ErrNotFound) {
		return err
	}
	for _, k := range c.knownSources() {
		if k.state.ID == "" && scope.Allows(k.Tenant) {
			return k.state.Stale(k.Source, time.Now())
		}
	}
	return err
}

// fresh refuses a launch with hosts, also of hosts('…') or a step's on, of a source whose last good
// generation is older than its max_age or of other settings, with a *sources.StaleError. Why it is
// so is for those who may see the source: it may name other hosts.
func (c *Catalog) fresh(now *Current, l *launch.Launch, scope ledger.Scope) error {
	if len(now.hosts.source) == 0 {
		return nil
	}
	stale := map[string]error{}
	for _, k := range c.knownSources() {
		err := k.state.Stale(k.Source, time.Now())
		if why, ok := errors.AsType[*sources.StaleError](err); ok && !scope.Allows(k.Tenant) {
			why.Why = "the operators of the service know why"
		}
		stale[k.Name] = err
	}
	of := func(host string) error {
		if err := stale[now.hosts.source[host]]; err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		return nil
	}
	for i := range l.Hosts {
		if err := of(l.Hosts[i].Name); err != nil {
			return err
		}
	}
	for _, host := range l.Listed {
		if err := of(host); err != nil {
			return fmt.Errorf("hosts() of playbook %s: %w", l.Playbook.Name, err)
		}
	}
	for step, host := range l.AllDelegates() {
		if err := of(host.Name); err != nil {
			return fmt.Errorf("on of step %s: %w", l.Playbook.Steps[step].Name, err)
		}
	}
	return nil
}
