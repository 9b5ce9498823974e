package windows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// given is the Saturday's set with a proposal, and words in a second file.
func given(t *testing.T, approval, words string) (*Definitions, error) {
	t.Helper()
	set := "window_sets:\n  s:\n    timezone: UTC\n    " + approval + "\n    " + saturday + "\n  wide: {timezone: UTC, allow: [{id: all, rrule: FREQ=DAILY, from: \"00:00\", to: \"24:00\"}]}\n" +
		"freezes: {xmas: {timezone: UTC, from: 2026-05-08, to: 2026-05-12, owner: acme/ann, made: 2026-04-01}}\n"
	text := ""
	if words != "" {
		text = "approvals:\n  - {" + strings.ReplaceAll(words, "\n", "}\n  - {") + "}\n"
	}
	return Parse(Document{"words.yaml", []byte(text + "holidays: {x: {dates: [2026-01-01]}}\n")}, Document{"sets.yaml", []byte(set)})
}

const proposed = "approval: {id: P1, by: cab, state: proposed}"

func TestApprovalsThatStandApart(t *testing.T) {
	t.Parallel()
	bare, err := given(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	hash := bare.HashOf(bare.Sets["s"])
	const open = "05-02 22:00+00 to 05-03 05:00+00"
	for _, c := range []struct{ name, approval, words, want string }{
		{"a proposal alone", proposed, "", open + "; unapproved: approval P1 is only proposed"},
		{"approved", proposed, "set: s, by: ann, at: 2026-05-01T00:00, window: " + hash, open},
		{
			"only of an older definition", proposed, "set: s, by: ann, at: 2026-05-01T00:00, window: sha256:" + strings.Repeat("0", 64),
			open + "; unapproved: the window was edited after the approval by ann",
		},
		{"for a rule", proposed, "set: s, rule: sat, by: ann, at: 2026-05-01T00:00", open},
		{
			"a range", proposed, "set: s, by: ann, at: 2026-05-01T00:00, from: 2026-05-02T23:00, until: 2026-05-03T01:00",
			"05-02 22:00+00 to 05-02 23:00+00; unapproved: the approval by ann covers nothing before 2026-05-02 23:00\n05-02 23:00+00 to 05-03 01:00+00; clipped to its approval\n" +
				"05-03 01:00+00 to 05-03 05:00+00; unapproved: the approval by ann expired 2026-05-03 01:00",
		},
		{
			"two ranges together", proposed, "set: s, by: ann, at: 2026-05-01T00:00, until: 2026-05-03T01:00\nset: s, by: bob, at: 2026-05-01T00:00, from: 2026-05-03T01:00",
			open + "; clipped to its approval",
		},
		{"besides the file's", "approval: {by: cab, at: 2026-05-01, until: 2026-05-02T23:00}", "set: s, by: ann, at: 2026-05-01T00:00", open + "; clipped to its approval"},
		{
			"revoked", proposed, "set: s, by: ann, at: 2026-05-01T00:00\nset: s, by: bob, at: 2026-05-02T00:00, state: revoked",
			open + "; unapproved: bob revoked it 2026-05-02 00:00",
		},
		{
			"whatever the order they are written in", proposed, "set: s, by: bob, at: 2026-05-02T00:00, state: revoked\nset: s, by: ann, at: 2026-05-01T00:00",
			open + "; unapproved: bob revoked it 2026-05-02 00:00",
		},
		{
			"approved again", proposed, "set: s, by: ann, at: 2026-05-01T00:00\nset: s, by: bob, at: 2026-05-02T00:00, state: revoked\nset: s, by: ann, at: 2026-05-02T01:00",
			open,
		},
		{
			"the file's revoked", "approval: {by: cab}", "set: s, by: bob, at: 2026-05-02T00:00, state: revoked",
			open + "; unapproved: bob revoked it 2026-05-02 00:00",
		},
		{"the file's later", "approval: {by: cab, at: 2026-05-02T12:00}", "set: s, by: bob, at: 2026-05-02T00:00, state: revoked", open},
		{"what needed none", "overrun: finish", "set: s, by: bob, at: 2026-05-02T00:00, state: revoked", open + "; unapproved: bob revoked it 2026-05-02 00:00"},
		{"of another rule's set nothing", "overrun: finish", "set: wide, by: bob, at: 2026-05-02T00:00, state: revoked", open},
	} {
		d, err := given(t, c.approval, c.words)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := occurrences(t, d, "s", "2026-05-02", "2026-05-04"); got != c.want {
			t.Errorf("%s:\n%s\nexpected\n%s", c.name, got, c.want)
		}
	}
}

// A revocation of a set is for all its rules: an approval that moves beside a rule, in the file,
// opens nothing again. Only a later approval of the rule does.
func TestRevocationOfASetIsForAllItsRules(t *testing.T) {
	t.Parallel()
	const open = "05-02 22:00+00 to 05-03 05:00+00"
	const revoked = "set: s, by: bob, at: 2026-05-02T00:00, state: revoked"
	for _, c := range []struct{ name, approval, words, want, standing string }{
		{"not revoked", "{by: cab}", "set: s, by: ann, at: 2026-05-01T00:00", open, "sat true 0"},
		{"revoked", "{by: cab}", revoked, open + "; unapproved: bob revoked it 2026-05-02 00:00", "sat false 1"},
		{
			"the set approved again", "{by: cab}", revoked + "\nset: s, by: ann, at: 2026-05-02T01:00",
			open + "; unapproved: bob revoked it 2026-05-02 00:00", "sat false 1",
		},
		{"the rule approved again", "{by: cab}", revoked + "\nset: s, rule: sat, by: ann, at: 2026-05-02T01:00", open, "sat true 2"},
		{"the file's later", "{by: cab, at: 2026-05-02T12:00}", revoked, open, "sat true 1"},
	} {
		d, err := given(t, "overrun: finish", c.words)
		if err != nil {
			t.Fatal(err)
		}
		text := "window_sets: {s: {timezone: UTC, " + strings.Replace(saturday, "}]", ", approval: "+c.approval+"}]", 1) + "}}"
		with := load(t, text).WithGiven(valuesOf(d.Given))
		if got := occurrences(t, with, "s", "2026-05-02", "2026-05-04"); got != c.want {
			t.Errorf("%s:\n%s\nexpected\n%s", c.name, got, c.want)
		}
		all, err := with.Standings("s", instantOf(t, "2026-05-03T00:00:00Z"))
		if err != nil {
			t.Fatal(err)
		}
		last := all[len(all)-1]
		if got := fmt.Sprint(last.Rule, " ", last.Holds, " ", len(last.Given)); got != c.standing {
			t.Errorf("%s: %s, expected %s", c.name, got, c.standing)
		}
	}
}

func valuesOf(given []*Given) (out []Given) {
	for _, g := range given {
		out = append(out, *g)
	}
	return out
}

// An edit voids no approval of a rule that a revocation of its set has ended.
func TestAnEditVoidsNothingThatIsRevoked(t *testing.T) {
	t.Parallel()
	before := load(t, "window_sets: {s: {timezone: UTC, "+saturday+"}}")
	after := load(t, "window_sets: {s: {timezone: Europe/Berlin, "+saturday+"}}")
	at := instantOf(t, "2026-05-01T00:00:00Z")
	words := []Given{{Set: "s", Rule: "sat", Approval: Approval{By: "ann", At: at, Window: before.HashOf(before.Sets["s"])}}}
	if void := before.WithGiven(words).Voids(after, "s", at); len(void) != 1 {
		t.Errorf("%d approvals are void, expected that of the rule", len(void))
	}
	words = append(words, Given{Set: "s", Approval: Approval{By: "bob", State: Revoked, At: at.Add(time.Hour)}})
	if void := before.WithGiven(words).Voids(after, "s", at); len(void) != 0 {
		t.Errorf("%d approvals are void, which bob had revoked", len(void))
	}
}

// Words on a set cost little for each of its rules: what an approval covers is worked out once.
func TestWordsCostLittleForEachRule(t *testing.T) {
	var rules []string
	for i := range 40 {
		rules = append(rules, fmt.Sprintf(`{id: r%d, rrule: FREQ=DAILY, from: "%02d:00", to: "%02d:30"}`, i, i%24, i%24))
	}
	d := load(t, "window_sets: {s: {timezone: UTC, approval: {by: cab, at: 2026-05-01, max_occurrences: 9000}, allow: ["+strings.Join(rules, ", ")+"]}}")
	at := instantOf(t, "2026-05-01T00:00:00Z")
	words := []Given{{Set: "s", Rule: "r1", Approval: Approval{By: "ann", State: Approved, At: at}}}
	cost := func(d *Definitions) float64 {
		return testing.AllocsPerRun(1, func() { d.Compile("s", Ahead(at, 60)) })
	}
	if bare, with := cost(d), cost(d.WithGiven(words)); with > 3*bare {
		t.Errorf("%.0f allocations, without words %.0f", with, bare)
	}
}

// Evidence names the approvals that hold, of the file and separate ones, and no others.
func TestConsents(t *testing.T) {
	t.Parallel()
	const revoked = "\nset: s, by: bob, at: 2026-05-02T00:00, state: revoked"
	for _, c := range []struct{ approval, words, want string }{
		{"overrun: finish", "", ""},
		{"approval: {id: P1, by: cab}", "", "P1"},
		{proposed, "set: s, by: ann, at: 2026-05-01", "ann"},
		{"approval: {by: cab}", "set: s, by: ann, at: 2026-05-01", "cab ann"},
		{"approval: {by: cab, until: 2026-05-01}", "set: s, rule: sat, by: ann, at: 2026-05-01", "ann"},
		{"approval: {by: cab}", "set: s, by: ann, at: 2026-05-01" + revoked + "\nset: s, by: eve, at: 2026-05-02T01:00", "eve"},
		{proposed, "set: s, by: ann, at: 2026-05-01, from: 2026-05-03\nset: s, by: eve, at: 2026-05-01", "eve"},
		{proposed, "set: s, by: ann, at: 2026-05-01, change: sha256:" + strings.Repeat("0", 64) + "\nset: s, by: eve, at: 2026-05-01", "eve"},
	} {
		d, err := given(t, c.approval, c.words)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Consents("s", []string{"sat"}, Work{}, instantOf(t, "2026-05-02T23:00:00Z")), " "); got != c.want {
			t.Errorf("%s; %s: %q, expected %q", c.approval, c.words, got, c.want)
		}
	}
	d := load(t, "window_sets:\n  wide: {scope: {}, timezone: UTC, approval: {by: cab}, "+saturday+"}\n"+
		"  s: {scope: {customer: acme}, timezone: UTC, approval: {by: ann}}\n")
	if got := d.Consents("s", []string{"sat"}, Work{}, instantOf(t, "2026-05-02T23:00:00Z")); strings.Join(got, " ") != "ann cab" {
		t.Errorf("of what a set inherits: %q", got)
	}
	// Both sets allow it, by rules of different ids.
	d = load(t, "window_sets:\n  wide: {scope: {}, timezone: UTC, approval: {by: cab}, allow: ["+
		"{id: all, rrule: FREQ=DAILY, from: \"00:00\", to: \"24:00\"}, "+
		"{id: sunday, rrule: FREQ=WEEKLY;BYDAY=SU, from: \"00:00\", to: \"24:00\", approval: {by: eve}}]}\n"+
		"  s: {scope: {customer: acme}, timezone: UTC, approval: {by: ann}, "+saturday+"}\n")
	if got := d.Consents("s", []string{"sat"}, Work{}, instantOf(t, "2026-05-02T23:00:00Z")); strings.Join(got, " ") != "ann cab" {
		t.Errorf("of what both sets allow: %q", got)
	}
}

// An approval that was revoked before its range began approves nothing, and leaves what it does not
// approve in one piece. Two overlapping pieces an approval were 2^n pieces of n, and ended every
// server that worked out the set.
func TestFaultS5ApprovalsRevokedBeforeTheyBegin(t *testing.T) {
	t.Parallel()
	const ahead = 12
	words := strings.Repeat("set: s, by: ann, at: 2026-05-01T00:00, from: 2026-05-03T01:00\n", ahead)
	d, err := given(t, proposed, words+"set: s, by: bob, at: 2026-05-02T00:00, state: revoked")
	if err != nil {
		t.Fatal(err)
	}
	const want = "05-02 22:00+00 to 05-03 05:00+00; unapproved: bob revoked it 2026-05-02 00:00"
	if got := occurrences(t, d, "s", "2026-05-02", "2026-05-04"); got != want {
		t.Errorf("%d occurrences: %.200s\nexpected\n%s", strings.Count(got, "\n")+1, got, want)
	}
	// Control: without the revocation the same words approve their range.
	if d, err = given(t, proposed, strings.TrimSuffix(words, "\n")); err != nil {
		t.Fatal(err)
	}
	if got := occurrences(t, d, "s", "2026-05-02", "2026-05-04"); !strings.Contains(got, "05-03 01:00+00 to 05-03 05:00+00; clipped to its approval") {
		t.Error(got)
	}
}

// Words that are written as a file read the same; words on windows that are gone are left out.
func TestGivenDocument(t *testing.T) {
	t.Parallel()
	d, err := given(t, proposed, "")
	if err != nil {
		t.Fatal(err)
	}
	at := instantOf(t, "2026-05-01T10:00:00.000001Z")
	words := []Given{
		{Set: "s", Rule: "sat", From: at, Approval: Approval{ID: "CHG1", By: "acme/the approver", State: Approved, At: at, Until: at.Add(time.Hour), Freezes: []string{"xmas", "gone"}, Window: d.HashOf(d.Sets["s"])}},
		{Set: "s", Approval: Approval{By: "bob: {x} # y", State: Revoked, At: at}},
		{Set: "gone", Approval: Approval{By: "bob", State: Approved, At: at}},
		{Set: "s", Rule: "gone", Approval: Approval{By: "bob", State: Approved, At: at}},
	}
	doc, ok := d.GivenDocument("x", words)
	if !ok {
		t.Fatal("nothing is left")
	}
	sets, err := Parse(doc, Document{"sets.yaml", []byte("window_sets: {s: {timezone: UTC, " + saturday + "}}\nfreezes: {xmas: {timezone: UTC, from: 2026-05-08, to: 2026-05-12}}\n")})
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.Data)
	}
	if len(sets.Given) != 2 {
		t.Fatalf("%s", doc.Data)
	}
	one := *sets.Given[0]
	if one.By != "acme/the approver" || !one.At.Equal(at) || !one.From.Equal(at) || one.ID != "CHG1" || len(one.Freezes) != 1 || one.Rule != "sat" || one.Window == "" || sets.Given[1].State != Revoked || sets.Given[1].By != "bob: {x} # y" {
		t.Errorf("%+v %+v", one, sets.Given[1])
	}
	if _, ok := d.GivenDocument("x", words[2:]); ok {
		t.Error("there is a file of nothing")
	}
}

func TestWrongApprovalsApart(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"set: t, by: ann, at: 2026-05-01":                                      "no window set has the name",
		"set: s, rule: sun, by: ann, at: 2026-05-01":                           "has no rule",
		"set: s, by: ann":                                                      `"at"`,
		"set: s, by: ann, at: 2026-05-01, max_occurrences: 2":                  "unknown key",
		"set: s, by: ann, at: 2026-05-01, revoked: 2026-05-02":                 "unknown key",
		"set: s, by: ann, at: 2026-05-01, state: proposed":                     "proposed",
		"set: s, by: ann, at: 2026-05-01, until: 2026-04-01":                   "ends before it begins",
		"set: s, by: ann, at: 2026-05-01, freezes: [nope]":                     "unknown freeze",
		"set: s, by: ann, at: 2026-05-01, from: 2026-06-01, until: 2026-05-30": "ends before it begins",
		"set: s, by: \"\", at: 2026-05-01":                                     "1 to 300",
	} {
		_, err := given(t, proposed, words)
		var reported Problems
		if !errors.As(err, &reported) || !strings.Contains(err.Error(), want) || reported[0].Line == 0 {
			t.Errorf("%s: %v, expected %s", words, err, want)
		}
	}
}

// An approval by the owner of a freeze lifts it, also beside one that does not.
func TestApprovalApartLiftsAFreeze(t *testing.T) {
	t.Parallel()
	deny := "\n    deny: [{use: freeze/xmas}]"
	for who, want := range map[string]string{
		"acme/ann": "05-09 22:00+00 to 05-10 05:00+00", "acme/bob": "",
	} {
		d, err := given(t, proposed+deny, "set: s, by: acme/bob, at: 2026-05-01T00:00\nset: s, by: "+who+", at: 2026-05-02T00:00, freezes: [xmas]")
		if err != nil {
			t.Fatal(err)
		}
		if got := occurrences(t, d, "s", "2026-05-09", "2026-05-11"); got != want {
			t.Errorf("by %s: %q, expected %q", who, got, want)
		}
	}
}

func TestStandings(t *testing.T) {
	t.Parallel()
	at := instantOf(t, "2026-05-05T00:00:00Z")
	for _, c := range []struct{ approval, words, want string }{
		{proposed, "", "s//false"},
		{"overrun: finish", "", ""},
		{"overrun: finish", "set: s, rule: sat, by: x, at: 2026-05-01, state: revoked", "s/sat/false"},
		{proposed, "set: s, by: x, at: 2026-05-01", "s//true"},
		{proposed, "set: s, rule: sat, by: x, at: 2026-05-01", "s//false s/sat/true"},
		{proposed, "set: s, by: x, at: 2026-05-01, until: 2026-05-04", "s//false"},
	} {
		d, err := given(t, c.approval, c.words)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Standings("s", at)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range all {
			holds := "false"
			if s.Holds {
				holds = "true"
			}
			if s.Holds != (s.Reason == "") {
				t.Errorf("%+v", s)
			}
			got = append(got, s.Set+"/"+s.Rule+"/"+holds)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s; %s: %v, expected %s", c.approval, c.words, got, c.want)
		}
	}
	if _, err := load(t, "window_sets: {}").Standings("s", at); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// four_eyes changes no time: it voids no approval.
func TestFaultS13FourEyesVoidsNoApproval(t *testing.T) {
	t.Parallel()
	hash := func(more string) string {
		d, err := given(t, "overrun: finish"+more, "")
		if err != nil {
			t.Fatal(err)
		}
		if d.Sets["s"].FourEyes != (more == "\n    four_eyes: true") {
			t.Errorf("%q: four_eyes is %v", more, d.Sets["s"].FourEyes)
		}
		return d.HashOf(d.Sets["s"])
	}
	if plain := hash(""); hash("\n    four_eyes: true") != plain || hash("\n    four_eyes: false") != plain {
		t.Error("four_eyes changes the hash that approvals are bound to")
	}
	if _, err := given(t, "four_eyes: sometimes", ""); err == nil || !strings.Contains(err.Error(), "expected true or false") {
		t.Error(err)
	}
}
