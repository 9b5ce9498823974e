package catalog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/snapshot"
)

const listing = "playbook: lb\ntargets: host.name != \"a2\"\nsteps:\n  - {name: one, uses: look, when: \"any(hosts('true'), #.name == host.name)\"}\n"

// listed are the names that hosts('true') gives to hosts of each customer, as a run's snapshot has
// them.
func (l *lab) listed(text []byte) string {
	l.Helper()
	s, err := snapshot.Decode(text)
	if err != nil {
		l.Fatal(err)
	}
	var out []string
	for customer, lists := range s.Hosts {
		names := customer + ":"
		for _, h := range lists["true"] {
			names += fmt.Sprintf(" %v", h.(map[string]any)["name"])
		}
		out = append(out, names)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestHostListsIgnoreTheLimitAndKeepToTheTenant(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		l.apply(c, docs("", "inventory/more.yaml", "hosts: {a2: {customer: acme}, b2: {customer: birch}, none: {}}\n", "playbooks/lb.yaml", listing), 0)
		now := c.Current()
		playbook, _ := now.Set.Playbook("lb")
		for _, tt := range []struct {
			scope ledger.Scope
			limit string
			want  string
		}{
			{ledger.AllTenants(), "a1", "acme: a1 a2"},
			{ledger.Tenants("acme"), "a1", "acme: a1 a2"},
			{ledger.Tenants("birch"), "b1", "birch: b1 b2"},
			{ledger.AllTenants(), "all", ": none, acme: a1 a2, birch: b1 b2"},
		} {
			made, err := c.Prepare(l.Context(), now, playbook, catalog.Request{Playbook: "lb", Limit: []string{tt.limit}}, catalog.Launching{Scope: tt.scope})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.listed(made.Run.Payload); got != tt.want {
				t.Errorf("limit %s: %s, want %s", tt.limit, got, tt.want)
			}
		}
	})
}

// Runs of a schedule share what they have in common, and each has the inventory of its time.
func TestHostListsOfASchedule(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		defer l.node()()
		more := func(hosts string) []string {
			return []string{"inventory/more.yaml", "hosts: {" + hosts + "}\n", "playbooks/lb.yaml", listing + "schedule: {cron: \"0 0 1 1 *\"}\n"}
		}
		l.apply(c, docs("", more("a2: {customer: acme}, a3: {customer: acme}")...), 0)
		fire := func(key string) string {
			run, err := c.TriggerSchedule(l.Context(), ledger.AllTenants(), "bob", schedule.ID{Name: "lb"}, key, "")
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
			m, err := l.ledger.Material(l.Context(), run.ID)
			if err != nil {
				t.Fatal(err)
			}
			return l.listed(m.Snapshot)
		}
		for _, key := range []string{"first", "again"} {
			if got := fire(key); got != "acme: a1 a2 a3, birch: b1" {
				t.Errorf("%s: %s", key, got)
			}
		}
		l.apply(c, docs("", more("a3: {customer: acme}")...), 1)
		if got := fire("removed"); got != "acme: a1 a3, birch: b1" {
			t.Errorf("with a host less: %s", got)
		}
	})
}

// A load balancer must not get members of a source that nobody has heard of for too long, and no
// step is called on such a host.
func TestHostListsOfASourceThatIsTooOld(t *testing.T) {
	for name, source := range map[string]string{
		"hosts()": strings.Replace(listing, `host.name != "a2"`, `host.name == "a1"`, 1),
		"on":      "playbook: lb\ntargets: host.name == \"own\"\nsteps:\n  - {name: one, uses: look, on: '\"n001\"'}\n",
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(l *lab) {
				other := newCMDB(3)
				c, stop := l.server("s1", other.of("s1"))
				defer stop()
				l.apply(c, docs("", "playbooks/lb.yaml", source, "inventory/more.yaml", "hosts: {own: {customer: acme}}\n"), 0)
				l.until("its hosts are here", func() bool { return len(c.Set().Inventory.Hosts) == 6 })
				prepare := func() error {
					now := c.Current()
					playbook, _ := now.Set.Playbook("lb")
					_, err := c.Prepare(l.Context(), now, playbook, catalog.Request{Playbook: "lb"}, catalog.Launching{Scope: ledger.AllTenants()})
					return err
				}
				if err := prepare(); err != nil {
					t.Fatal(err)
				}
				other.failing(errors.New("no route"))
				<-time.After(20 * time.Minute)
				if _, stale := errors.AsType[*sources.StaleError](prepare()); !stale {
					t.Errorf("it is launched: %v", prepare())
				}
			})
		})
	}
}
