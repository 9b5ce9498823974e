package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
)

// filled adds files up to the bound of a project.
func filled(d []definitions.Document) []definitions.Document {
	room := definitions.MaxSize
	for _, one := range d {
		room -= len(one.Path) + len(one.Data)
	}
	for n := definitions.MaxDocuments - len(d); n > 0; n-- {
		p := fmt.Sprintf("inventory/x/%05d.cfg", n)
		size := room/n - len(p)
		if n == 1 {
			size = room - len(p)
		}
		d, room = append(d, definitions.Document{Path: p, Data: bytes.Repeat([]byte("x"), size)}), room-len(p)-size
	}
	return d
}

// wide are playbooks that select many hosts, or none.
func wide(selects bool) []definitions.Document {
	var hosts strings.Builder
	hosts.WriteString(inventoryYAML)
	for i := range 700 {
		fmt.Fprintf(&hosts, "  h%03d%s: {}\n", i, strings.Repeat("x", 200))
	}
	d := docs("")
	d[0].Data = []byte(hosts.String())
	for i := range 20 {
		text := fmt.Sprintf("playbook: p%02d\ntargets: %v\nsteps:\n  - {name: one, uses: look}\n", i, selects)
		d = append(d, definitions.Document{Path: fmt.Sprintf("playbooks/p%02d.yaml", i), Data: []byte(text)})
	}
	return d
}

// A server takes each project that is valid, up to its largest size and with whatever it changes.
func TestALargeProjectIsTaken(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", nil)
		defer stop()
		l.apply(c, filled(wide(false)), 0)
		large := filled(wide(true))
		two := l.apply(c, large, 1)
		now := c.Current()
		if len(two.Changes.Changes) != 20 || len(now.Changes.Changes) != 20 || now.LeftOut != 0 {
			t.Errorf("%d changes, kept %d, left out %d", len(two.Changes.Changes), len(now.Changes.Changes), now.LeftOut)
		}
		if one, kept := two.Changes.Changes[0], now.Changes.Changes[0]; len(one.HostsCome) != 702 || len(kept.HostsCome) != 0 || !strings.Contains(strings.Join(kept.Details, "\n"), "702 hosts more") {
			t.Errorf("%d hosts, kept %d: %q", len(one.HostsCome), len(kept.HostsCome), kept.Details)
		}
		large[len(large)-1].Data = append(large[len(large)-1].Data, 'x')
		if _, err := c.Check(l.Context(), large, definitions.Revision{}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "larger than 11 MiB together") {
			t.Errorf("one byte more: %v", err)
		}
	})
}

// The status has why a folder is refused: here paths that are longer in JSON.
func TestFolderThatIsTooLarge(t *testing.T) {
	fake(t, func(l *lab) {
		dir := t.TempDir()
		long := "inventory" + strings.Repeat("/"+strings.Repeat("&", 250), 3)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, long), 0o700), os.MkdirAll(filepath.Join(dir, "playbooks"), 0o700)); err != nil {
			t.Fatal(err)
		}
		d := docs("")
		for i := range 4000 {
			d = append(d, definitions.Document{Path: fmt.Sprintf("%s/%04d.cfg", long, i)})
		}
		for _, one := range d {
			if err := os.WriteFile(filepath.Join(dir, one.Path), one.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, stop := l.server("s1", func(cfg *catalog.Config) { cfg.Folder = dir })
		defer stop()
		l.until("it is reported", func() bool { return c.Status().Folder != "" })
		if why := c.Status().Folder; !strings.Contains(why, "larger than 11 MiB together") {
			t.Errorf("of the folder: %s", why)
		}
		if _, err := c.Check(l.Context(), d, definitions.Revision{}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "larger than 11 MiB together") {
			t.Errorf("before it is merged: %v", err)
		}
		if n := len(l.said(catalog.ProjectRejected)); n != 1 {
			t.Errorf("it was reported %d times", n)
		}
	})
}
