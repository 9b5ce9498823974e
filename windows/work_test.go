package windows

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var someHash, otherHash = "sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)

func TestCompileForWork(t *testing.T) {
	d := one(t, `timezone: UTC
allow:
  - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "24:00", approval: {id: CHG1, by: cab, change: "`+someHash+`"}}
  - {id: sun, rrule: "FREQ=WEEKLY;BYDAY=SU", from: "22:00", to: "24:00"}`)
	h, saturday := Ahead(instantOf(t, "2026-11-20T00:00:00Z"), 400), instantOf(t, "2026-11-21T22:30:00Z")
	for _, c := range []struct {
		why  string
		c    *Compiled
		open bool
	}{
		{"nobody asks what for", d.Compile("s", h), true},
		{"what was approved", d.CompileFor(h, Work{Change: someHash}, "s")["s"], true},
		{"something else", d.CompileFor(h, Work{Change: otherHash}, "s")["s"], false},
		{"nothing known", d.CompileFor(h, Work{}, "s")["s"], false},
	} {
		e, err := c.c.Explain(saturday, time.Hour)
		if err != nil || e.Fits != c.open {
			t.Errorf("%s: %+v, %v", c.why, e, err)
		}
		if !c.open && (e.Cause != ByApproval || !strings.Contains(e.Reason, "unapproved: approval CHG1 was given for another change") || !e.Next.Equal(instantOf(t, "2026-11-22T22:00:00Z"))) {
			t.Errorf("%s: %+v, expected the rule that needs no approval to be next", c.why, e)
		}
	}
}

func TestBound(t *testing.T) {
	d := load(t, `
window_sets:
  free: {timezone: UTC, allow: [{id: a, rrule: FREQ=DAILY, from: "00:00", to: "01:00"}], approval: {by: cab}}
  own: {timezone: UTC, allow: [], approval: {by: cab, targets: "`+someHash+`"}}
  wide: {timezone: UTC, scope: {customer: acme}, allow: [{id: a, rrule: FREQ=DAILY, from: "00:00", to: "01:00", approval: {by: cab, change: "`+someHash+`"}}]}
  narrow: {timezone: UTC, scope: {customer: acme, site: fra}}
  asks: {timezone: UTC, allow: [], requires: [free, narrow]}
`)
	for name, want := range map[string]bool{"free": false, "own": true, "wide": true, "narrow": true, "asks": true, "nobody": false} {
		if got := d.Bound(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSpent(t *testing.T) {
	const weekly = `allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]`
	const untilThen = "\nfreezes: {long: {timezone: UTC, from: 2026-11-01, to: 2030-01-01}}"
	for _, c := range []struct {
		why, body string
		need      time.Duration
		spent     bool
		reason    string
	}{
		{"it opens", weekly, time.Hour, false, ""},
		{"it never lasts so long", weekly, 9 * time.Hour, true, "the longest window within 400 days lasts 8h"},
		{"a freeze takes all: it may be lifted", weekly + "\ndeny: [{use: freeze/long}]" + untilThen, time.Hour, false, ""},
		{"a freeze takes all, and it would not fit either", weekly + "\ndeny: [{use: freeze/long}]" + untilThen, 9 * time.Hour, true, ""},
		{"the approval is over", weekly + "\napproval: {id: CHG1, by: cab, until: 2026-11-10}", time.Hour, true, "sat would open at 2026-11-21 22:00 CET, but: unapproved: approval CHG1 expired"},
		{"the approval was revoked", weekly + "\napproval: {id: CHG1, by: cab, revoked: 2026-11-10}", time.Hour, true, "approval CHG1 was revoked"},
		{"its one window is over", `allow: [{id: CHG2, at: "2026-11-14T22:00", to: "2026-11-15T02:00"}]`, time.Hour, true, "does not open within 400 days"},
		{"something is not known", "requires: [nobody]\n" + weekly, time.Hour, false, ""},
	} {
		var d *Definitions
		if strings.Contains(c.body, "nobody") {
			d = one(t, weekly)
			d.Sets["s"].Requires = []string{"nobody"}
		} else {
			d = one(t, c.body)
		}
		at := instantOf(t, "2026-11-20T00:00:00Z")
		spent, reason := d.Compile("s", Ahead(at, 400)).Spent(at, c.need)
		if spent != c.spent || !strings.Contains(reason, c.reason) || spent == (reason == "") {
			t.Errorf("%s: %v, %q", c.why, spent, reason)
		}
	}
}

func TestReadAndFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "freezes: {}", "sub/b.yml": "holidays: {}", "c.txt": "no"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	docs, err := Read(dir)
	if err != nil || len(docs) != 2 || string(docs[0].Data) != "freezes: {}" || filepath.Base(docs[1].File) != "b.yml" {
		t.Errorf("%v, %v", docs, err)
	}
	if files, err := Files(filepath.Join(dir, "c.txt"), dir); err != nil || len(files) != 3 {
		t.Errorf("%v, %v: a file is taken whatever its name", files, err)
	}
	if _, err := Files(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file is no error")
	}
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if files, err := Files(link); err != nil || len(files) != 2 || files[0] != filepath.Join(link, "a.yaml") {
		t.Errorf("%v, %v: a folder may be a link", files, err)
	}
	hidden := filepath.Join(dir, "sub", ".git")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(hidden, "a.yaml"), filepath.Join(dir, ".#a.yaml")} {
		if err := os.WriteFile(file, []byte("no"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := Files(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v: what is hidden is not read", files, err)
	}
	if _, err := Files(hidden, t.TempDir()); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "has no .yaml or .yml file") {
		t.Errorf("an empty folder: %v", err)
	}
}

// An endless file is read to the bound of a file, and refused as one that is too large.
func TestReadIsBounded(t *testing.T) {
	docs, err := Read("/dev/zero")
	if err != nil || len(docs) != 1 || len(docs[0].Data) != MaxFileSize+1 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	if _, err := Parse(docs...); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Error(err)
	}
}

// Denials names each freeze once, however many sets of a wider scope name it, and also where an
// approval lifts it.
func TestDenials(t *testing.T) {
	d := load(t, `
window_sets:
  all: {timezone: Europe/Berlin, scope: {}, deny: [{use: freeze/x, effect: cancel}]}
  s:
    timezone: Europe/Berlin
    scope: {customer: acme}
    allow: [{id: night, rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]
    deny: [{use: freeze/x, effect: cancel}, {id: noon, rrule: FREQ=DAILY, from: "12:00", to: "13:00"}]
freezes: {x: {timezone: Europe/Berlin, from: 2026-12-02T10:00:00, to: 2026-12-03T00:00:00, owner: o}}
`)
	from := instantOf(t, "2026-12-02T00:00:00Z")
	c := d.Compile("s", Ahead(from, 30))
	got := ""
	for _, one := range c.Denials(from, from.AddDate(0, 0, 1)) {
		got += fmt.Sprintln(one.From.In(c.Zone).Format("02 15:04"), one.To.In(c.Zone).Format("02 15:04"), one.Use, one.Cancels)
	}
	if want := "02 10:00 03 00:00 freeze/x true\n02 12:00 02 13:00 noon false\n"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if none := c.Denials(instantOf(t, "2026-12-03T00:00:00Z"), instantOf(t, "2026-12-03T11:00:00Z")); len(none) != 0 {
		t.Errorf("%v", none)
	}
}
