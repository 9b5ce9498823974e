// Package launch owns the step from a playbook and an inventory to a run: which
// hosts, in which order and waves, and the snapshot that later edits cannot change.
//
// It must not know how hosts are reached, how plugins run, or how things are shown.
package launch

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// Options define how a playbook is launched.
type Options struct {
	RunID       string    // NewRunID by default; the key under which a launch happens once
	Now         time.Time // time.Now by default; goes into the run id and the snapshot
	Vars        map[string]any
	Tags        []string // run only steps with one of these; none: all
	SkipTags    []string // and none with one of these
	Check       bool
	Diff        bool
	Become      *core.BecomeRule // for steps without one in the playbook; nil: as in the inventory
	Reason      string           // why it is launched, for people; "" where nobody gave one
	MaxInFlight int              // -f: overrides the strategy's when greater than 0
	Revision    string
	LaunchedBy  string
	Files       string         // where workers find the playbook's files; they resolve it
	Trace       string         // a W3C traceparent, under which the run is traced; "" for none
	Asked       snapshot.Asked // what chose the hosts, for people, with the whole limit
	// Types finds a job type. It decides what losing a worker means and which steps are disruptive.
	// Nil, or an unknown type, is taken as disruptive and not repeatable.
	Types func(name string) (playbooks.Type, bool)

	// Place is where Types are, such as "the server". Workers name it where they have another version
	// of a plugin.
	Place string

	// Pool is the pool whose workers take the run. Hosts of another pool are refused, see CheckPool;
	// "" refuses none.
	Pool string

	// Secrets are the references of the definitions, by name: those that the playbook's steps list go
	// into the snapshot.
	Secrets map[string]secrets.Ref
	// NodeSecrets are the names of the secrets that the nodes have of their own, where the launcher
	// knows them: then a name that is neither here nor in Secrets is core.ErrInvalid. Nil: a name that
	// is not in Secrets is left to the node to find.
	NodeSecrets []string

	// Facts returns what is on record of a host; false where nothing is. Nil: nothing is of any host.
	Facts func(core.Host) (core.Facts, bool)

	// Inventory are the hosts that hosts('…') selects from, and on finds its host in: those that the
	// launcher may see, before any limit. Nil: the hosts given to Prepare.
	Inventory []core.Host

	// Source returns the source that gave a host, without SourceUse.Hosts; false: none did. Nil: no
	// source gave any.
	Source func(host string) (core.SourceUse, bool)

	// Windows are the maintenance windows that steps with a window wait for; nil: no step waits.
	Windows *admission.Calendar
	// SkipNoWindow leaves out hosts that no window fits, and lists them in Launch.NoWindow. Without it
	// they are a *NoWindowError.
	SkipNoWindow bool
	// Need is the time that a step with a window without needs: takes, learned from earlier runs; nil,
	// and false, is not known.
	Need func(playbook, step, uses string) (time.Duration, bool)
	// Kept returns how many steps, from the first on, a retry need not call on hosts, by their names:
	// an earlier run called them, see SetResume. Nil: it calls all steps on each host.
	Kept func(p *playbooks.Playbook, hosts []core.Host) (map[string]int, error)
	// FourEyes reports whether the runs of a tenant, and those on its hosts, need another person's
	// approval; nil: none do.
	FourEyes func(tenant string) bool
	// TenantWeight is the share of the workers that a tenant has beside others; nil: 1 each.
	TenantWeight func(tenant string) int
	kept         map[string]int
	within       time.Duration // that targets: take for all hosts; playbooks.TargetsTime when zero, less in tests

	// Board is the name under which workers find the windows, see admission.PublisherOptions.
	Board string
}

// Launch is a playbook made ready for its hosts. It is not changed after Prepare.
type Launch struct {
	Playbook *playbooks.Playbook
	Run      queue.Run
	Hosts    []core.Host // in the order of Run.Targets
	Limits   []int       // cumulative waves, see rollout.Limits
	Snapshot snapshot.Snapshot
	After    rollout.After // who comes after whom; nil in a run that disrupts nothing
	Starts   []Start       // of each of Hosts; nil when no step waits for a window
	NoWindow []NoWindow    // hosts left out by Options.SkipNoWindow
	// WithoutFacts are the hosts that are left out because targets read facts, and the record has none
	// of them that are fresh enough. They are known of the launch itself only: no record keeps them.
	WithoutFacts []string
	// Delegates are the hosts on which steps with on are called for hosts of the run, by the index of
	// the step and by their names.
	Delegates map[int]map[string]core.Host
	// Listed are the hosts that hosts('…') gives, each once.
	Listed []string
	// Asks is a window that the playbook asks for, though nothing may wait for it: no windows
	// were given, or no step under it is disruptive. "" if it asks for none.
	Asks string
	// Inert is set if the playbook asks for a window, and no step, with any tags, waits for one: the
	// window has no effect.
	Inert bool
	// FourEyes is why another person has to approve the run before it starts: "" where nothing
	// demands it, or in check mode.
	FourEyes string
}

// Prepare selects the playbook's hosts among hosts, orders them, cuts them into waves, and builds
// the run. No host selected is core.ErrNotFound, a *NoFactsError where facts are missing that
// targets read. With Options.Windows each host has its own start; hosts that no window fits are a
// *NoWindowError that lists them all.
func Prepare(p *playbooks.Playbook, hosts []core.Host, o Options) (*Launch, error) {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.RunID == "" {
		o.RunID = NewRunID(o.Now)
	}
	var err error
	if o.Reason, err = core.CheckReason(o.Reason); err != nil {
		return nil, err
	}
	if err := p.CheckVars(o.Vars); err != nil {
		return nil, err
	}
	if err := p.CheckRequired(); err != nil {
		return nil, err
	}
	selected, without, err := selectHosts(p, hosts, o)
	if err != nil {
		return nil, err
	}
	if err := snapshot.CheckPool(p, selected, o.Pool); err != nil {
		return nil, err
	}
	if o.Kept != nil {
		if o.kept, err = o.Kept(p, selected); err != nil {
			return nil, err
		}
	}
	l := &Launch{Playbook: p, Snapshot: newSnapshot(p, o), Asks: asks(p, o), WithoutFacts: without}
	if l.Snapshot.Secrets, err = references(p, o); err != nil {
		return nil, err
	}
	if o.Inventory == nil {
		o.Inventory = hosts
	}
	if err := l.delegate(selected, o); err != nil {
		return nil, err
	}
	if err := l.place(selected, hosts, o); err != nil {
		return nil, err
	}
	if l.Snapshot.Hosts, err = l.newHostLists(o.Inventory, o); err != nil {
		return nil, err
	}
	l.FourEyes, l.Snapshot.Asked = l.fourEyes(o), newAsked(o.Asked, len(l.NoWindow))
	l.Snapshot.Turns, l.Snapshot.Sources = l.newTurns(l.After), l.uses(o.Source)
	payload, err := l.Snapshot.Encode()
	if err != nil {
		return nil, err
	}
	l.Run = newRun(p, o, l.Limits)
	l.Run.Payload, l.Run.Segments = payload, segments(l.Starts)
	if err := setLocks(&l.Run, p, o); err != nil {
		return nil, err
	}
	if l.Run.Targets, err = targets(l.Hosts, groupKey(p.Strategy)); err != nil {
		return nil, err
	}
	return l, nil
}

// Repeatable reports whether another run may be made of the launch by Again: whether the time has
// no part in which hosts it is for, and when they start. targets: reads neither the run nor,
// without facts, the time.
func (l *Launch) Repeatable() bool {
	return l.Snapshot.Windows == nil && len(l.NoWindow) == 0 && l.Playbook.FactsAge == 0
}

// Again makes the launch of another run of a launch that is Repeatable. The two share what they
// have in common. source is as Options.Source: a source may have given the same hosts again since.
func (l *Launch) Again(run, launchedBy, reason, trace string, now time.Time, source func(host string) (core.SourceUse, bool)) (*Launch, error) {
	again := *l
	again.Snapshot.Sources = l.uses(source)
	again.Snapshot.Run, again.Snapshot.LaunchedBy, again.Snapshot.Reason, again.Snapshot.Trace, again.Snapshot.Launched = run, launchedBy, reason, trace, now.UTC()
	again.Run.ID = run
	var err error
	again.Run.Payload, err = again.Snapshot.Encode()
	return &again, err
}

// NewRunID makes an id that sorts by time: 20260102-030405-ab3cd5ef. Its 40 random bits keep
// thousands of a second apart: one id for two launches would refuse the second, or take it for the
// first again.
func NewRunID(now time.Time) string {
	return now.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:8])
}

// selectHosts evaluates targets: for every host. A playbook without it takes all. without are hosts
// of which that takes facts that are not on record, or too old.
func selectHosts(p *playbooks.Playbook, hosts []core.Host, o Options) (selected []core.Host, without []string, err error) {
	seen := make(map[string]bool, len(hosts))
	vars, params := mergedVars(p, o), p.Values()
	run := map[string]any{"id": o.RunID, "playbook": p.Name, "check": o.Check, "attempt": 1}
	within := cmp.Or(o.within, playbooks.TargetsTime) // with the launcher's vars, one host may take seconds
	until := time.Now().Add(within)
	for i, h := range hosts {
		if !p.Targets.Absent() {
			if !time.Now().Before(until) {
				return nil, nil, fmt.Errorf("select hosts: playbook %s: targets %s take longer than %v, evaluated for %d of %d hosts by then; loop less in them: %w",
					p.Name, quoteTargets(p), within, i, len(hosts), core.ErrInvalid)
			}
			ok, err := p.Targets.Bool(playbooks.Env{Host: o.withFacts(p, h), Vars: vars, Params: params, Run: run})
			if errors.Is(err, playbooks.ErrNoFacts) {
				without = append(without, h.Name)
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("select hosts: host %s: %w", h.Name, err)
			}
			if !ok {
				continue
			}
		}
		if seen[h.Name] {
			return nil, nil, fmt.Errorf("select hosts: host %s is there twice; names must be unique: %w", h.Name, core.ErrInvalid)
		}
		seen[h.Name] = true
		selected = append(selected, h)
	}
	if len(selected) > 0 {
		return selected, without, nil
	}
	if len(without) > 0 {
		return nil, nil, &NoFactsError{Playbook: p, Total: len(hosts), Hosts: without}
	}
	place := p.Targets.Place()
	if place != "" {
		place += ": "
	}
	why, hint := unknownGroup(p.Targets.Text, hosts)
	return nil, nil, fmt.Errorf("%splaybook %s: targets %s selects none of %d hosts%s%s: %w\nhint: %s", place, p.Name, quoteTargets(p), len(hosts), ofSources(hosts, o.Source), why, core.ErrNotFound, hint)
}

// groupWritten finds the groups that targets name as text: "web" in host.groups, has_group(host,
// "web").
var groupWritten = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`["']([^"'\\]+)["']\s+in\s+host\.groups|has_group\(\s*host\s*,\s*["']([^"'\\]+)["']`)
})

// unknownGroup returns which group of targets has no host, if there is one, and what to type next.
func unknownGroup(targets string, hosts []core.Host) (why, hint string) {
	hint = "turnus hosts ls -i INVENTORY lists the hosts; -o json with their groups and vars"
	groups := map[string]bool{}
	for _, h := range hosts {
		for _, g := range h.Groups {
			groups[g] = true
		}
	}
	for _, m := range groupWritten().FindAllStringSubmatch(targets, -1) {
		if name := m[1] + m[2]; !groups[name] {
			near := yamlread.DidYouMean(name, slices.Sorted(maps.Keys(groups)))
			return fmt.Sprintf(": no host is in a group %q", name), cmp.Or(near, hint)
		}
	}
	return "", hint
}

func quoteTargets(p *playbooks.Playbook) string {
	if p.Targets.Absent() {
		return "(all)"
	}
	return fmt.Sprintf("%q", p.Targets.Text)
}

func newRun(p *playbooks.Playbook, o Options, limits []int) queue.Run {
	total := limits[len(limits)-1]
	s := p.Strategy
	r := queue.Run{
		ID:              o.RunID,
		Tenant:          p.Tenant,
		Weight:          p.Weight,
		Priority:        p.Priority,
		MaxInFlight:     s.MaxInFlight.Of(total),
		StopAfter:       s.StopAfter.Of(total),
		StopUnreachable: s.StopUnreachable.Of(total),
	}
	if o.TenantWeight != nil {
		r.TenantWeight = o.TenantWeight(p.Tenant)
	}
	if o.MaxInFlight > 0 {
		r.MaxInFlight = o.MaxInFlight
	}
	if len(limits) > 1 {
		r.Limit = limits[0]
	}
	return r
}

// setLocks takes the settings of the steps and their job types for a lost worker and for
// disruption. In check mode nothing is changed, so everything may be repeated.
func setLocks(r *queue.Run, p *playbooks.Playbook, o Options) error {
	r.OnLost, r.Disruptive = queue.LostRetry, disrupts(p, o)
	if !o.Check {
		for _, s := range p.Calls() {
			t, known := playbooks.Type{}, false
			if o.Types != nil {
				t, known = o.Types(s.Uses)
			}
			if !known || t.OnLost != string(queue.LostRetry) {
				r.OnLost = queue.LostHold
			}
		}
	}
	keys := p.Strategy.PerGroup
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := rollout.CheckGroupKey(key); err != nil {
			return fmt.Errorf("playbook %s: strategy: %w", p.Name, err)
		}
	}
	key := groupKey(p.Strategy)
	if left := len(keys) - 1; left > 0 && (left > 1 || keys[haGroup] != 1) {
		return fmt.Errorf("playbook %s: strategy: per_group has %s: expected one key, or ha_group: 1 and one more: %w",
			p.Name, strings.Join(slices.Sorted(maps.Keys(keys)), ", "), core.ErrInvalid)
	}
	r.PerGroup = keys[key]
	return nil
}

// disrupts reports whether the run takes the locks of HA groups, and keeps hosts in their order.
func disrupts(p *playbooks.Playbook, o Options) bool {
	if keys := p.Strategy.PerGroup; len(keys) > 1 && keys[haGroup] == 1 {
		return true // the HA group's lock has the same effect, and frees per_group for the other key
	}
	return !o.Check && slices.ContainsFunc(p.Calls(), func(s playbooks.Step) bool { return s.Disrupts(playbooks.Disruptive(o.Types)) })
}

const haGroup = "ha_group"

// groupKey is the key of per_group that the queue's PerGroup enforces.
func groupKey(s rollout.Strategy) string {
	keys := slices.Sorted(maps.Keys(s.PerGroup))
	if len(keys) == 2 && s.PerGroup[haGroup] == 1 {
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == haGroup })
	}
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

func targets(hosts []core.Host, key string) ([]queue.Target, error) {
	out := make([]queue.Target, len(hosts))
	for i, h := range hosts {
		data, err := snapshot.EncodeHost(h)
		if err != nil {
			return nil, err
		}
		out[i] = queue.Target{Host: h.Name, HAGroup: h.HAGroup, Data: data}
		if key != "" {
			out[i].Group = rollout.GroupOf(key, h)
		}
	}
	return out, nil
}

// Warnings reports what may be a mistake, with what to do: hosts are left out because they have no
// facts, or hosts('…') gives none.
func (l *Launch) Warnings() (all []string) {
	if len(l.WithoutFacts) > 0 {
		all = append(all, l.factsLeftOut())
	}
	for _, list := range l.emptyLists() {
		all = append(all, fmt.Sprintf("%s: hosts('%s') gives no host\nhint: turnus hosts ls --select '%s' shows which hosts it selects", l.Playbook.Name, list.Text, list.Text))
	}
	return all
}
