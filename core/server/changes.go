package server

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// How often marks are read at most while somebody waits for changes: they take 5 % of a core at
// most, also of a ledger with very many unfinished runs.
const (
	changesEvery = time.Second
	changesShare = 20
)

func (s *Server) changesRoute() {
	follow := route{
		id: "follow-changes", method: http.MethodGet, path: "/v1/changes", summary: "Wait until lists are worth reading again", role: Viewer, stream: true,
		detail: "With at of the response before as since, nothing is missed between two requests, also with another server. " +
			"It waits at most wait_seconds, and then answers without topics.",
	}
	handle(s, follow, func(ctx context.Context, by caller, in *struct {
		Since string      `query:"since" maxLength:"400" doc:"at of the response before"`
		Topic []api.Topic `query:"topic,explode" enum:"runs,fleet,queue,schedules,project" doc:"these only; all without"`
		Wait  int         `query:"wait_seconds" minimum:"0" maximum:"25" default:"0"`
	},
	) (*body[api.Changes], error) {
		release, err := s.streams.take(by)
		if err != nil {
			return nil, err
		}
		defer release()
		topics := slices.DeleteFunc(api.Topics(), func(t api.Topic) bool { return len(in.Topic) > 0 && !slices.Contains(in.Topic, t) })
		changed, err := s.awaitChanges(ctx, by, topics, marksIn(in.Since), time.Duration(in.Wait)*time.Second)
		if err != nil {
			return nil, err
		}
		if in.Wait > 0 { // the token may have been revoked meanwhile
			if _, status, why := s.admit(ctx, "Bearer "+by.secret, follow); status != 0 {
				return nil, huma.NewError(status, why)
			}
		}
		return &body[api.Changes]{changed}, nil
	})
}

// awaitChanges returns when a topic differs from what was seen, or the time has passed.
func (s *Server) awaitChanges(ctx context.Context, by caller, topics []api.Topic, seen map[api.Topic]string, wait time.Duration) (api.Changes, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	for over := wait == 0; ; {
		changed, err := s.changes.since(ctx, s, by, topics, seen)
		if err != nil || over || len(changed.Topics) > 0 {
			return changed, err
		}
		select {
		case <-tick.C:
		case <-end.C:
			over = true
		case <-ctx.Done():
			return changed, context.Cause(ctx)
		}
	}
}

// marksIn reads Changes.At. Any other text matches nothing.
func marksIn(at string) map[api.Topic]string {
	seen := map[api.Topic]string{}
	for part := range strings.SplitSeq(at, ".") {
		topic, mark, _ := strings.Cut(part, ":")
		seen[api.Topic(topic)] = mark
	}
	return seen
}

// changes has the marks that were read last. The first request after a while reads them again, and
// all others share the reading.
type changes struct {
	mu     sync.Mutex // held while marks are read
	at     time.Time
	every  time.Duration
	last   marks
	sets   uint64 // counts sets of the project, from a random number on
	fleet  map[string]fleetMark
	own    map[string]ownHosts // by tenant, as of the set of the project
	newest map[string]string   // the run that was made last, by tenant; as of at
}

// marks is the state that topics depend on.
type marks struct {
	ledger.Marks
	set       *definitions.Set
	version   int64
	rejected  string
	queueAway bool
}

// fleetMark is the mark of a tenant's hosts, as of a mark of all runs and hosts.
type fleetMark struct{ of, mark uint64 }

// ownHosts is a mark of a tenant's hosts, and the window sets that they wait for.
type ownHosts struct {
	mark uint64
	sets map[string]bool
}

// since compares the marks of a caller with those seen before.
func (c *changes) since(ctx context.Context, s *Server, by caller, topics []api.Topic, seen map[api.Topic]string) (api.Changes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= c.every {
		if err := c.read(ctx, s); err != nil {
			return api.Changes{}, err
		}
	}
	changed := api.Changes{Topics: []api.Topic{}}
	at := make([]string, 0, len(topics))
	for _, topic := range topics {
		mark, err := c.mark(ctx, s, by, topic)
		if err != nil {
			return api.Changes{}, err
		}
		text := strconv.FormatUint(mark, 36)
		at = append(at, string(topic)+":"+text)
		if seen[topic] != text {
			changed.Topics = append(changed.Topics, topic)
		}
	}
	changed.At = strings.Join(at, ".")
	return changed, nil
}

func (c *changes) read(ctx context.Context, s *Server) error {
	begun := time.Now()
	read, err := s.cfg.Ledger.Marks(ctx)
	if err != nil {
		return err
	}
	status := s.cfg.Catalog.Status()
	next := marks{Marks: read, set: s.cfg.Catalog.Set(), version: status.Version, queueAway: s.cfg.Controller.Away() != nil}
	if why := status.Rejection(); why != nil {
		next.rejected = fmt.Sprint(why.Revision, why.By, why.Error)
	}
	if c.sets == 0 {
		c.sets = rand.Uint64() //nolint:gosec // servers must differ; it is no secret
	}
	if c.last.set != next.set {
		c.sets++
		c.fleet, c.own = map[string]fleetMark{}, map[string]ownHosts{}
	}
	c.last, c.at, c.newest = next, begun, map[string]string{}
	c.every = max(changesEvery, changesShare*time.Since(begun))
	return nil
}

// mark is that of one topic for a caller: it depends on nothing of which the caller must not know.
func (c *changes) mark(ctx context.Context, s *Server, by caller, topic api.Topic) (uint64, error) {
	switch topic {
	case api.TopicRuns:
		newest, err := c.newestOf(ctx, s, by.scope, by.token.Tenant)
		return markOf(sum(c.last.Runs, by), newest, c.last.queueAway), err
	case api.TopicSchedules:
		return sum(c.last.Schedules, by), nil
	case api.TopicProject:
		return c.project(s, by), nil
	case api.TopicFleet:
		return c.ofFleet(ctx, s, by)
	}
	return c.ofQueue(ctx, s, by)
}

// sum is a mark of all tenants that a caller sees.
func sum(tenants map[string]uint64, by caller) (all uint64) {
	if !by.scope.All() {
		return tenants[by.token.Tenant]
	}
	for _, mark := range tenants {
		all += mark
	}
	return all
}

// newestOf returns the run that was made last: one that also ended between two readings leaves no
// other trace in the marks.
func (c *changes) newestOf(ctx context.Context, s *Server, scope ledger.Scope, tenant string) (string, error) {
	if scope.All() {
		tenant = everyTenant
	}
	if id, ok := c.newest[tenant]; ok {
		return id, nil
	}
	runs, _, err := s.cfg.Ledger.Runs(ctx, scope, ledger.RunFilter{}, ledger.Page{Limit: 1})
	if err != nil {
		return "", err
	}
	id := ""
	if len(runs) > 0 {
		id = runs[0].ID
	}
	c.newest[tenant] = id
	return id, nil
}

func markOf(values ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%v", values)
	return h.Sum64()
}

func (c *changes) project(s *Server, by caller) uint64 {
	approvals := s.cfg.Catalog.Approvals()
	if by.scope.All() {
		return markOf(c.sets, c.last.version, c.last.rejected, len(approvals))
	}
	own, seen := c.hosts(s, by), 0
	for i := range approvals {
		if a := &approvals[i]; a.Tenant == by.token.Tenant || a.Tenant == "" && own.sets[a.Set] {
			seen++
		}
	}
	return markOf(c.last.version, seen, own.mark)
}

// hosts returns the hosts of a tenant's caller as of the set of the project.
func (c *changes) hosts(s *Server, by caller) ownHosts {
	own, ok := c.own[by.token.Tenant]
	if ok || c.last.set == nil {
		return own
	}
	own.sets = map[string]bool{}
	for _, h := range s.hosts(by, c.last.set) {
		own.mark += markOf(h.Name, h.Customer, h.Site, h.HAGroup, h.Groups)
		if defs := c.last.set.Windows; h.WindowSet != "" && !own.sets[h.WindowSet] && defs.Sets[h.WindowSet] != nil {
			own.sets[h.WindowSet] = true
			for _, name := range defs.Serves(h.WindowSet) {
				own.sets[name] = true
			}
		}
	}
	c.own[by.token.Tenant] = own
	return own
}

// ofFleet reads the last outcomes of a tenant's hosts only after some run changed: which run it
// was, another tenant must not know.
func (c *changes) ofFleet(ctx context.Context, s *Server, by caller) (uint64, error) {
	newest, err := c.newestOf(ctx, s, ledger.AllTenants(), everyTenant)
	if err != nil {
		return 0, err
	}
	runs := markOf(newest)
	for _, mark := range c.last.Runs {
		runs += mark
	}
	if by.scope.All() || c.last.set == nil {
		return markOf(runs, c.sets), nil
	}
	if kept, ok := c.fleet[by.token.Tenant]; ok && kept.of == runs {
		return kept.mark, nil
	}
	all := c.hosts(s, by).mark
	hosts := s.hosts(by, c.last.set)
	for some := range slices.Chunk(hosts, ledger.MaxPage) {
		names := make([]string, len(some))
		for i := range some {
			names[i] = some[i].Name
		}
		last, err := s.cfg.Ledger.LastJobs(ctx, by.scope, names)
		if err != nil {
			return 0, err
		}
		for host, job := range last {
			all += markOf(host, job.Run, job.Index, job.Outcome, job.Recorded.UnixMicro())
		}
	}
	c.fleet[by.token.Tenant] = fleetMark{runs, all}
	return all, nil
}

// ofQueue is a mark of what the page of the queue shows. The census is kept for some seconds.
func (c *changes) ofQueue(ctx context.Context, s *Server, by caller) (uint64, error) {
	if c.last.queueAway { // nobody waits for it while the lock is held
		return markOf("away"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	seen, err := s.census.read(ctx, s)
	if err != nil {
		return markOf("away"), nil // the caller has to know
	}
	if !by.scope.All() {
		return markOf(shareOf(&seen.load, by.token.Tenant, 0)), nil
	}
	workers := slices.Clone(seen.workers)
	for i := range workers {
		workers[i].Reported = time.Time{}
	}
	text, err := json.Marshal(map[string]any{"load": seen.load, "workers": workers})
	if err != nil {
		return 0, fmt.Errorf("compare the queue: %w: %w", core.ErrUnavailable, err)
	}
	return markOf(string(text)), nil
}
