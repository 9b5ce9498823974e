package yamlread

import (
	"strings"
	"testing"
)

func TestRoot(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 1":                "",
		"---\na: 1\n":         "",
		"a: 1\n...\n":         "",
		"":                    "nothing",
		"# a word\n":          "nothing",
		"a: 1\n---\nb: 2\n":   "yaml: line 2: a second YAML document",
		"a: 1\n---\nb: [2\n":  "yaml: line",
		"a: [":                "yaml: line 1",
		"a: b: c":             "yaml: ",
		"a: *nobody":          "yaml: unknown anchor",
		"? a\n: \n b\n- c\n[": "yaml: ",
	} {
		root, err := Root([]byte(text))
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case root == nil:
			got = "nothing"
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

// With any bytes, the parser's panics do not get out.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("a: 1\n---\n- &b [*b]"))
	f.Add([]byte("0: [:!00 \xef"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, second, err := Decode(data)
		if err != nil && (first != nil || second != nil || !strings.HasPrefix(err.Error(), "yaml: ")) {
			t.Errorf("%v, %v, %v", first, second, err)
		}
	})
}
