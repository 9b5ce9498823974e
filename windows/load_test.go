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

func TestPageExampleLoads(t *testing.T) {
	d := load(t, `
window_sets:
  oncall-hours: {timezone: Europe/Berlin, allow: [{rrule: FREQ=DAILY, from: "00:00", to: "24:00"}]}
  acme-fra:
    scope: {customer: acme, site: fra}
    timezone: Europe/Berlin
    inherit: intersect            # or replace | extend (allows only)
    allow:
      - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00", valid: [2026-01-01, 2026-12-31]}
      - {id: patch, rrule: "FREQ=MONTHLY;BYDAY=2TU", offset: 2d, from: "01:00", to: "05:00"}
      - {id: legacy, cron: "0 22 * * SUN", duration: 4h}
      - {id: CHG0041, at: "2026-10-24T22:00", to: "2026-10-25T04:00"}
    requires: [oncall-hours]      # intersected
    deny: [{use: freeze/xmas}, {use: holidays/DE-HE, effect: clip}]   # or cancel
    cutoff: 30m
    overrun: stop_at_checkpoint
    approval: {by: acme-cab, until: 2026-12-15, max_occurrences: 4}
    carry_over: {max: 3, deadline: 2026-12-15}
freezes:
  xmas: {timezone: Europe/Berlin, from: "2026-12-20", to: "2027-01-07"}   # half-open
`)
	c := d.Compile("acme-fra", Ahead(instantOf(t, "2026-09-01T00:00:00Z"), 400))
	if c.Reason() != "" || c.Cutoff != 30*time.Minute || c.Overrun != StopAtCheckpoint || c.Carry.Max != 3 {
		t.Errorf("%+v", c)
	}
	if got := c.Carry.Deadline.UTC().Format(time.RFC3339); got != "2026-12-15T23:00:00Z" {
		t.Errorf("the deadline is %s: a last day counts whole", got)
	}
	open := 0
	for _, w := range c.Occurrences(c.Horizon.From, c.Horizon.To) {
		if w.Unapproved == "" {
			open++
		}
	}
	if open != 4 {
		t.Errorf("%d windows are approved, want 4", open)
	}
}

func TestProblemsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"unknown key", "window_sets:\n  s: {timezone: UTC, alow: []}", `w.yaml:2:22: unknown key "alow" in window set "s"`},
		{"near miss", "window_sets:\n  s: {timezone: UTC, alow: []}", `did you mean "allow"?`},
		{"top level", "windows_sets: {}", `did you mean "window_sets"?`},
		{"a hash of another place", "window_sets:\n  s: {timezone: UTC, approval: {by: cab, targets: abc}}", "as `turnus plan -o json` prints them"},
		{"a word of playbooks", "window_sets:\n  none: {timezone: UTC, allow: []}", `w.yaml:2:3: no window set may have the name "none"`},
		{"a word of playbooks, in other letters", "window_sets:\n  Service: {timezone: UTC, allow: []}", `no window set may have the name "Service"`},
		{"twice", "freezes: {}\nfreezes: {}", `w.yaml:2:1: key "freezes" is given twice`},
		{"no zone", "window_sets:\n  s: {allow: []}", `window set "s" has no "timezone"`},
		{"zone", "window_sets:\n  s: {timezone: berlin}", `w.yaml:2:17: time zone "berlin": did you mean "Europe/Berlin"?`},
		{"inherit", "window_sets:\n  s: {timezone: UTC, inherit: replce}", `did you mean "replace"?`},
		{"list", "window_sets:\n  s: {timezone: UTC, requires: x}", "a list of one is written [x]"},
		{"no value", "window_sets:\n  s: {timezone: UTC, allow: }", `"allow" has no value`},
		{"two kinds", "window_sets:\n  s:\n    timezone: UTC\n    allow:\n      - {cron: 0 0 * * *, rrule: FREQ=DAILY, duration: 1h}", "w.yaml:5:9: a rule needs exactly one of rrule, cron and at; 2 are given"},
		{"no end", "window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *}]}}", `either "to" or "duration"`},
		{"two ends", `window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *, to: "05:00", duration: 1h}]}}`, `either "to" or "duration"`},
		{"over midnight", `window_sets: {s: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "22:00", to: "05:00"}]}}`, `the next day is written "+1d 05:00"`},
		{"cron over midnight", "window_sets:\n  s: {timezone: UTC, deny: [{cron: 0 22 * * FRI, to: \"05:00\"}]}", `w.yaml:2:54: to is not after the last time of day at which cron "0 22 * * FRI" starts`},
		{"cron that ends as it starts", `window_sets: {s: {timezone: UTC, allow: [{cron: "0,30 4-5 * * *", to: "05:30"}]}}`, `the next day is written "+1d 05:00"`},
		{"clock", `window_sets: {s: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "25:00", to: "05:00"}]}}`, `from "25:00": there is no such time`},
		{"no from", `window_sets: {s: {timezone: UTC, allow: [{rrule: FREQ=DAILY, to: "05:00"}]}}`, `no "from"`},
		{"from with cron", `window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *, from: "01:00", to: "05:00"}]}}`, "from is for rules with rrule"},
		{"cron", "window_sets:\n  s: {timezone: UTC, allow: [{cron: 0 25 * * *, duration: 1h}]}", `w.yaml:2:37: cron expression "0 25 * * *": hour field "25"`},
		{"cron never", "window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 30 2 *, duration: 1h}]}}", "never matches a day"},
		{"cron too often", `window_sets: {s: {timezone: UTC, allow: [{cron: "* * * * *", duration: 1m}]}}`, "more than 10000 times in 400 days"},
		{"rrule", "window_sets:\n  s: {timezone: UTC, allow: [{rrule: FREQ=HOURLY, from: \"01:00\", to: \"02:00\"}]}", `w.yaml:2:38: rrule "FREQ=HOURLY": FREQ: "HOURLY" is not supported`},
		{"too many rules", "window_sets:\n" + manySets(), "more than 5000 rules in one file"},
		{"wall time", "window_sets: {s: {timezone: UTC, allow: [{at: 2026-05-01T10:00Z, to: 2026-05-01T12:00}]}}", "at \"2026-05-01T10:00Z\""},
		{"backwards", "window_sets: {s: {timezone: UTC, allow: [{at: 2026-05-01T10:00, to: 2026-05-01T09:00}]}}", "to is not after at"},
		{"too long", `window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *, duration: 99d}]}}`, "at most 31 days"},
		{"valid", `window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *, duration: 1h, valid: [2026-01-02, 2026-01-01]}]}}`, "valid ends before it begins"},
		{"valid one", `window_sets: {s: {timezone: UTC, allow: [{cron: 0 0 * * *, duration: 1h, valid: [2026-01-02]}]}}`, "two dates"},
		{"same id", `window_sets: {s: {timezone: UTC, allow: [{id: a, cron: 0 0 * * *, duration: 1h}, {id: a, cron: 0 2 * * *, duration: 1h}]}}`, `have the id "a"`},
		{"unknown freeze", "window_sets: {s: {timezone: UTC, deny: [{use: freeze/xmass}]}}\nfreezes: {xmas: {timezone: UTC, from: 2026-12-20, to: 2027-01-07}}", `did you mean "xmas"?`},
		{"unknown calendar", "window_sets: {s: {timezone: UTC, deny: [{use: holidays/XX}]}}", `unknown holiday calendar "XX"`},
		{"unknown use", "window_sets: {s: {timezone: UTC, deny: [{use: sundays}]}}", "expected freeze/NAME or holidays/NAME"},
		{"unknown set", "window_sets: {s: {timezone: UTC, requires: [t]}}", `unknown window set "t" in requires`},
		{"requires itself", "window_sets: {s: {timezone: UTC, requires: [t]}, t: {timezone: UTC, requires: [s]}}", "requires itself"},
		{"freeze order", "freezes: {f: {timezone: UTC, from: 2026-12-20, to: 2026-12-20}}", "ends before it begins"},
		{"approval without by", "window_sets: {s: {timezone: UTC, approval: {until: 2026-12-15}}}", `the approval has no "by"`},
		{"hash", "window_sets: {s: {timezone: UTC, approval: {by: cab, window: abc}}}", "sha256: and 64"},
		{"duration", "window_sets: {s: {timezone: UTC, cutoff: 1.5h}}", `duration "1.5h"`},
		{"calendar loop", "holidays: {a: {include: [b]}, b: {include: [a]}}", "includes itself"},
		{"alias bomb", "x-a: &a [1]\nwindow_sets: *a", "window_sets is a list: expected a mapping"},
		{"control character", "window_sets: {\x01}", "control character"},
		{"not UTF-8", "window_sets: {s\xff: {}}", "not UTF-8"},
		{"two documents", "freezes: {}\n---\nfreezes: {}", "second YAML document"},
		{"not YAML", "window_sets: [", "not YAML"},
		{"scalar", "hello", `the file is the text "hello": expected a mapping with the keys window_sets`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(Document{"w.yaml", []byte(c.text)})
			var problems Problems
			if !errors.As(err, &problems) || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// manySets are 27 sets of 190 denies each.
func manySets() string {
	var b strings.Builder
	for i := range 27 {
		fmt.Fprintf(&b, "  m%d: {timezone: UTC, deny: [%s]}\n", i, strings.Repeat("{cron: 0 0 * * *, duration: 1h},", 190))
	}
	return b.String()
}

func TestEveryProblemIsReported(t *testing.T) {
	_, err := Parse(Document{"w.yaml", []byte(`
window_sets:
  a: {timezone: Mars, allow: [{cron: "0 25 * * *", duration: 1h}, {rrule: FREQ=DAILY, from: "22:00", to: "05:00"}], cutoff: x}
  b: {timezone: UTC, deny: [{use: freeze/none}]}
`)})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 5 {
		t.Fatalf("%v", err)
	}
	for i, p := range problems {
		if p.Line == 0 || p.Snippet == "" || i > 0 && p.Line < problems[i-1].Line {
			t.Errorf("%+v", p)
		}
	}
	var many strings.Builder
	many.WriteString("freezes:\n")
	for range 50 {
		many.WriteString("  f: {x: 1}\n")
	}
	_, err = Parse(Document{"w.yaml", []byte(many.String())})
	if !errors.As(err, &problems) || len(problems) > MaxProblems {
		t.Errorf("%d problems", len(problems))
	}
}

func TestLoadReadsFilesAndFoldersTogether(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sets.yaml", "window_sets: {s: {timezone: UTC, deny: [{use: freeze/f}]}}")
	write("freezes.yml", "freezes: {f: {timezone: UTC, from: 2026-12-20, to: 2027-01-07}}")
	write("notes.txt", "[")
	d, err := Load(dir)
	if err != nil || d.Sets["s"] == nil || d.Freezes["f"] == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := Load(filepath.Join(dir, "sets.yaml")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a set whose freeze is in no file: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "gone.yaml")); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
	write("again.yaml", "freezes: {f: {timezone: UTC, from: 2026-12-20, to: 2027-01-07}}")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "defined twice") {
		t.Errorf("got %v", err)
	}
	write("big.yaml", strings.Repeat("#", MaxFileSize+1))
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"window_sets: {s: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: \"00:00\", to: \"24:00\"}]}}",
		"window_sets:\n  s:\n    scope: {a: b}\n    timezone: Europe/Berlin\n    allow:\n      - {cron: 0 22 * * SUN, duration: 4h}\n    deny: [{use: holidays/DE-HE, effect: cancel}]",
		"freezes: {f: {timezone: UTC, from: 2026-12-20, to: 2027-01-07, owner: a, made: 2026-01-01}}",
		"x: &a [*a]", "window_sets: &a {s: *a}", "holidays: {a: {include: [a]}}", "\t", "window_sets: {s: {timezone: UTC, allow: [{at: 2026-01-01, to: 2026-01-02, utc: 2026-01-01}], approval: {by: x, max_occurrences: 1}}}",
	} {
		f.Add(seed)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(Document{"fuzz.yaml", []byte(text)})
		if err != nil {
			if !errors.Is(err, ErrInvalid) || strings.ContainsAny(err.Error(), "\x1b\x00\x07") {
				t.Fatalf("%q", err)
			}
			return
		}
		for name := range d.Sets {
			c := d.Compile(name, Ahead(from, 400))
			for _, w := range c.Occurrences(from, c.Horizon.To) {
				if !w.Close.After(w.Open) {
					t.Fatalf("window %+v", w)
				}
			}
			if at, err := c.Next(from, time.Minute); err == nil && at.Before(from) {
				t.Fatalf("next %s", at)
			}
			if _, err := c.Explain(from, time.Minute); err != nil {
				t.Fatal(err)
			}
			d.Lint(c, time.Hour)
		}
	})
}

func FuzzRRule(f *testing.F) {
	for _, seed := range []string{
		"FREQ=WEEKLY;BYDAY=SA", "FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=MONTHLY;BYDAY=-1FR;COUNT=99999",
		"FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", "FREQ=DAILY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29", "FREQ=MONTHLY;BYSETPOS=-366;BYDAY=MO", "FREQ=YEARLY;UNTIL=21991231T235959Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := Rule{ID: "r", RRule: text, Duration: time.Hour, Valid: &Span{time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)}}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		list, err := r.occurrences(time.UTC, from, from.AddDate(0, 0, 400))
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		for i := 1; i < len(list); i++ {
			if !list[i].start.After(list[i-1].start) {
				t.Fatalf("%q: %s after %s", text, list[i].start, list[i-1].start)
			}
		}
	})
}
