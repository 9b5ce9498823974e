package catalog_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/playbooks"
)

// None is true only after the server has read the ledger, and found no definitions.
func TestNoneIsReadFromTheLedger(t *testing.T) {
	fake(t, func(l *lab) {
		unread := ledger.Document{Kind: "approvals", Name: "windows", Data: []byte("[")}
		was, err := l.ledger.PutDocument(t.Context(), ledger.AllTenants(), "", unread, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, stop := l.server("a", nil)
		defer stop()
		<-time.After(10 * time.Second)
		if c.None() || c.Set() != nil {
			t.Error("a server that cannot read the ledger reports that there are no definitions")
		}
		if err := l.ledger.DeleteDocument(t.Context(), ledger.AllTenants(), "", unread.Kind, "", unread.Name, was.Version); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if !c.None() {
			t.Error("a server that has read the ledger does not know that there are no definitions")
		}
	})
}

func TestApply(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		other, stopOther := l.server("s2", nil)
		defer stopOther()
		if cal, _ := c.Windows(); c.Set() != nil || cal != nil {
			t.Error("there is something before the first definitions")
		}
		one := l.apply(c, docs(""), 0)
		if !one.Changed || one.Version != 1 || one.Source != catalog.FromApply || c.Set() == nil {
			t.Errorf("%+v", one)
		}
		if again := l.apply(c, docs(""), catalog.AnyVersion); again.Changed || again.Version != 1 {
			t.Errorf("the same again: %+v", again)
		}
		l.until("the other server has it", func() bool { return other.Current().Version == 1 })
		two := l.apply(other, docs("", "playbooks/more.yaml", "playbook: more\ntargets: true\nsteps:\n  - {name: one, uses: look}\n"), 1)
		if two.Version != 2 || len(two.Changes.Changes) != 1 {
			t.Errorf("%+v", two)
		}
		if _, err := c.Apply(l.Context(), "bob", docs("timezone: UTC, cron: 0 3 * * *"), definitions.Revision{}, 1); !errors.Is(err, core.ErrConflict) {
			t.Errorf("over another version: %v", err)
		}
		if v, err := catalog.VersionOf(two.ETag()); err != nil || v != 2 {
			t.Errorf("%d, %v", v, err)
		}
		broken := docs("", "playbooks/bad.yaml", "playbook: bad\nsteps: []\n")
		var reported playbooks.Diagnostics
		if _, err := c.Apply(l.Context(), "bob", broken, definitions.Revision{}, catalog.AnyVersion); !errors.As(err, &reported) {
			t.Errorf("what is not valid: %v", err)
		}
		if _, err := c.Check(l.Context(), broken, definitions.Revision{}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

// A server whose job types differ keeps the last good ones, reports that, and can be helped by
// applying others.
func TestVersionThatAServerCannotRead(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		old, stopOld := l.server("old", func(cfg *catalog.Config) {
			cfg.Playbooks.Types = func(name string) (playbooks.Type, bool) { return playbooks.Type{OnLost: "retry"}, name == "look" }
		})
		defer stopOld()
		l.apply(c, docs(""), 0)
		l.until("both have it", func() bool { return old.Current().Version == 1 })
		l.apply(c, docs("", "playbooks/f.yaml", "playbook: f\ntargets: true\nsteps:\n  - {name: one, uses: flash}\n"), 1)
		l.until("it says so", func() bool { return old.Status().Rejected != nil })
		if s := old.Status(); s.Version != 1 || s.Rejected.Version != 2 || !strings.Contains(s.Rejected.Error, "flash") {
			t.Errorf("%+v", s)
		}
		<-time.After(time.Minute)
		if n := len(l.said(catalog.ProjectRejected)); n != 1 {
			t.Errorf("it was reported %d times", n)
		}
		if fixed := l.apply(old, docs("", "playbooks/g.yaml", "playbook: g\ntargets: true\nsteps:\n  - {name: one, uses: look}\n"), catalog.AnyVersion); fixed.Version != 3 || old.Status().Rejected != nil {
			t.Errorf("%+v", fixed)
		}
	})
}

// One goroutine of a server is slow to find that a version cannot be used. The finding of another
// one holds meanwhile, and is reported once.
func TestRejectionThatComesLate(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		var begun atomic.Bool
		slow := make(chan struct{})
		old, stopOld := l.server("old", func(cfg *catalog.Config) {
			cfg.Playbooks.Types = func(name string) (playbooks.Type, bool) {
				if name == "flash" && begun.CompareAndSwap(false, true) {
					<-slow
				}
				return playbooks.Type{OnLost: "retry"}, name == "look"
			}
		})
		defer stopOld()
		l.apply(c, docs("", "playbooks/f.yaml", "playbook: f\ntargets: true\nsteps:\n  - {name: one, uses: flash}\n"), 0)
		l.until("the watch has begun", begun.Load)
		asked := func() { // by a person, of a version that is not there: it reads the ledger's
			if _, err := old.Apply(l.Context(), "bob", docs(""), definitions.Revision{}, 99); !errors.Is(err, core.ErrConflict) {
				t.Error(err)
			}
		}
		if asked(); old.Status().Rejected == nil {
			t.Error("another goroutine has not found it")
		}
		l.apply(c, docs(""), 1)
		if asked(); old.Current().Version != 2 {
			t.Error("it does not run by the next version")
		}
		close(slow)
		<-time.After(time.Minute)
		if s := old.Status(); s.Version != 2 || s.Rejected != nil {
			t.Errorf("version %d, and still rejected: %+v", s.Version, s.Rejected)
		}
		if n := len(l.said(catalog.ProjectRejected)); n != 1 {
			t.Errorf("it was reported %d times", n)
		}
	})
}

const nights = "window_sets:\n  nights: {timezone: UTC, allow: [{id: night, rrule: FREQ=DAILY, from: \"22:00\", to: \"+1d 02:00\"}]}\n"

// The board has the windows of the newest definitions as soon as Apply returns, and again after it
// was emptied.
func TestBoardHasTheWindows(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		_, stopOther := l.server("s2", nil)
		defer stopOther()
		sets := func() string {
			data, _, err := l.queue.Posted(l.Context(), catalog.BoardName, 0)
			if err != nil {
				return err.Error()
			}
			p, err := admission.DecodeCalendar(data)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Documents()) == 0 {
				return ""
			}
			return string(p.Documents()[0].Data)
		}
		for _, text := range []string{nights, strings.Replace(nights, "22:", "23:", 1), nights} {
			l.apply(c, docs("", "windows/w.yaml", text), catalog.AnyVersion)
			if got := sets(); got != text {
				t.Errorf("when Apply had returned, workers asked %q, expected %q", got, text)
			}
			<-time.After(10 * time.Second)
			if got := sets(); got != text {
				t.Errorf("later workers asked %q, expected %q", got, text)
			}
		}
		posted := len(l.said(catalog.WindowsPosted))
		<-time.After(time.Hour)
		if n := len(l.said(catalog.WindowsPosted)); n != posted {
			t.Errorf("two servers posted the same windows %d times in an hour", n-posted)
		}
		if _, err := l.queue.Post(l.Context(), catalog.BoardName, []byte("{}"), time.Hour); err != nil { // a server that was stopped in the middle
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		if got := sets(); got != nights {
			t.Errorf("after somebody else posted: %q", got)
		}
	})
}

func TestFolder(t *testing.T) {
	fake(t, func(l *lab) {
		dir := t.TempDir()
		write := func(name, text string) {
			p := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range docs("") {
			write(d.Path, string(d.Data))
		}
		c, stop := l.server("s1", func(cfg *catalog.Config) { cfg.Folder = dir })
		defer func() { stop() }()
		l.until("it is taken over", func() bool { return c.Current().Version == 1 })
		if got := c.FilesDir("r1", c.FilesOf(c.Set(), c.Set().Playbooks[0])); got != filepath.Join(dir, "playbooks") {
			t.Errorf("files of the playbook in %q", got)
		}
		// A job out of the queue may name any folder, and reaches those of the tree.
		if err := os.Symlink(t.TempDir(), filepath.Join(dir, "playbooks", "out")); err != nil {
			t.Fatal(err)
		}
		for _, forged := range []string{":playbooks/out", ":..", ":/etc", ":playbooks/none", "/etc"} {
			if got := c.FilesDir("r1", forged); got != "" {
				t.Errorf("%s leads to %q", forged, got)
			}
		}
		// A worker has a copy of the project, or of its folder of playbooks.
		for root, want := range map[string]string{dir: filepath.Join(dir, "playbooks"), filepath.Join(dir, "playbooks"): filepath.Join(dir, "playbooks")} {
			if got := catalog.FilesIn(root, c.FilesOf(c.Set(), c.Set().Playbooks[0])); got != want {
				t.Errorf("of a worker with %s: %q, expected %q", root, got, want)
			}
		}
		for _, forged := range []string{":playbooks/out", ":..", ":/etc", "/etc"} {
			if got := catalog.FilesIn(dir, forged); got != dir {
				t.Errorf("of a worker: %s leads to %q", forged, got)
			}
		}
		write("playbooks/patch.yaml", "playbook: patch\n")
		l.until("it is refused", func() bool { return c.Status().Folder != "" })
		if c.Current().Version != 1 {
			t.Error("an invalid folder was taken over")
		}
		write("playbooks/patch.yaml", string(docs("cron: 0 3 * * *")[1].Data))
		l.until("it is taken over again", func() bool { return c.Current().Version == 2 && c.Status().Folder == "" })
		// A version that was applied by hand holds over a restart, until the folder changes.
		l.apply(c, docs("cron: 0 4 * * *"), 2)
		stop()
		c, stop = l.server("s1", func(cfg *catalog.Config) { cfg.Folder = dir })
		<-time.After(10 * time.Second)
		if c.Current().Version != 3 {
			t.Errorf("%+v", c.Status())
		}
	})
}

var patch = schedule.ID{Tenant: "acme", Name: "patch"}

// A schedule that is set at a server passes the check of a playbook's own: it never comes again
// while the last run may still retry.
func TestFaultW10SetScheduleThatOverrunsRetries(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		d := docs("")
		for i := range d {
			if strings.Contains(string(d[i].Data), "uses: look") {
				d[i].Data = []byte(strings.Replace(string(d[i].Data), "uses: look", "retry: {attempts: 4, interval: 10m}, uses: look", 1))
			}
		}
		l.apply(c, d, 0)
		mine := catalog.NewSchedule{Launches: catalog.Request{Playbook: "patch"}, Definition: schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: "mine"}, Cron: "0 * * * *"}}
		_, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", mine, 0)
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "1h10m0s") {
			t.Errorf("every hour, with retries of 70 minutes: %v", err)
		}
		mine.Definition.Cron = "0 */2 * * *"
		if _, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", mine, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestSchedulesFollowTheDefinitions(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		_, stopOther := l.server("s2", nil)
		defer stopOther()
		defer l.node()()
		l.apply(c, docs("cron: \"*/3 * * * *\""), 0)
		mine := catalog.NewSchedule{Launches: catalog.Request{Playbook: "patch"}, Definition: schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: "mine"}, Cron: "5,17,29 * * * *"}}
		made, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", mine, 0)
		if err != nil || made.Version == 0 || made.Next.IsZero() {
			t.Fatalf("%+v, %v", made, err)
		}
		<-time.After(10*time.Minute + 30*time.Second)
		runs := l.runs()
		if len(runs) != 4 || !slices.Contains(runs, "acme:mine-20000101T0005Z") || !slices.Contains(runs, "acme:patch-20000101T0009Z") {
			t.Errorf("runs of ten minutes: %v", runs)
		}
		run, err := l.ledger.Run(l.Context(), ledger.AllTenants(), "acme:mine-20000101T0005Z")
		if err != nil || run.Total != 1 || run.LaunchedBy != "schedule:acme:mine" || !run.Complete() { // acme's host only
			t.Errorf("%+v, %v", run, err)
		}
		if run, err = l.ledger.Run(l.Context(), ledger.AllTenants(), "acme:patch-20000101T0009Z"); err != nil || run.Total != 2 {
			t.Errorf("%+v, %v", run, err)
		}
		// The playbook's schedule goes, the one that was made stays.
		l.apply(c, docs(""), catalog.AnyVersion)
		<-time.After(10 * time.Minute)
		if now := l.runs(); len(now) != len(runs)+1 {
			t.Errorf("after it was removed: %v", now[len(runs):])
		}
		all, _, err := c.Schedules(l.Context(), ledger.Tenants("acme"), "", 10)
		if err != nil || len(all) != 1 || all[0].Managed || all[0].State.Triggered != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		if all, _, err := c.Schedules(l.Context(), ledger.Tenants("birch"), "", 10); err != nil || len(all) != 0 {
			t.Errorf("another tenant sees %+v, %v", all, err)
		}
		if err := c.DeleteSchedule(l.Context(), ledger.Tenants("birch"), "eve", mine.Definition.ID, made.Version); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("another tenant's: %v", err)
		}
		if err := c.DeleteSchedule(l.Context(), ledger.Tenants("acme"), "carol", mine.Definition.ID, made.Version); err != nil {
			t.Error(err)
		}
		before := len(l.runs())
		<-time.After(15 * time.Minute)
		if n := len(l.runs()); n != before {
			t.Error("a deleted schedule triggered")
		}
	})
}

// A schedule launches with its own limit, vars and tags, wherever it stands, and what no launch
// could have is refused.
func TestSchedulesHaveOptions(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		d := docs("cron: \"*/3 * * * *\", limit: b1, vars: {color: red}, tags: [first], skip_tags: [never]")
		d[1].Data = append(d[1].Data, "vars: {color: blue}\n"...)
		d[1].Data = bytes.Replace(d[1].Data, []byte("uses: look"), []byte("uses: look, tags: [first]"), 1)
		l.apply(c, d, 0)
		at := time.Now().Add(90 * time.Second)
		mine := catalog.NewSchedule{
			Launches:   catalog.Request{Playbook: "patch", Limit: []string{"a*"}, Vars: map[string]any{"color": "green"}, Check: true, MaxInFlight: 1},
			Definition: schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: "mine"}, At: at},
		}
		if _, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", mine, 0); err != nil {
			t.Fatal(err)
		}
		for name, wrong := range map[string]catalog.Request{
			"has no var or param \"colour\"": {Playbook: "patch", Vars: map[string]any{"colour": "green"}},
			"no host of yours":               {Playbook: "patch", Limit: []string{"b1"}}, // birch's
		} {
			other := mine
			other.Launches, other.Definition.ID.Name = wrong, "other"
			if _, err := c.PutSchedule(l.Context(), ledger.Tenants("acme"), "carol", other, 0); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("expected %q: %v", name, err)
			}
		}
		<-time.After(4 * time.Minute)
		launched := func(run string) *launch.Launch {
			m, err := l.ledger.Material(l.Context(), run)
			if err != nil {
				t.Fatal(run, err, l.runs())
			}
			l, err := (&launch.Restorer{Types: types}).Restore(m.Snapshot, m.Queue)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		once := launched(schedule.RunID(mine.Definition.ID, at))
		if s := once.Snapshot; s.Vars["color"] != "green" || !s.Check || once.Run.MaxInFlight != 1 || len(once.Hosts) != 1 || once.Hosts[0].Name != "a1" {
			t.Errorf("of a person: %+v, %+v", once.Snapshot, once.Hosts)
		}
		cron := launched("acme:patch-20000101T0003Z")
		if s := cron.Snapshot; s.Vars["color"] != "red" || !slices.Equal(s.Tags, []string{"first"}) || !slices.Equal(s.SkipTags, []string{"never"}) || len(cron.Hosts) != 1 || cron.Hosts[0].Name != "b1" {
			t.Errorf("of the playbook: %+v, %+v", cron.Snapshot, cron.Hosts)
		}
		shown, err := c.Schedule(l.Context(), ledger.Tenants("acme"), mine.Definition.ID)
		if err != nil || shown.State.Last[0].RunID != once.Run.ID || !shown.Next.IsZero() || shown.Launches.Vars["color"] != "green" {
			t.Errorf("%+v, %v", shown, err)
		}
	})
}

// No schedule is forgotten: servers end and start at any moment; every fire happens once, what was
// paused stays paused, what was resumed continues.
func TestNoScheduleIsForgotten(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer func() { stop() }()
		defer l.node()()
		l.apply(c, docs("cron: \"*/7 * * * *\", catch_up: all", "playbooks/still.yaml",
			"playbook: still\ntenant: acme\ntargets: true\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"* * * * *\"}\n"), 0)
		still := schedule.ID{Tenant: "acme", Name: "still"}
		if err := c.SetPaused(l.Context(), ledger.AllTenants(), "bob", still, true, "quiet"); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			<-time.After(time.Duration(61+i*13%40) * time.Second)
			stop()
			if i%8 == 4 { // nobody is there for a while
				<-time.After(16 * time.Minute)
			}
			c, stop = l.server("s", nil)
		}
		<-time.After(2 * time.Minute)
		var got []string
		for _, id := range l.runs() {
			if strings.Contains(id, ":patch-") {
				got = append(got, id)
			}
		}
		var want []string
		for at := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC); at.Before(time.Now().Add(-time.Minute)); at = at.Add(time.Minute) {
			if at.Minute()%7 == 0 {
				want = append(want, schedule.RunID(patch, at))
			}
		}
		slices.Sort(got)
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("triggered %d times, expected %d\n%v\n%v", len(got), len(want), got, want)
		}
		if n := len(l.runs()) - len(got); n != 0 {
			t.Errorf("a paused schedule triggered %d times", n)
		}
		s, err := c.Schedule(l.Context(), ledger.AllTenants(), still)
		if err != nil || !s.State.Paused || s.State.Reason != "quiet" {
			t.Errorf("%+v, %v", s, err)
		}
		if err := c.SetPaused(l.Context(), ledger.AllTenants(), "bob", still, false, ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Minute)
		if n := len(l.runs()) - len(got); n < 2 || n > 5 {
			t.Errorf("a resumed schedule triggered %d times in three minutes", n)
		}
	})
}

// A trigger is in the ledger when it is answered; a backfill survives the end of the server that
// was asked.
func TestTriggerAndBackfill(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		defer l.node()()
		l.apply(c, docs("cron: \"*/5 * * * *\""), 0)
		<-time.After(11 * time.Minute)
		triggered := len(l.runs())
		if _, err := c.TriggerSchedule(l.Context(), ledger.Tenants("birch"), "eve", patch, "k", ""); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("another tenant's: %v", err)
		}
		run, err := c.TriggerSchedule(l.Context(), ledger.Tenants("acme"), "bob", patch, "k", "")
		if err != nil || run.Total != 1 { // the other host is birch's
			t.Fatalf("%+v, %v", run, err)
		}
		if again, err := c.TriggerSchedule(l.Context(), ledger.AllTenants(), "bob", patch, "k", ""); err != nil || again.ID != run.ID {
			t.Errorf("%+v, %v", again, err)
		}
		<-time.After(time.Minute)
		if n := len(l.runs()); n != triggered+1 { // it is 00:12
			t.Errorf("triggered once, %d runs", n-triggered)
		}
		day := time.Date(1999, 12, 31, 0, 1, 0, 0, time.UTC)
		n, err := c.Backfill(l.Context(), ledger.AllTenants(), "bob", patch, day, day.Add(50*time.Minute), "")
		if err != nil || n != 10 {
			t.Fatal(n, err)
		}
		plans := func(c *catalog.Catalog, launches, before int) {
			t.Helper()
			if n, had, err := c.PlanBackfill(l.Context(), ledger.AllTenants(), patch, day, day.Add(50*time.Minute)); err != nil || n != launches || had != before {
				t.Errorf("a plan of %d launches and %d before, %v; expected %d and %d", n, had, err, launches, before)
			}
		}
		plans(c, 10, 0)
		if _, _, err := c.PlanBackfill(l.Context(), ledger.Tenants("birch"), patch, day, day); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("another tenant's plan: %v", err)
		}
		stop()
		c, stop = l.server("s2", nil)
		defer stop()
		l.until("all ten are launched", func() bool { return len(l.runs()) >= triggered+11 })
		plans(c, 0, 10)
		entries, _, err := l.ledger.AuditLog(l.Context(), ledger.AllTenants(), ledger.AuditFilter{Kind: "schedule"}, ledger.Page{})
		if err != nil || len(entries) != 3 {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}

// A schedule of the provider's reaches hosts of all tenants; a tenant's operator reaches no other
// tenant's by it.
func TestTrapATenantsTriggerReachesNoOtherTenantsHosts(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		defer l.node()()
		l.apply(c, docs("cron: \"0 0 1 1 *\"", "playbooks/wide.yaml",
			"playbook: wide\ntenant: acme\ntargets: true\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"0 0 1 1 *\"}\n",
			"inventory/other.yaml", "hosts: {b9: {customer: birch}}\n",
			"playbooks/narrow.yaml", "playbook: narrow\ntenant: acme\ntargets: host.customer == \"acme\"\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"0 0 1 1 *\"}\n"), 0)
		wide, acme := schedule.ID{Tenant: "acme", Name: "wide"}, ledger.Tenants("acme")
		hosts := func(scope ledger.Scope, key string) int {
			run, err := c.TriggerSchedule(l.Context(), scope, "bob", wide, key, "")
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute) // the engine finds it launched
			if run, err = l.ledger.Run(l.Context(), ledger.AllTenants(), run.ID); err != nil {
				t.Fatal(err)
			}
			return run.Total
		}
		all := hosts(ledger.AllTenants(), "provider")
		if own := hosts(acme, "tenant"); own != 1 || all != 3 {
			t.Errorf("a trigger launches on %d hosts for acme, on %d for the provider", own, all)
		}
		day := time.Date(1998, 12, 31, 0, 0, 0, 0, time.UTC)
		if _, err := c.Backfill(l.Context(), acme, "bob", wide, day, day.AddDate(0, 0, 2), ""); !errors.Is(err, core.ErrConflict) {
			t.Errorf("a tenant's backfill of it: %v", err)
		}
		if n, err := c.Backfill(l.Context(), acme, "bob", schedule.ID{Tenant: "acme", Name: "narrow"}, day, day.AddDate(0, 0, 2), ""); err != nil || n != 1 {
			t.Errorf("a tenant's backfill of its own hosts: %d, %v", n, err)
		}
		if n, err := c.Backfill(l.Context(), ledger.AllTenants(), "bob", wide, day, day.AddDate(0, 0, 2), ""); err != nil || n != 1 {
			t.Errorf("the provider's: %d, %v", n, err)
		}
	})
}

// A fire whose playbook has gone, or that selects no host, is skipped with the reason.
func TestSkippedTriggers(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		l.apply(c, docs("cron: \"*/10 * * * *\"", "playbooks/none.yaml",
			"playbook: none\ntargets: host.name == \"nobody\"\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"* * * * *\"}\n",
			"playbooks/acmes.yaml", "playbook: acmes\ntenant: acme\ntargets: host.name == \"nobody\"\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"* * * * *\"}\n"), 0)
		<-time.After(3 * time.Minute)
		count := map[string]int{}
		for _, e := range l.said(catalog.TriggerSkipped) {
			count[e.Schedule.Name]++
			if foreign := e.Schedule.Tenant == "acme"; !strings.Contains(e.Reason, "selects none") || e.Foreign != foreign {
				t.Errorf("%+v", e)
			}
		}
		if count["none"] < 2 || count["acmes"] < 2 {
			t.Errorf("%v, expected skips of both", count)
		}
	})
}

func TestFaultW5AScheduleLaunchesOnHostsOfItsPoolOnly(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", func(c *catalog.Config) { c.Pool = "eu" })
		defer stop()
		l.apply(c, docs("cron: \"* * * * *\"", "playbooks/other.yaml",
			"playbook: other\npool: us\ntargets: true\nsteps:\n  - {name: one, uses: look}\nschedule: {cron: \"* * * * *\"}\n"), 0)
		<-time.After(3 * time.Minute)
		skipped := l.said(catalog.TriggerSkipped)
		if len(skipped) == 0 || skipped[0].Schedule.Name != "other" || !strings.Contains(skipped[0].Reason, "--pool us") {
			t.Errorf("%+v", skipped)
		}
		for _, id := range l.runs() {
			if run, err := l.ledger.Run(l.Context(), ledger.AllTenants(), id); err != nil || run.Playbook == "other" {
				t.Errorf("run %s of %s: %v", id, run.Playbook, err)
			}
		}
		if len(l.runs()) == 0 {
			t.Error("no run of hosts without a pool")
		}
	})
}
