package language

import (
	"slices"
	"strings"
	"testing"
)

// Each rule notices its wrong sentence and accepts its right one: the negative control of the list.
func TestEachRuleNoticesItsWrongSentence(t *testing.T) {
	names := map[string]bool{}
	for _, r := range append(rules(), guideRules()...) {
		if names[r.name] {
			t.Errorf("two rules are named %s", r.name)
		}
		names[r.name] = true
		if !slices.ContainsFunc(Guide(r.wrong), func(f string) bool { return strings.Contains(f, r.write) }) {
			t.Errorf("%s: %q is not noticed", r.name, r.wrong)
		}
		if found := Guide(r.right); len(found) > 0 {
			t.Errorf("%s: %q is refused: %q", r.name, r.right, found)
		}
	}
}

func TestPage(t *testing.T) {
	long := strings.Repeat("word ", 41)
	wide := strings.Repeat("x", 101)
	for name, test := range map[string]struct {
		page string
		want []string // a part of each finding, in order
	}{
		"good":                  {"# Title\n\nTurnus runs jobs.\n", nil},
		"word":                  {"Turnus runs jobs.\nIt plans\nanew.\n", []string{`line 1: "anew"`}},
		"word in a list":        {"- one\n- plan anew\n", []string{`line 2: "anew"`}},
		"word in a table":       {"| a | b |\n| --- | --- |\n| plan anew | x |\n", []string{`line 3: "anew"`}},
		"code is no prose":      {"Use `anew`.\n\n```sh\nanew\n```\n", nil},
		"a link is its text":    {"See [the page](seal.md).\n", nil},
		"a path is no prose":    {"See [core/configs](core/configs/DECISIONS.md).\n", nil},
		"columns":               {wide + "\n", []string{"line 1: 101 columns"}},
		"columns of a table":    {"| " + wide + " |\n", nil},
		"columns of code":       {"```\n" + wide + "\n```\n", nil},
		"columns after code":    {"```\na\n```\n" + wide + "\n", []string{"line 4: 101 columns"}},
		"long sentence":         {"A b c. D e f. The\n" + strings.Repeat("word word word word\n", 10), []string{"41 words"}},
		"long cell":             {"| " + long + "|\n", []string{"41 words"}},
		"median of the page":    {strings.Repeat("One two three four five six seven eight nine ten eleven\ntwelve thirteen fourteen fifteen.\n\n", 3), []string{"median sentence has 15"}},
		"cells have no median":  {"| " + strings.Repeat("word ", 15) + "|\n", nil},
		"abbreviations, digits": {"It takes 1.5 s, e.g. Today.\n", nil},
	} {
		found := Page(test.page)
		ok := len(found) == len(test.want)
		for i := 0; ok && i < len(found); i++ {
			ok = strings.Contains(found[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: found %q, expected %q", name, found, test.want)
		}
	}
}

func TestLineProse(t *testing.T) {
	text := "#!/bin/sh\n# It plans\n# anew.\n\nplan anew # plans anew\n  # It plans.\n#   plan anew\n#NAME=anew\n# Plan at once"
	want := []string{`line 3: "anew"`, `line 9: "at once"`}
	found := LineProse("#", text)
	if len(found) != len(want) || !strings.HasPrefix(found[0], want[0]) || !strings.HasPrefix(found[1], want[1]) {
		t.Errorf("found %q, expected %q", found, want)
	}
}

func TestDecisions(t *testing.T) {
	for heading, want := range map[string]int{
		"## A run goes into the queue paused":     0,
		"## A run goes into the queue paused,":    1,
		"## A run is planned anew":                1,
		"## A run says why":                       1,
		"## How many workers there are is fixed":  1,
		"## What the server refuses exits with 5": 1,
		"## `watch` asks for counts":              0,
		"#5 is no heading,":                       0,
	} {
		if found := Decisions(heading + "\n\n(2026-11-23) It is so.\n"); len(found) != want {
			t.Errorf("%s: found %q, expected %d findings", heading, found, want)
		}
	}
	ten := "(2026-11-23) It is so.\n\n" + strings.Repeat("It is.\n", 9)
	for body, want := range map[string][]string{
		ten:                                   nil,
		"It is so.\n":                         {`line 5: the decision "A name" has no date`},
		"(2026-11-23) It says why.\n":         {`line 5: "says"`},
		ten + "It is.\n":                      {`line 3: the decision "A name" has 11 lines`},
		ten + "It is.\n## B name\n\nIt is.\n": {`line 3: the decision "A name" has 11 lines`, `line 19: the decision "B name" has no date`},
	} {
		found := Decisions("# Decisions\n\n## A name\n\n" + body)
		if !slices.EqualFunc(found, want, strings.HasPrefix) {
			t.Errorf("%q: found %q, expected %q", body, found, want)
		}
	}
}

func TestSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"One. Two? Three!":         {"One.", "Two?", "Three!"},
		"One (two). `three` four.": {"One (two).", "`three` four."},
		"It takes 1.5 s. e.g. so.": {"It takes 1.5 s. e.g. so."},
		"A file go.mod is read":    {"A file go.mod is read"},
		"":                         nil,
	} {
		if got := Sentences(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, expected %q", text, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		want int
	}{
		"an error":                     {"var e = fmt.Errorf(\"cannot plan %q \"+\"anew\", x)", 1},
		"an error without a format":    {"var e = errors.New(\"plan anew\")", 1},
		"a log message":                {"func f() { log.Warn(\"plan anew\", \"anew\", 1) }", 1},
		"a log message with a context": {"func f() { log.WarnContext(ctx, \"plan anew\") }", 1},
		"a report":                     {"func f() { con.Message(\"plan anew\") }", 1},
		"a hint":                       {"var e = fault{Hint: \"plan anew\"}", 1},
		"a message with a format":      {"var e = fault{message: fmt.Sprintf(\"plan %d anew\", x)}", 1},
		"a text of a field":            {"func f() { n.Text += \"plan anew\" }", 1},
		"a word of messages":           {"var e = errors.New(\"the run is held\")", 1},
		"another word of messages":     {"var e = fault{Hint: \"say changed\"}", 1},
		"a doc of a field":             {"type t struct {\n\tA int `jsonschema:\"planned anew\"`\n}", 1},
		"a name of a field":            {"type t struct {\n\tA int `json:\"anew\"`\n}", 0},
		"a flag is no prose":           {"var e = errors.New(\"give --forks\")", 0},
		"another call":                 {"func f() { put(\"anew\") }", 0},
	} {
		found, err := Messages("x.go", []byte("package x\n\n"+test.code+"\n"))
		if err != nil || len(found) != test.want {
			t.Errorf("%s: found %q (%v), expected %d findings", name, found, err, test.want)
		}
	}
	for _, check := range []func(string, []byte) ([]string, error){Messages, Comments, Failures} {
		if _, err := check("x.go", []byte("no Go")); err == nil {
			t.Error("a file that is no Go passes")
		}
	}
}

func TestComments(t *testing.T) {
	wide := strings.Repeat("x ", 60)
	for name, test := range map[string]struct {
		code string
		want int
	}{
		"a doc comment":             {"// Plan plans anew.\nfunc Plan() {}", 1},
		"of an unexported name":     {"// plan plans anew.\nfunc plan() {}", 1},
		"a word of messages":        {"// plan says when it runs.\nfunc plan() {}", 1},
		"a name of messages":        {"// say prints it.\nfunc say() {}", 0},
		"a field":                   {"type t struct {\n\ta int // planned anew\n}", 1},
		"above a field":             {"type t struct {\n\t// Planned anew.\n\ta int\n}", 1},
		"a constant":                {"const x = 1 // planned anew", 1},
		"a constant of a group":     {"const (\n\tx = 1 // planned anew\n\ty = 2\n)", 1},
		"a variable":                {"// x is planned anew.\nvar x = 1", 1},
		"of nothing":                {"// It plans anew.\n\nvar x = 1", 1},
		"in a function":             {"func plan() {\n\t// It plans anew.\n}", 1},
		"behind code":               {"func plan() {\n\tx() // plans anew\n}", 1},
		"two lines":                 {"func plan() {\n\t// The host is up, and it\n\t// plans anew.\n}", 1},
		"a function's value":        {"var plan = func() {\n\t// It plans anew.\n}", 1},
		"a name of the list":        {"// wakes is a file.\nfunc wakes() {}", 0},
		"the word of a name":        {"// wakes is a file. It wakes two.\nfunc wakes() {}", 1},
		"a field's name":            {"type t struct {\n\tgate int // gate is a number\n}", 0},
		"a list":                    {"// Plan:\n//\n//   - plans,\n//     anew\n//   - plans\nfunc Plan() {}", 1},
		"indented code":             {"// Plan plans:\n//\n//\tplan anew " + wide + "\nfunc Plan() {}", 0},
		"a long sentence":           {"// Plan " + strings.Repeat("a b c d e f g h i j\n// ", 5) + "\nfunc Plan() {}", 1},
		"plain":                     {"// plan plans.\nfunc plan() {\n\t// It plans again.\n}", 0},
		"a wide line":               {"// plan " + wide + "\nfunc plan() {}", 2},
		"a wide line in a function": {"func plan() {\n\t// " + wide + "\n}", 2},
		"a wide line behind code":   {"var y = 1 // " + wide, 1},
		"a directive":               {"//go:generate anew " + wide + "\nvar x = 1", 0},
		"a directive behind code":   {"func plan() {\n\tx() //nolint:gosec // plans anew\n}", 0},
		"an address":                {"// https://example.net/" + strings.Repeat("x", 90) + "\nvar x = 1", 0},
	} {
		found, err := Comments("x.go", []byte("// Package gate is one.\npackage gate\n\n"+test.code+"\n"))
		if err != nil || len(found) != test.want {
			t.Errorf("%s: found %q (%v), expected %d findings", name, found, err, test.want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]int{
		"It plans.\n\nIt plans anew.":                  1,
		"It says no.":                                  1,
		"For example:\n  plan anew\n\nIt plans again.": 0,
		strings.Repeat("word ", 41):                    1,
	} {
		if found := Text(text); len(found) != want {
			t.Errorf("%q: found %q, expected %d findings", text, found, want)
		}
	}
}

func TestFailures(t *testing.T) {
	for code, want := range map[string]int{
		`t.Errorf("%s: planned anew", name)`:       1,
		`t.Error("planned anew")`:                  1,
		`l.Fatal("planned anew", err)`:             1,
		`t.Fatalf("planned " + "anew: %v", err)`:   1,
		`t.Logf("planned anew: %v", err)`:          1,
		`t.Skip("planned anew")`:                   1,
		`t.Error("it says no")`:                    1,
		`t.Errorf("planned again: %v", err)`:       0,
		`t.Error(err, "anew")`:                     0, // the first argument is the message
		`t.Errorf("%q, expected %q", got, "anew")`: 0,
		`t.Run("planned anew", nil)`:               0,
		`errorf("planned anew")`:                   0,
		`t.Error()`:                                0,
	} {
		found, err := Failures("x_test.go", []byte("package x\n\nfunc y() {\n\t"+code+"\n}\n"))
		if err != nil || len(found) != want || want > 0 && !strings.HasPrefix(found[0], "line 4: ") {
			t.Errorf("%s: found %q, expected %d; %v", code, found, want, err)
		}
	}
}

func TestLongCommentsOfOtherFilesAreFound(t *testing.T) {
	long := strings.Repeat("é", MaxColumns-1)
	for text, want := range map[string]int{
		"# " + long:                     1,
		"  #" + long:                    1,
		"#" + long:                      0,
		"key: " + long + long:           0, // no comment
		"key: x # " + long:              0, // behind code
		"#   turnus run " + long:        0, // an example
		"# https://example.net/" + long: 0,
	} {
		if found := LineComments("#", "x: 1\n"+text); len(found) != want || want > 0 && !strings.HasPrefix(found[0], "line 2: ") {
			t.Errorf("%s: found %q, expected %d", text, found, want)
		}
	}
	if found := LineComments("--", "# "+long+"\n-- "+long); len(found) != 1 {
		t.Errorf("in Lua: %q", found)
	}
}
