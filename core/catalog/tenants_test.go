package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// A schedule of one tenant launches no playbook that another tenant has since: neither its steps
// nor its secrets are that schedule's. Control: the same schedule before the edit, and after it is
// undone.
func TestASchedulesPlaybookStaysItsTenants(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		defer l.node()()
		of := func(tenant string) {
			d := docs("")
			for i := range d {
				d[i].Data = []byte(strings.Replace(string(d[i].Data), "tenant: acme", "tenant: "+tenant, 1))
			}
			l.apply(c, d, catalog.AnyVersion)
		}
		of("acme")
		mine := schedule.ID{Tenant: "acme", Name: "mine"}
		made := catalog.NewSchedule{Launches: catalog.Request{Playbook: "patch"}, Definition: schedule.Definition{ID: mine, Cron: "0 */2 * * *"}}
		if _, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", made, 0); err != nil {
			t.Fatal(err)
		}
		trigger := func(key string) (ledger.Run, error) {
			return c.TriggerSchedule(l.Context(), ledger.Tenants("acme"), "bob", mine, key, "")
		}
		if run, err := trigger("before"); err != nil || run.Tenant != "acme" {
			t.Errorf("control: a run of %q, %v", run.Tenant, err)
		}
		of("birch")
		if run, err := trigger("foreign"); !errors.Is(err, core.ErrInvalid) || strings.Contains(err.Error(), "birch") {
			t.Errorf("the playbook is of birch: a run of %q, %v", run.Tenant, err)
		}
		<-time.After(3 * time.Hour)
		if runs := l.runs(); len(runs) != 1 {
			t.Errorf("the schedule of acme launched the playbook of birch: %v", runs)
		}
		of("acme")
		if run, err := trigger("after"); err != nil || run.Tenant != "acme" {
			t.Errorf("control: a run of %q, %v", run.Tenant, err)
		}
	})
}

// A pinned launch reaches no host that another tenant has since. Control: before that, it does.
func TestAPinnedLaunchLeavesHostsOfOtherTenantsOut(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		defer l.node()()
		of := func(customer string) {
			d := docs("")
			d[0].Data = append(d[0].Data, "  a2: {address: 127.0.0.3, customer: "+customer+"}\n"...)
			l.apply(c, d, catalog.AnyVersion)
		}
		of("acme")
		var pinned []schedule.ID
		for name, scope := range map[string]ledger.Scope{"own": ledger.Tenants("acme"), "provider": ledger.AllTenants()} {
			id := schedule.ID{Tenant: "acme", Name: name}
			pinned = append(pinned, id)
			made := catalog.NewSchedule{Pin: true, Launches: catalog.Request{Playbook: "patch"}, Definition: schedule.Definition{ID: id, At: time.Now().Add(24 * time.Hour)}}
			if _, err := c.PutSchedule(l.Context(), scope, "carol", made, 0); err != nil {
				t.Fatal(err)
			}
		}
		launches := func(id schedule.ID, key string) string {
			t.Helper()
			run, err := c.TriggerSchedule(l.Context(), ledger.AllTenants(), "bob", id, key, "")
			if err != nil {
				t.Fatal(err)
			}
			_, hosts := l.launched(run.ID)
			return hosts
		}
		for _, id := range pinned {
			if hosts := launches(id, "before"); !strings.Contains(hosts, "a2=127.0.0.3") {
				t.Errorf("control: %s launches on %s", id, hosts)
			}
		}
		of("birch")
		for _, id := range pinned {
			if hosts := launches(id, "after"); !strings.Contains(hosts, "a1=") || strings.Contains(hosts, "a2=") {
				t.Errorf("a2 is of birch, and %s launches on %s", id, hosts)
			}
		}
	})
}
