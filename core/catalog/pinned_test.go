package catalog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// launched returns what a run was launched with, and the names of its hosts.
func (l *lab) launched(run string) (*launch.Launch, string) {
	l.Helper()
	m, err := l.ledger.Material(l.Context(), run)
	if err != nil {
		l.Fatal(err)
	}
	made, err := (&launch.Restorer{Types: types}).Restore(m.Snapshot, m.Queue)
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	for _, h := range made.Hosts {
		names = append(names, h.Name+"="+h.Address)
	}
	slices.Sort(names)
	return made, strings.Join(names, " ")
}

func (l *lab) pins() []ledger.Document {
	l.Helper()
	all, _, err := l.ledger.Documents(l.Context(), ledger.AllTenants(), "pinned launch", ledger.Page{Limit: 10})
	if err != nil {
		l.Fatal(err)
	}
	return all
}

// A launch at a time has the playbook, the commit, the hosts and the generation of their source as
// they were when it was asked for, although all of them are swapped before its time. The control
// asks for the newest.
func TestALaunchAtATimeIsPinned(t *testing.T) {
	fake(t, func(l *lab) {
		s := newCMDB(0)
		s.has(0, "n1", `{"address": "127.0.1.1", "groups": ["web"]}`, "n2", `{"address": "127.0.1.2", "groups": ["web"]}`)
		c, stop := l.server("s1", s.of("s1"))
		defer stop()
		defer l.node()()
		commit := func(d []definitions.Document, revision string) {
			if _, err := c.Apply(l.Context(), "alice", d, definitions.Revision{Commit: revision}, catalog.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		before := docs("", "inventory/groups.yaml", "groups: {web: {}}\n")
		commit(before, strings.Repeat("a", 40))
		l.until("the hosts of the source are here", func() bool { return len(l.source(c).State.ID) > 0 && len(c.Current().Set.Inventory.Hosts) == 4 })
		generation := l.source(c).State.ID
		at := time.Now().Add(8 * time.Minute).Truncate(time.Second)
		put := func(name string, pin bool, ifVersion int64) catalog.Schedule {
			t.Helper()
			made, err := c.PutSchedule(l.Context(), ledger.AllTenants(), "carol", catalog.NewSchedule{
				Pin: pin, Launches: catalog.Request{Playbook: "patch", Limit: []string{"web"}}, Definition: schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: name}, At: at},
			}, ifVersion)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		first := put("pinned", true, 0)
		put("newest", false, 0)
		put("gone", true, 0)
		if revision, ok := first.Pinned(); !ok || revision != strings.Repeat("a", 40) {
			t.Errorf("%q, %v", revision, ok)
		}

		for i := range before {
			before[i].Data = []byte(strings.Replace(string(before[i].Data), "name: one", "name: two", 1))
		}
		commit(before, strings.Repeat("b", 40))
		s.has(0, "n1", `{"address": "127.0.9.1", "groups": ["web"]}`, "n2", `{"address": "127.0.9.2", "groups": ["web"]}`, "n3", `{"address": "127.0.9.3", "groups": ["web"]}`)
		l.until("the source is swapped", func() bool { return len(c.Current().Set.Inventory.Hosts) == 5 })
		if again := put("pinned", true, 0); again.Version != first.Version {
			t.Errorf("the same again after the project has changed is version %d, expected %d", again.Version, first.Version)
		}
		for _, d := range l.pins() {
			if strings.HasPrefix(d.Name, "gone/") {
				if err := l.ledger.DeleteDocument(l.Context(), ledger.AllTenants(), "", d.Kind, d.Tenant, d.Name, d.Version); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.until("both have launched", func() bool { return len(l.runs()) == 2 })
		for _, run := range l.runs() {
			made, hosts := l.launched(run)
			want, step, revision := "n1=127.0.1.1 n2=127.0.1.2", "one", strings.Repeat("a", 40)
			pinned := strings.HasPrefix(run, "acme:pinned-")
			if !pinned {
				want, step, revision = "n1=127.0.9.1 n2=127.0.9.2 n3=127.0.9.3", "two", strings.Repeat("b", 40)
			}
			if hosts != want || made.Playbook.Steps[0].Name != step || made.Snapshot.Revision != revision || !strings.HasPrefix(made.Snapshot.Files, revision+":") {
				t.Errorf("%s: hosts %s, step %s, revision %s, files %s", run, hosts, made.Playbook.Steps[0].Name, made.Snapshot.Revision, made.Snapshot.Files)
			}
			if asked := made.Snapshot.Asked; asked == nil || asked.Pinned != pinned || !slices.Equal(asked.Limit, []string{"web"}) {
				t.Errorf("%s: asked for %+v, expected the limit web, pinned: %v", run, asked, pinned)
			}
			if uses := made.Snapshot.Sources; len(uses) != 1 || uses[0].Source != "cmdb" || (uses[0].Generation == generation) != pinned {
				t.Errorf("%s: sources %+v, expected generation %s: %v", run, uses, generation, pinned)
			}
		}
		l.until("what is gone is skipped", func() bool {
			s, err := c.Schedule(l.Context(), ledger.AllTenants(), schedule.ID{Tenant: "acme", Name: "gone"})
			return err == nil && len(s.State.Last) > 0 && strings.Contains(s.State.Last[0].Reason.Text(), "has pinned")
		})

		// A tenant's person triggers it on the tenant's hosts as they were.
		run, err := c.TriggerSchedule(l.Context(), ledger.Tenants("acme"), "bob", first.Definition.ID, "k", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, hosts := l.launched(run.ID); hosts != "n1=127.0.1.1 n2=127.0.1.2" {
			t.Errorf("triggered: %s", hosts)
		}
		if len(l.pins()) != 1 {
			t.Errorf("%d documents, expected one", len(l.pins()))
		}
		if err := c.DeleteSchedule(l.Context(), ledger.AllTenants(), "carol", first.Definition.ID, first.Version); err != nil {
			t.Fatal(err)
		}
		if len(l.pins()) != 0 {
			t.Errorf("the schedule is removed, and what it had pinned is not: %v", l.pins())
		}
	})
}

// Only a launch at a time pins; what no schedule launches any more is deleted.
func TestPinsAreSwept(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		l.apply(c, docs(""), 0)
		id := schedule.ID{Tenant: "acme", Name: "soon"}
		n := catalog.NewSchedule{Pin: true, Launches: catalog.Request{Playbook: "patch"}, Definition: schedule.Definition{ID: id, Cron: "0 3 * * *"}}
		if _, err := c.PutSchedule(l.Context(), ledger.AllTenants(), "carol", n, 0); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a recurring one is pinned: %v", err)
		}
		n.Definition.Cron, n.Definition.At = "", time.Now().Add(24*time.Hour)
		if _, err := c.PutSchedule(l.Context(), ledger.AllTenants(), "carol", n, 0); err != nil {
			t.Fatal(err)
		}
		left := ledger.Document{Kind: "pinned launch", Tenant: "acme", Name: "removed/0123", Data: []byte("{}")}
		if _, err := l.ledger.PutDocument(l.Context(), ledger.AllTenants(), "", left, 0); err != nil {
			t.Fatal(err)
		}
		l.apply(c, docs("", "playbooks/more.yaml", "playbook: more\ntargets: true\nsteps:\n  - {name: one, uses: look}\n"), catalog.AnyVersion)
		if len(l.pins()) != 2 {
			t.Errorf("a young one is swept: its schedule may follow: %v", l.pins())
		}
		<-time.After(2 * time.Hour)
		l.apply(c, docs(""), catalog.AnyVersion)
		l.until("it is swept", func() bool { return len(l.pins()) == 1 })
		if kept := l.pins()[0].Name; !strings.HasPrefix(kept, "soon/") {
			t.Errorf("kept is %s", kept)
		}
	})
}
