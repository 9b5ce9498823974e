package ansible

import (
	"regexp"
	"testing"
)

// Ansible applies an expression to lines with their ends: "a\n" has a space for \s.
func TestExpressionsOfLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`^a b$`:          `^a b$`,
		`^#?\s*Port\s`:   `^#?\s*Port(?:\s|$)`,
		`a\s+(x|y)\s+b`:  `a\s+(x|y)(?:\s+|$)b`,
		`^[^#]*a[b-d]`:   `^[^#]*a[b-d]`,
		`^\s{2}a`:        "",
		`a[^b]`:          "",
		`(a\s|b)`:        "",
		`a\s|b`:          "",
		`a\Z`:            "",
		`a(?=b)`:         "",
		`(a)\1`:          "",
		`a{,3}`:          "",
		`[[:alpha:]]`:    "",
		`a\n`:            "",
		`ä`:              "",
		`(?i)port`:       `(?i)port`,
		`(?P<name>a)\.b`: `(?P<name>a)\.b`,
	} {
		if got, d := lineExpression(text); got != want || (d == nil) != (want != "") {
			t.Errorf("%s becomes %q (%v), expected %q", text, got, d, want)
		}
	}
	translated, d := lineExpression(`^Port\s`)
	if d != nil {
		t.Fatal(d.reason)
	}
	for line, same := range map[string]bool{"Port 22": true, "Port": true, "Ports": false} {
		if got := regexp.MustCompile(translated).MatchString(line); got != same {
			t.Errorf("%q: %t, expected %t as in Ansible", line, got, same)
		}
	}
	if regexp.MustCompile(`^Port\s`).MatchString("Port") {
		t.Error("negative control: the expression as it was also matches the line without its end")
	}
}

// An expression with {{ }} is compared with the line of the same item.
func TestLinesOfItems(t *testing.T) {
	t.Parallel()
	for loop, refused := range map[string]bool{
		"[{e: ^a, l: a b}, {e: ^c, l: c d}]": false,
		"[{e: ^a, l: c d}, {e: ^c, l: a b}]": true,
		"[{e: 'a\\s', l: a b}]":              true,
	} {
		got := reasons(t, map[string]string{"site.yml": "- hosts: all\n  tasks: [{lineinfile: {path: /x, regexp: '{{ item.e }}', line: '{{ item.l }}'}, loop: " + loop + "}]\n"}, nil)
		if (got != "") != refused {
			t.Errorf("%s: %q", loop, got)
		}
	}
}
