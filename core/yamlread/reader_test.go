package yamlread

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// site is the value that the tables below read.
type site struct {
	name, mode string
	port       int
	open       bool
	tags, all  []string
	order      []string
	inner      []string
}

func (s *site) read(r *Reader, root *yaml.Node) bool {
	noted := func(f Field) Field {
		read := f.Read
		f.Read = func(n *yaml.Node) { s.order = append(s.order, f.Key); read(n) }
		return f
	}
	return r.MappingWith(root, "the site", map[string]string{"mood": `it is called "mode"`},
		noted(r.Text("name", &s.name).Needed()),
		noted(r.Int("port", &s.port, 1, 65535)),
		Choice(r, "mode", &s.mode, "fast", "slow").Needed(),
		r.Bool("open", &s.open),
		r.Texts("tags", &s.tags),
		r.Each("all", 2, func(n *yaml.Node) {
			var text string
			Parse(r, n, &text, func(text string) (string, error) {
				if strings.HasPrefix(text, "bad") {
					return "", errors.New("invalid word " + text)
				}
				return text, nil
			})
			s.all = append(s.all, text)
		}),
		Field{Key: "inner", Read: func(n *yaml.Node) {
			for _, p := range r.Pairs(n, "inner") {
				s.inner = append(s.inner, p.Name+"="+p.Value.Value)
			}
		}})
}

func TestMappingReadsInTheOrderOfTheTable(t *testing.T) {
	t.Parallel()
	var p Problems
	r, root := p.Open("f", []byte("x-port: &p 22\nport: *p\nmode: fast\nopen: true\nname: a\ntags: b\nall: [c, d]\ninner: {<<: [{e: 1}, {e: 2, f: 3}], f: 4}\n"))
	var s site
	if !s.read(r, root) || p.Err() != nil {
		t.Fatal(p)
	}
	if got := fmt.Sprintf("%+v", s); got != "{name:a mode:fast port:22 open:true tags:[b] all:[c d] order:[name port] inner:[f=4 e=1]}" {
		t.Error(got)
	}
}

func TestFaultsNameThePlaceAndWhatWasExpected(t *testing.T) {
	t.Parallel()
	const good = "{name: a, mode: slow, "
	for text, want := range map[string]string{
		"[a]":        "f:1:1: the site is a list: expected a mapping with the keys name, port, mode, open, tags, all, inner",
		"mode: slow": `f:1:1: the site has no "name": expected name: text`,
		"{nam: a, mode: slow}": "f:1:2: unknown key \"nam\" in the site: expected one of: name, port, mode, open, tags, all, inner\n" +
			`  hint: did you mean "name"?`,
		"{name: a, mood: slow}": "f:1:11: unknown key \"mood\" in the site: expected one of: name, port, mode, open, tags, all, inner\n" +
			`  hint: it is called "mode"`,
		good + "name: b}":            "f:1:23: key \"name\" is given twice\n  hint: it is in line 1 already",
		good + "[a]: b}":             "f:1:23: this key is a list: expected a word as a key",
		good + "port: }":             "f:1:23: \"port\" has no value\n  hint: leave the key out, or give it a value",
		good + "port: 0}":            `f:1:29: port "0": expected a whole number from 1 to 65535`,
		good + "port: [1]}":          "f:1:29: port is a list: expected a single value",
		good + "open: yes}":          `f:1:29: open "yes": expected true or false`,
		good + "tags: [a, {}]}":      "f:1:33: tags is a mapping: expected text, or a list of texts",
		good + "all: a}":             "f:1:28: all is the text \"a\": expected a list of at most 2\n  hint: a list of one is written [a]",
		good + "all: [a, b, c]}":     "f:1:35: all has 3 items: expected 2 at most",
		good + "all: [bad]}":         `f:1:29: all "bad": word bad`,
		good + "inner: 7}":           "f:1:30: inner is the number 7: expected a mapping",
		good + "inner: {<<: 7}}":     "f:1:35: << merges the number 7: expected a mapping, or a list of mappings",
		"{name: a, mode: fsat}":      "f:1:17: mode \"fsat\": expected one of: fast, slow\n  hint: did you mean \"fast\"?",
		good + "inner: &a {<<: *a}}": "f:1:38: nested too deep: expected at most 64 levels\n  hint: the alias *a seems to hold itself",
	} {
		var p Problems
		r, root := p.Open("f", []byte(text))
		if new(site).read(r, root) && strings.Contains(want, "unknown") {
			t.Errorf("%s: it is read as good", text)
		}
		if err := p.Err(); err == nil || err.Error() != want || !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s:\n%v\nexpected\n%s", text, err, want)
		}
	}
}

// A few bytes of aliases do not become a lot of work.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	bomb := "x-a: &a {k: v}\nx-b: &b {<<: [" + strings.Repeat("*a,", 400) + "]}\ninner: {<<: [" + strings.Repeat("*b,", 400) + "]}\nname: a\nmode: fast\n"
	var p Problems
	r, root := p.Open("f", []byte(bomb))
	new(site).read(r, root)
	if len(p) != 1 || !r.Full || !strings.Contains(p[0].Message, "too large") {
		t.Errorf("%v", p)
	}
}

func TestSecretReaderRepeatsNoValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hunter2", "inner: hunter2", "all: hunter2", "tags: [{a: hunter2}]", "name: &a hunter2\nmode: *a", // of a wrong kind
		"port: hunter2", "mode: hunter2", "open: hunter2", "all: [bad hunter2]", // of a wrong form
		"name: *hunter2", "name: %hunter2", "name: 'hunter2", "name: \"\\hunter2\"", "name: {hunter2", // not YAML
	} {
		var p Problems
		r, root := p.OpenSecret("f", []byte(text))
		if root != nil {
			new(site).read(r, root)
		}
		if p.Err() == nil || strings.Contains(p.Error(), "hunter2") {
			t.Errorf("%s: %v", text, p)
		}
	}
}

// FuzzMapping: whatever the file is, reading it ends, and each problem has a place and a text.
func FuzzMapping(f *testing.F) {
	f.Add([]byte("name: a\ninner: &a {<<: *a}"))
	f.Add([]byte("&a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Problems
		r, root := p.Open("f", data)
		if root == nil {
			return
		}
		new(site).read(r, root)
		for _, one := range p {
			if one.Line < 1 || one.Error() == "" {
				t.Errorf("%+v", one)
			}
		}
	})
}
