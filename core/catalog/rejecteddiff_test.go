package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
)

// wrong returns the changes that a server rejects; nil where it rejects none.
func (l *lab) wrong(c *catalog.Catalog) *catalog.RejectedChanges {
	l.Helper()
	got, err := c.RejectedChanges(l.Context())
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// A rejected commit shows how its files differ, and what those without mistakes change.
func TestRejectedCommitShowsItsChanges(t *testing.T) {
	fake(t, func(l *lab) {
		r := l.repo()
		good := r.commit("", "windows/w.yaml", nights)
		c, stop := l.server("s1", following(r, t.TempDir(), time.Minute))
		defer stop()
		l.at(c, good)
		if got := l.wrong(c); got != nil {
			t.Errorf("nothing is rejected: %+v", got)
		}
		bad := r.commit("cron: nonsense", "windows/w.yaml", strings.Replace(nights, "22:00", "23:00", 1))
		l.until("it is rejected", func() bool { return l.wrong(c) != nil })
		got := l.wrong(c)
		if got.Revision != bad || got.From.Commit != good || !strings.Contains(got.Error, "playbooks/patch.yaml:6:") {
			t.Errorf("%+v", got)
		}
		if len(got.Files) != 2 || got.Files[0].Path != "playbooks/patch.yaml" || !strings.Contains(got.Files[0].Text, "+schedule: {cron: nonsense}") {
			t.Errorf("%+v", got.Files)
		}
		if all := got.Changes.Changes; len(all) != 1 || all[0].Kind != definitions.KindWindowSet || got.Changes.At.IsZero() {
			t.Errorf("%+v", got.Changes)
		}
		if again := l.wrong(c); again != got {
			t.Error("it was read twice")
		}
		worse := r.commit("cron: rubbish")
		l.until("the next one is rejected", func() bool { next := l.wrong(c); return next != nil && next.Revision == worse })
		if text := l.wrong(c).Files[0].Text; !strings.Contains(text, "rubbish") {
			t.Error(text)
		}
		healed := r.commit("cron: 0 4 * * *")
		l.at(c, healed)
		l.until("nothing is rejected", func() bool { return l.wrong(c) == nil })
	})
}

// So does a folder, whose next edit shows though the mistake is the same.
func TestRejectedFolderShowsItsChanges(t *testing.T) {
	fake(t, func(l *lab) {
		dir := t.TempDir()
		write := func(docs []definitions.Document) {
			t.Helper()
			for _, d := range docs {
				p := filepath.Join(dir, d.Path)
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, d.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(docs("", "windows/w.yaml", nights))
		c, stop := l.server("s1", func(cfg *catalog.Config) { cfg.Folder = dir })
		defer stop()
		l.until("it has them", func() bool { return c.Set() != nil })
		write(docs("cron: nonsense", "windows/w.yaml", nights))
		l.until("it is rejected", func() bool { return l.wrong(c) != nil })
		if got := l.wrong(c); len(got.Files) != 1 || len(got.Changes.Changes) != 0 || !strings.Contains(got.Files[0].Text, "nonsense") {
			t.Errorf("%+v", got)
		}
		write(docs("cron: nonsense", "windows/w.yaml", nights+"# edited\n"))
		if got := l.wrong(c); len(got.Files) != 2 || !strings.Contains(got.Files[1].Text, "+# edited") {
			t.Errorf("%+v", got.Files)
		}
	})
}

// So does a version that another server took.
func TestVersionThatAServerCannotReadShowsItsChanges(t *testing.T) {
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
		l.until("it is rejected", func() bool { return l.wrong(old) != nil })
		if got := l.wrong(old); len(got.Files) != 1 || got.Files[0].Action != definitions.Added || !strings.Contains(got.Files[0].Text, "+  - {name: one, uses: flash}") || !strings.Contains(got.Error, "flash") {
			t.Errorf("%+v", got)
		}
		if got := l.wrong(c); got != nil {
			t.Errorf("the server that took it: %+v", got)
		}
	})
}

// The files without mistakes may name a tenant whose hosts only a source of the server has.
func TestRejectedCommitKnowsTheSources(t *testing.T) {
	fake(t, func(l *lab) {
		r, other := l.repo(), newCMDB(1)
		const eyes = "four_eyes: [carol]\n"
		good := r.commit("", "windows/w.yaml", nights, "turnus.yaml", eyes)
		c, stop := l.server("s1", func(cfg *catalog.Config) {
			following(r, t.TempDir(), time.Minute)(cfg)
			other.of("s1")(cfg)
			cfg.Sources[0].Tenant = "carol"
		})
		defer stop()
		l.at(c, good)
		r.commit("cron: nonsense", "windows/w.yaml", strings.Replace(nights, "22:00", "23:00", 1), "turnus.yaml", eyes)
		l.until("it is rejected", func() bool { return l.wrong(c) != nil })
		if got := l.wrong(c).Changes; len(got.Changes) != 1 || got.Changes[0].Kind != definitions.KindWindowSet || got.At.IsZero() {
			t.Errorf("%+v", got)
		}
	})
}

// A version that another server took may name a tenant whose hosts only a source of that one has.
func TestVersionOfAnotherServerKnowsItsSources(t *testing.T) {
	fake(t, func(l *lab) {
		other := newCMDB(1)
		c, stop := l.server("s1", func(cfg *catalog.Config) {
			other.of("s1")(cfg)
			cfg.Sources[0].Tenant = "carol"
		})
		defer stop()
		old, stopOld := l.server("old", func(cfg *catalog.Config) {
			cfg.Playbooks.Types = func(name string) (playbooks.Type, bool) { return playbooks.Type{OnLost: "retry"}, name == "look" }
		})
		defer stopOld()
		l.apply(c, docs("", "turnus.yaml", "four_eyes: [carol]\n"), 0)
		l.until("both have it", func() bool { return old.Current().Version == 1 })
		l.apply(c, docs("", "turnus.yaml", "four_eyes: [acme, carol]\n", "playbooks/f.yaml", "playbook: f\ntargets: true\nsteps:\n  - {name: one, uses: flash}\n"), 1)
		l.until("it is rejected", func() bool { return l.wrong(old) != nil })
		if got := l.wrong(old); len(got.Files) != 2 || len(got.Changes.Changes) != 1 || got.Changes.At.IsZero() {
			t.Errorf("%+v", got)
		}
	})
}
