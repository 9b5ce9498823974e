package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// cmdb is a system with hosts.
type cmdb struct {
	mu    sync.Mutex
	hosts map[string]any
	fails error
	asked map[string]int // by server
}

func newCMDB(hosts int) *cmdb {
	s := &cmdb{asked: map[string]int{}}
	s.has(hosts)
	return s
}

func (s *cmdb) has(hosts int, more ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = map[string]any{}
	for i := range hosts {
		s.hosts[fmt.Sprintf("n%03d", i)] = map[string]any{"groups": []string{"web"}}
	}
	for i := 0; i+1 < len(more); i += 2 {
		s.hosts[more[i]] = json.RawMessage(more[i+1])
	}
}

func (s *cmdb) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *cmdb) times(server string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[server]
}

// of configures a server to ask it.
func (s *cmdb) of(server string) func(*catalog.Config) {
	return func(cfg *catalog.Config) {
		u, _ := url.Parse("https://cmdb.example")
		cfg.Sources = []sources.Source{{Name: "cmdb", Kind: sources.HTTP, URL: u, Tenant: "acme", Every: 2 * time.Minute, MaxAge: 10 * time.Minute, Rules: sources.Rules{Removed: 5}, File: server + ".yaml"}}
		cfg.Fetch = func(context.Context, sources.Source) (*sources.Generation, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.asked[server]++; s.fails != nil {
				return nil, s.fails
			}
			body, err := json.Marshal(map[string]any{"hosts": s.hosts})
			return &sources.Generation{Source: "cmdb", Fetched: time.Now().UTC(), Body: string(body)}, err
		}
	}
}

// selects are the hosts of a launch of patch.
func (l *lab) selects(c *catalog.Catalog, scope ledger.Scope, limit ...string) ([]string, error) {
	l.Helper()
	now := c.Current()
	playbook, ok := now.Set.Playbook("patch")
	if !ok {
		l.Fatal("there is no playbook")
	}
	made, err := c.Prepare(l.Context(), now, playbook, catalog.Request{Playbook: "patch", Limit: limit}, catalog.Launching{Scope: scope})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, h := range made.Hosts {
		names = append(names, h.Name)
	}
	return names, nil
}

func (l *lab) hosts(c *catalog.Catalog, limit ...string) int {
	l.Helper()
	names, err := l.selects(c, ledger.AllTenants(), limit...)
	if err != nil {
		l.Fatal(err)
	}
	return len(names)
}

func (l *lab) source(c *catalog.Catalog) catalog.HostSource {
	l.Helper()
	s, err := c.HostSource(ledger.Tenants("acme"), "cmdb")
	if err != nil {
		l.Fatal(err)
	}
	return s
}

func TestHostsOfASourceAreBesideTheProjects(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(3)
		other.has(3, "a1", `{"address": "6.6.6.6"}`, "c1", `{"customer": "birch"}`, "d1", `{"window_set": "nights"}`)
		c, stop := l.server("s1", other.of("s1"))
		defer stop()
		l.apply(c, docs("", "inventory/group_vars/web.yaml", "ntp: ntp.example\n"), 0)
		l.until("its hosts are here", func() bool { return len(c.Set().Inventory.Hosts) == 5 })
		if n, web := l.hosts(c), l.hosts(c, "web"); n != 5 || web != 3 {
			t.Errorf("%d hosts, of web %d", n, web)
		}
		if h, _ := c.Set().Inventory.Host("n001"); h.Customer != "acme" || h.Vars["ntp"] != "ntp.example" {
			t.Errorf("the project's group and the tenant are not of %+v", h)
		}
		if h, _ := c.Set().Inventory.Host("a1"); h.Address != "127.0.0.1" {
			t.Errorf("the source reached a host of the project: %+v", h)
		}
		if names, err := l.selects(c, ledger.Tenants("birch")); err != nil || !slices.Equal(names, []string{"b1"}) {
			t.Errorf("birch selects %v, %v", names, err)
		}
		if names, err := l.selects(c, ledger.Tenants("birch"), "n001"); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("birch selects %v, %v of acme's", names, err)
		}
		left := strings.Join(l.source(c).Left, "\n")
		for _, want := range []string{`c1: its customer is "birch"`, `d1: window set "nights" is not defined`, "a1: the project or another source"} {
			if !strings.Contains(left, want) {
				t.Errorf("no %q in\n%s", want, left)
			}
		}
		if _, err := c.HostSource(ledger.Tenants("birch"), "cmdb"); !errors.Is(err, core.ErrNotFound) || len(c.HostSources(ledger.Tenants("birch"))) != 0 {
			t.Errorf("birch sees acme's source: %v", err)
		}
		other.has(3)
		l.apply(c, docs("", "inventory/more.yaml", "hosts: {n000: {address: 127.0.0.9, customer: acme}}\n"), 1)
		if h, _ := c.Set().Inventory.Host("n000"); h.Address != "127.0.0.9" || l.hosts(c) != 5 {
			t.Errorf("the project does not go first: %+v", h)
		}
	})
}

// turnus.yaml may name a tenant whose hosts only a source has, not one that is misspelt. A server
// without the source runs by what another one accepted.
func TestFourEyesOfATenantOfASource(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(1)
		c, stop := l.server("s1", func(cfg *catalog.Config) {
			other.of("s1")(cfg)
			cfg.Sources[0].Tenant = "zeta"
		})
		if _, err := c.Apply(l.Context(), "ann", docs("", "turnus.yaml", "four_eyes: [zeat]\n"), definitions.Revision{}, 0); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), `did you mean "zeta"?`) {
			t.Errorf("misspelt: %v", err)
		}
		l.apply(c, docs("", "turnus.yaml", "four_eyes: [zeta]\n"), 0)
		stop()
		second, stop := l.server("s2", nil)
		defer stop()
		l.until("a server without the source runs by them", func() bool { return second.Set() != nil && second.Set().FourEyes("zeta") })
		if _, err := second.Apply(l.Context(), "ann", docs("", "turnus.yaml", "four_eyes: [zeta]\ntenant_weights: {acme: 2}\n"), definitions.Revision{}, 1); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("without a source: %v", err)
		}
	})
}

// A source of a tenant joins no window sets and HA groups of others, and names no pool that nobody
// serves. Control: its own ones, a set of the provider alone and a new group are taken.
func TestASourceOfATenantUsesNothingOfOthers(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(0)
		other.has(1, "set", `{"window_set": "birch-night"}`, "wider", `{"window_set": "base"}`, "pair", `{"ha_group": "birch-pair"}`, "core", `{"ha_group": "core-pair"}`, "pool", `{"pool": "nobody"}`,
			"own", `{"window_set": "acme-night", "ha_group": "acme-pair", "pool": "dmz"}`, "new", `{"window_set": "provider", "ha_group": "new-pair"}`, "grouped", `{"groups": ["far"]}`)
		c, stop := l.server("s1", other.of("s1"))
		defer stop()
		l.apply(c, docs("", "inventory/more.yaml", `hosts:
  a2: {address: 127.0.0.3, customer: acme, window_set: acme-night, ha_group: acme-pair, pool: dmz}
  b2: {address: 127.0.0.4, customer: birch, window_set: birch-night, ha_group: birch-pair}
  p1: {address: 127.0.0.5, window_set: provider, ha_group: core-pair}
groups:
  far: {pool: far}
`, "windows/sets.yaml", `window_sets:
  acme-night: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]}
  birch-night: {timezone: UTC, requires: [base], allow: [{rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]}
  base: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "20:00", to: "23:00"}]}
  provider: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]}
`), 0)
		l.until("its hosts are here", func() bool { _, ok := c.Set().Inventory.Host("n000"); return ok })
		left := l.source(c).Left
		for host, why := range map[string]string{
			"set": `window set "birch-night" is not defined for tenant acme`, "wider": `window set "base" is not defined for tenant acme`, "pair": `HA group "birch-pair" belongs to hosts of others`,
			"core": `HA group "core-pair" belongs to hosts of others`, "pool": `no host or playbook of the project has pool "nobody"`,
		} {
			if _, taken := c.Set().Inventory.Host(host); taken || !strings.Contains(strings.Join(left, "\n"), host+": "+why) {
				t.Errorf("%s is taken: %v, left are\n%s", host, taken, strings.Join(left, "\n"))
			}
		}
		for _, host := range []string{"own", "new", "grouped"} {
			if _, taken := c.Set().Inventory.Host(host); !taken {
				t.Errorf("%s is not taken:\n%s", host, strings.Join(left, "\n"))
			}
		}
		for host, group := range map[string]string{"own": "acme-pair", "new": "acme/new-pair", "grouped": ""} { // a source of another tenant may name new-pair
			if h, _ := c.Set().Inventory.Host(host); h.HAGroup != group {
				t.Errorf("%s is in HA group %q, expected %q", host, h.HAGroup, group)
			}
		}
	})
}

func TestAGenerationWaitsForApproval(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(100)
		c, stop := l.server("s1", other.of("s1"))
		defer stop()
		l.apply(c, docs(""), 0)
		l.until("its hosts are here", func() bool { return l.hosts(c) == 102 })
		other.has(94)
		l.until("it waits", func() bool { return l.source(c).State.Waiting != nil })
		if n := l.hosts(c); n != 102 {
			t.Errorf("while it waits: %d hosts", n)
		}
		st, d, err := c.DiffSource(l.Context(), ledger.AllTenants(), "cmdb")
		if err != nil || len(d.Removed) != 6 || len(l.said(catalog.SourceWaiting)) != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		if _, err := c.ApproveSource(l.Context(), ledger.Tenants("birch"), "bob", "cmdb", st.State.Waiting.ID); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("birch approves: %v", err)
		}
		if _, err := c.ApproveSource(l.Context(), ledger.AllTenants(), "bob", "cmdb", "sha256:00"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("another generation: %v", err)
		}
		s, err := c.ApproveSource(l.Context(), ledger.Tenants("acme"), "ann", "cmdb", st.State.Waiting.ID)
		if err != nil || s.State.Waiting != nil || l.hosts(c) != 96 {
			t.Errorf("approved: %+v, %v", s, err)
		}
		entries, _, err := l.ledger.AuditLog(l.Context(), ledger.Tenants("acme"), ledger.AuditFilter{}, ledger.Page{})
		if err != nil || len(entries) != 1 || entries[0].Action != "source.approve" || entries[0].Who != "ann" || !strings.Contains(string(entries[0].Before), `"hosts":100`) {
			t.Errorf("the audit log has %+v, %v", entries, err)
		}
		other.has(96, "z1", `{}`) // whole again, and a stale group is gone
		l.until("the next one is used", func() bool { return l.hosts(c) == 99 })
	})
}

func TestAFailingSourceIsUsedUntilMaxAge(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(10)
		other.failing(errors.New("no route"))
		c, stop := l.server("s1", other.of("s1"))
		defer stop()
		l.apply(c, docs(""), 0)
		var stale *sources.StaleError
		l.until("it is known to fail", func() bool { return l.source(c).State.Failed != "" })
		if _, err := l.selects(c, ledger.Tenants("acme"), "n001"); !errors.As(err, &stale) || !strings.Contains(err.Error(), "no generation of hosts yet") {
			t.Errorf("before the first: %v", err)
		}
		other.failing(nil)
		l.until("its hosts are here", func() bool { n, _ := l.selects(c, ledger.AllTenants(), "n*"); return len(n) == 10 })
		good := l.source(c).State.Good
		other.failing(errors.New("no route"))
		<-time.After(time.Until(good.Add(10 * time.Minute)))
		if n := l.hosts(c); n != 12 || len(l.said(catalog.SourceFailed)) != 2 {
			t.Errorf("at max_age: %d hosts, reported %v", n, l.said(catalog.SourceFailed))
		}
		<-time.After(time.Second)
		if _, err := l.selects(c, ledger.Tenants("acme")); !errors.As(err, &stale) || stale.Source != "cmdb" || !strings.Contains(err.Error(), "no route") || !strings.Contains(err.Error(), "turnus inventory diff cmdb") {
			t.Errorf("after max_age: %v", err)
		}
		if names, err := l.selects(c, ledger.Tenants("birch")); err != nil || len(names) != 1 {
			t.Errorf("another tenant's launch: %v, %v", names, err)
		}
		other.failing(nil)
		l.until("it gives hosts again", func() bool { n, _ := l.selects(c, ledger.AllTenants()); return len(n) == 12 })
	})
}

func TestAScheduleIsNotLaunchedOnHostsThatAreTooOld(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(4)
		defer l.node()()
		c, stop := l.server("s1", other.of("s1"))
		defer stop()
		l.apply(c, docs("cron: '*/5 * * * *', timezone: UTC, start_within: 1m"), 0)
		l.until("a run was launched on its hosts", func() bool {
			for _, id := range l.runs() {
				if r, err := l.ledger.Run(l.Context(), ledger.AllTenants(), id); err == nil && r.Total == 6 {
					return true
				}
			}
			return false
		})
		<-time.After(11 * time.Minute)
		for _, id := range l.runs() {
			r, err := l.ledger.Run(l.Context(), ledger.AllTenants(), id)
			if err != nil || r.Total == 6 && (len(r.Sources) != 1 || r.Sources[0].Hosts != 4 || r.Sources[0].Generation != l.source(c).State.ID || r.Sources[0].Age(r.Created) > 3*time.Minute) {
				t.Errorf("%v: it was launched at %v with %+v", err, r.Created, r.Sources)
			}
		}
		other.failing(errors.New("no route"))
		<-time.After(13 * time.Minute)
		n := len(l.runs())
		<-time.After(6 * time.Minute)
		if more := len(l.runs()); more != n {
			t.Errorf("%d runs were launched", more-n)
		}
		other.failing(nil)
		l.until("they are launched again", func() bool { return len(l.runs()) > n })
	})
}

func TestOneOfSeveralServersAsks(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(5)
		c1, stop1 := l.server("s1", other.of("s1"))
		defer stop1()
		l.apply(c1, docs(""), 0)
		l.until("the first has its hosts", func() bool { return l.hosts(c1) == 7 })
		c2, stop2 := l.server("s2", other.of("s2"))
		defer stop2()
		l.until("the second has them", func() bool { return c2.Set() != nil && l.hosts(c2) == 7 })
		<-time.After(11 * time.Minute)
		if first, second := other.times("s1"), other.times("s2"); first < 5 || second != 0 {
			t.Errorf("the first asked %d times, the second %d", first, second)
		}
		stop1()
		l.until("the second asks", func() bool { return other.times("s2") > 0 })
		other.failing(errors.New("no route"))
		stop2()
		again, stop3 := l.server("s3", other.of("s3")) // what is kept is in the ledger
		defer stop3()
		l.until("a restart has its hosts", func() bool { return again.Set() != nil && l.hosts(again) == 7 })
	})
}

// A run ends on the hosts and addresses of its launch, although other settings ask the source for
// other ones meanwhile. Controls: later launches are on the new hosts, and a retry leaves out those
// that are gone.
func TestASourceIsSwappedUnderARun(t *testing.T) {
	fake(t, func(l *lab) {
		s := newCMDB(0)
		s.has(0, "n1", `{"address": "127.0.1.1"}`, "n2", `{"address": "127.0.1.2"}`, "n3", `{"address": "127.0.1.3"}`, "n4", `{"address": "127.0.1.4"}`)
		c, stop := l.server("s1", s.of("s1"))
		defer func() { stop() }()
		d := docs("cron: 0 3 1 1 *")
		d[1].Data = append(d[1].Data, "strategy: {waves: [2, 100%]}\n"...)
		l.apply(c, d, 0)
		l.until("its hosts are here", func() bool { return len(c.Set().Inventory.Hosts) == 6 })
		first := l.source(c).State.ID
		run, err := c.TriggerSchedule(l.Context(), ledger.AllTenants(), "bob", patch, "k", "")
		if err != nil {
			t.Fatal(err)
		}
		node, err := l.queue.Open(l.Context(), "node of the first wave")
		if err != nil {
			t.Fatal(err)
		}
		var acks []queue.Ack
		l.until("the first wave has begun", func() bool {
			res, err := l.queue.Turn(l.Context(), queue.Turn{Session: node, Want: 2 - len(acks)})
			for _, lease := range res.Leases {
				acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
			}
			return err == nil && len(acks) == 2
		})
		if _, err := l.queue.Turn(l.Context(), queue.Turn{Session: node, Acks: acks}); err != nil {
			t.Fatal(err)
		}
		done := func(n int) func() bool {
			return func() bool {
				r, err := l.ledger.Run(l.Context(), ledger.AllTenants(), run.ID)
				return err == nil && r.Outcomes[core.Changed] == n && r.Complete() == (n == 6)
			}
		}
		l.until("two of six are done", done(2))

		stop()
		s.has(0, "n1", `{"address": "127.0.9.1"}`, "n2", `{"address": "127.0.9.2"}`)
		s.failing(errors.New("no route"))
		c, stop = l.server("s2", func(cfg *catalog.Config) {
			s.of("s2")(cfg)
			cfg.Sources[0].URL.Host = "other.example"
		})
		l.until("the other system was asked", func() bool { return s.times("s2") > 0 && l.source(c).State.Failed != "" })
		if _, err := l.selects(c, ledger.AllTenants()); !isOther(err) {
			t.Errorf("a launch before the other system gave hosts: %v", err)
		}
		s.failing(nil)
		l.until("a generation waits", func() bool { return l.source(c).State.Waiting != nil })
		if _, err := c.ApproveSource(l.Context(), ledger.AllTenants(), "ann", "cmdb", l.source(c).State.Waiting.ID); err != nil {
			t.Fatal(err)
		}
		if names, err := l.selects(c, ledger.AllTenants()); err != nil || !slices.Equal(names, []string{"a1", "b1", "n1", "n2"}) {
			t.Errorf("a launch after it: %v, %v", names, err)
		}
		if h, _ := c.Set().Inventory.Host("n1"); h.Address != "127.0.9.1" {
			t.Errorf("n1 is at %s", h.Address)
		}

		if !done(2)() {
			t.Error("the run did not wait for a worker")
		}
		defer l.node()()
		l.until("the run has ended on its six hosts", done(6))
		made, hosts := l.launched(run.ID)
		if want := "a1=127.0.0.1 b1=127.0.0.2 n1=127.0.1.1 n2=127.0.1.2 n3=127.0.1.3 n4=127.0.1.4"; hosts != want {
			t.Errorf("the hosts of the run are %s, expected %s", hosts, want)
		}
		if uses := made.Snapshot.Sources; len(uses) != 1 || uses[0].Generation != first {
			t.Errorf("the sources of the run are %+v, expected generation %s", uses, first)
		}
		now := c.Current()
		playbook, _ := now.Set.Playbook("patch")
		again, err := c.Prepare(l.Context(), now, playbook, catalog.Request{Playbook: "patch"}, catalog.Launching{Scope: ledger.AllTenants(), Only: func(h core.Host) bool {
			return slices.ContainsFunc(made.Hosts, func(had core.Host) bool { return had.Name == h.Name && strings.HasPrefix(h.Name, "n") })
		}})
		if err != nil || len(again.Hosts) != 2 {
			t.Errorf("a retry on the hosts of the source: %+v, %v", again, err)
		}
	})
}

// isOther reports whether a launch is refused because other settings gave the hosts.
func isOther(err error) bool {
	stale, ok := errors.AsType[*sources.StaleError](err)
	return ok && stale.Other
}
