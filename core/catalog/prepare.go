package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// Request is a launch of the project as it is at that time: now, or at a schedule's next fire time.
type Request struct {
	Playbook    string         `json:"playbook"`
	Limit       []string       `json:"limit,omitempty"`
	Vars        map[string]any `json:"vars,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	SkipTags    []string       `json:"skip_tags,omitempty"`
	Check       bool           `json:"check,omitempty"`
	Diff        bool           `json:"diff,omitempty"`
	MaxInFlight int            `json:"max_in_flight,omitempty"`
	Reason      string         `json:"reason,omitempty"` // why it is launched, as a person gave it
}

// bare reports whether the request has only a playbook.
func (q *Request) bare() bool { return len(q.Limit)+len(q.Vars)+len(q.Tags)+len(q.SkipTags) == 0 }

// Launching is the person who launches a request, and the hosts.
type Launching struct {
	RunID        string // "" makes one
	By           string
	Trace        string
	Scope        ledger.Scope         // the tenants whose hosts are taken
	Only         func(core.Host) bool // the hosts to take; nil takes all
	SkipNoWindow bool                 // leave out hosts that no window fits
	Asked        snapshot.Asked       // Retry, Pinned, the limit of what is pinned, and All of another person's limit
	// Kept is as launch.Options.Kept.
	Kept func(p *playbooks.Playbook, hosts []core.Host) (map[string]int, error)
}

// Prepare makes a launch of a playbook of now. No host selected is core.ErrNotFound.
func (c *Catalog) Prepare(ctx context.Context, now Current, playbook *playbooks.Playbook, q Request, l Launching) (*launch.Launch, error) {
	if len(q.Vars) > 0 { // expressions may read names that only these vars have
		text, err := json.Marshal(q.Vars)
		if err == nil && len(text) > core.QuotaVars.Max {
			err = core.QuotaVars.Exceeded("the run", len(text))
		}
		if err == nil {
			playbook, err = playbooks.Parse(playbook.File, playbook.Source, playbooks.Options{Types: c.cfg.Playbooks.Types, Vars: q.Vars, Steps: playbook.ReadSteps})
		}
		if err != nil {
			return nil, err
		}
	}
	hosts, err := hostsOf(now, q.Limit, l)
	if err != nil {
		return nil, c.unfetched(l.Scope, err)
	}
	o := c.options(now, playbook, q, l)
	if o.Facts, err = controller.FactsOnRecord(ctx, c.cfg.Ledger, l.Scope, playbook, &c.facts); err != nil {
		return nil, err
	}
	if len(playbook.HostLists()) > 0 || playbook.Delegates() {
		if o.Inventory, err = hostsOf(now, nil, Launching{Scope: l.Scope}); err != nil {
			return nil, err
		}
	}
	made, err := launch.Prepare(playbook, hosts, o)
	return c.launchable(&now, made, l.Scope, err)
}

// PrepareCommand makes a launch of a command on hosts of the inventory of now. Of q, Limit,
// MaxInFlight and Reason count. No host selected is core.ErrNotFound.
func (c *Catalog) PrepareCommand(now Current, command launch.Command, q Request, l Launching) (*launch.Launch, error) {
	hosts, err := c.hostsWithout(now, launch.CommandName, q.Limit, l)
	if err != nil {
		return nil, err
	}
	playbook, vars, err := command.Playbook(hosts, c.cfg.Playbooks.Types)
	if err != nil {
		return nil, err
	}
	q.Vars = vars
	o := c.options(now, playbook, q, l)
	o.Become = command.Become
	made, err := launch.Prepare(playbook, hosts, o)
	return c.launchable(&now, made, l.Scope, err)
}

// PrepareKeys makes a launch that collects the keys of hosts of the inventory of now, for a run of
// tenant. No host selected is core.ErrNotFound.
func (c *Catalog) PrepareKeys(now Current, tenant string, l Launching) (*launch.Launch, error) {
	hosts, err := c.hostsWithout(now, launch.KeysName, nil, l)
	if err != nil {
		return nil, err
	}
	playbook, err := launch.KeysPlaybook(tenant, c.cfg.Playbooks.Types)
	if err != nil {
		return nil, err
	}
	made, err := launch.Prepare(playbook, hosts, c.options(now, playbook, Request{}, l))
	return c.launchable(&now, made, l.Scope, err)
}

// hostsWithout selects the hosts of a run whose playbook has a name and is none of the project.
func (c *Catalog) hostsWithout(now Current, name string, limit []string, l Launching) ([]core.Host, error) {
	if _, taken := now.Set.Playbook(name); taken { // pending handlers and learned durations belong to a playbook's name
		return nil, fmt.Errorf("%s: the project has a playbook named %[1]s, which is the name of runs of turnus %[1]s: rename the playbook: %w", name, core.ErrConflict)
	}
	hosts, err := hostsOf(now, limit, l)
	if err == nil && len(hosts) == 0 {
		err = fmt.Errorf("%s: no host is selected: %w\nhint: turnus hosts map shows the hosts that the server has for you", name, core.ErrNotFound)
	}
	if err != nil {
		return nil, c.unfetched(l.Scope, err)
	}
	return hosts, nil
}

// hostsOf selects the hosts that a launch may take.
func hostsOf(now Current, limit []string, l Launching) ([]core.Host, error) {
	hosts := now.Set.Inventory.Hosts
	if len(limit) > 0 {
		var err error
		if hosts, err = limited(now.Set.Inventory.Limit, l.Scope, limit); err != nil {
			return nil, err
		}
	}
	if !l.Scope.All() || l.Only != nil {
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool {
			return !l.Scope.Allows(h.Customer) || l.Only != nil && !l.Only(h)
		})
	}
	return hosts, nil
}

func (c *Catalog) options(now Current, playbook *playbooks.Playbook, q Request, l Launching) launch.Options {
	asked := l.Asked
	asked.All = asked.All || l.Scope.All()
	if len(q.Limit) > 0 {
		asked.Limit = q.Limit
	}
	return launch.Options{
		RunID: l.RunID, Asked: asked, Files: c.FilesOf(now.Set, playbook), Vars: q.Vars, Tags: q.Tags, SkipTags: q.SkipTags, Check: q.Check, Diff: q.Diff, MaxInFlight: q.MaxInFlight, Reason: q.Reason,
		Revision: now.Set.Revision.Commit, LaunchedBy: l.By, Types: c.cfg.Playbooks.Types, Place: "the server", Windows: now.calendar, Board: BoardName, SkipNoWindow: l.SkipNoWindow, Kept: l.Kept,
		Pool: c.cfg.Pool, Secrets: now.Set.SecretRefs(), FourEyes: now.Set.FourEyes, TenantWeight: now.Set.TenantWeight, Trace: l.Trace, Source: c.sourceOf(&now),
	}
}

// limited selects hosts as --limit does, of tenants in scope. @FILE would be read here, and is
// refused; a pattern that only meets others' hosts gets the error of one that meets none.
func limited(limit func(string) ([]core.Host, error), scope ledger.Scope, patterns []string) ([]core.Host, error) {
	pattern := strings.Join(patterns, ",")
	shown := strings.ToValidUTF8(pattern[:min(len(pattern), 200)], "\uFFFD")
	if strings.Contains(pattern, "@") {
		return nil, fmt.Errorf("limit %q: @FILE is not read by a server: send the names themselves: %w", shown, core.ErrInvalid)
	}
	hosts, err := limit(pattern)
	if scope.All() {
		return hosts, err
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return !scope.Allows(h.Customer) })
	if err != nil && !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrNotFound) {
		return nil, err
	}
	if err != nil || len(hosts) == 0 { // what err suggests may be another tenant's
		return nil, fmt.Errorf("limit %q: it selects no host of yours: %w", shown, core.ErrNotFound)
	}
	return hosts, nil
}
