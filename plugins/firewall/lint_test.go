package firewall

import (
	"strings"
	"testing"
)

// Any accepted text declares the table and nothing else: behind each accepted text a flush is seen,
// wherever it hides.
func FuzzLint(f *testing.F) {
	for _, seed := range []string{
		"table inet turnus {\n chain a { type filter hook input priority 0; policy drop;\n tcp dport { 22, 80 } accept comment \"} # {\"\n }\n}",
		"define a = { 1,\n 2 }\ntable inet turnus { set s { type ipv4_addr; elements = { 10.0.0.1 } } }",
		"# } flush ruleset\ntable inet turnus {\n}\n", "table inet turnus { \\\n }", "table inet turnus", `"`, "{}", "}{", "\\\n", "table inet turnus { counter c { } quota q { over 1 mbytes } }",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if lint(text, "inet turnus") != nil {
			return
		}
		if !strings.Contains(text, "turnus") {
			t.Errorf("accepted without the table: %q", text)
		}
		for _, more := range []string{"\nflush ruleset", "\n;flush\truleset;", "\ntable ip filter { }", "\ndelete table ip nat", "\ninclude \"/etc/x\""} {
			if lint(text+more, "inet turnus") == nil {
				t.Errorf("accepted: %q", text+more)
			}
		}
	})
}

func TestStatementsKeepTheirLines(t *testing.T) {
	text := "define a = { 1,\n 2 }\n\n# x { \ntable inet turnus { chain c {\n tcp dport { 1, 2 } accept; drop\n}\n}\n"
	want := map[string]int{"define a = { 1,  2 }": 2, "table inet turnus": 5, "chain c": 5, "tcp dport { 1, 2 } accept": 6, "drop": 6}
	for _, s := range statements(text) {
		if s.text != "" && want[s.text] != s.line {
			t.Errorf("%q on line %d, want %d", s.text, s.line, want[s.text])
		}
		delete(want, s.text)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
