package playbooks

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// readYAML turns bytes into one YAML document whose nodes know their places.
func readYAML(file string, data []byte) (*source, *yaml.Node, *Diagnostic) {
	fail := func(s *source, at span, p problem) (*source, *yaml.Node, *Diagnostic) {
		d := s.diagnose(at, p)
		return nil, nil, &d
	}
	if len(data) > MaxFileSize {
		return fail(newSource(file, ""), span{}, problem{
			message: "the file is larger than 1 MiB", expected: "a playbook of at most 1 MiB",
			hint: "keep large content in files of its own and name them in with:"})
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	src := newSource(file, string(data))
	if at, p, bad := badBytes(src.text); bad {
		line, col := src.place(at)
		return fail(src, span{line, col, 1}, p)
	}
	root, second, err := yamlread.Decode(data)
	switch {
	case err != nil:
		at, p := src.explainYAML(err)
		return fail(src, at, p)
	case root == nil:
		return fail(src, span{}, problem{message: "the file is empty", expected: "a mapping with the keys playbook, targets and steps", hint: "turnus init DIR makes a project with a playbook to start from"})
	case second != nil:
		return fail(src, src.wholeLine(second.Line), problem{
			message: "a second YAML document begins here", expected: "one playbook per file", hint: "move it to a file of its own"})
	}
	return src, root, nil
}

// control reports whether a character steers a terminal, and has no place in YAML.
func control(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }

// badBytes finds what no YAML text may hold.
func badBytes(text string) (at int, p problem, bad bool) {
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return 0, problem{message: "the file is UTF-16", expected: "UTF-8", hint: "save it as UTF-8"}, true
	}
	if strings.ContainsFunc(text[:min(len(text), 4)], control) { // a program, an archive
		return 0, problem{message: "the file is binary", expected: "a playbook in YAML", hint: "turnus init DIR makes a project with a playbook to start from"}, true
	}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i, problem{message: fmt.Sprintf("byte 0x%02x is not UTF-8", text[i]), expected: "UTF-8 text"}, true
			}
		}
		if control(r) {
			return i, problem{message: fmt.Sprintf("control character U+%04X", r), expected: "text",
				hint: fmt.Sprintf(`in a double-quoted string it is written \x%02x`, r)}, true
		}
	}
	return 0, problem{}, false
}

var (
	yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`) })
	// afterQuote finds a value that continues behind its quotes, as in targets: "web" in host.groups.
	afterQuote = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[\s-]*(\w+):\s+((?:"[^"]*"|'[^']*')\s*[^\s#,}\]].*)$`)
	})
	yamlUnknown = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unknown anchor '(.*)' referenced`) })
)

// explainYAML explains in a user's words what the YAML parser refused. The parser knows lines only,
// and sometimes the line before.
func (s *source) explainYAML(err error) (span, problem) {
	m := yamlLine().FindStringSubmatch(err.Error())
	if m == nil {
		return span{}, problem{message: "not YAML: " + err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	if strings.HasPrefix(m[2], "did not find expected") {
		line = s.firstBadLine(m[2])
	}
	if u := yamlUnknown().FindStringSubmatch(m[2]); u != nil {
		return s.find("*" + u[1]), problem{message: fmt.Sprintf("unknown alias %q", "*"+u[1]), expected: fmt.Sprintf("an anchor &%s before it", u[1])}
	}
	p := problem{message: "not YAML: " + m[2]}
	for n := max(line-1, 1); n <= line+1; n++ {
		text := s.line(n)
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
			return span{n, tab + 1, 1}, problem{message: "a tab indents this line", expected: "spaces: YAML knows no tabs here"}
		}
		if m := afterQuote().FindStringSubmatch(text); m != nil {
			p.hint = "quote an expression that begins with a quote as a whole: " + m[1] + ": '" + strings.ReplaceAll(strings.TrimSpace(m[2]), "'", "''") + "'"
			return s.wholeLine(n), p
		}
		if strings.Contains(text, "${{") && !strings.Contains(text, `"`) && !strings.Contains(text, "'") {
			p.hint = `put quotes around the value: "${{ … }}"`
			return s.wholeLine(n), p
		}
	}
	text := strings.TrimSpace(s.line(line))
	switch {
	case strings.Contains(m[2], "mapping values are not allowed"):
		p.hint = `put quotes around a value that holds ": ", and check the indentation`
	case strings.Contains(m[2], "cannot start any token"):
		p.hint = "put quotes around a value that begins with @, `, % or a tab"
	case strings.Contains(text, "{{"):
		p.hint = `expressions are written "${{ … }}", in quotes`
	case strings.Contains(m[2], "did not find expected"):
		p.hint = "check the indentation, and that quotes and brackets are closed"
	}
	if line == 0 {
		return span{}, p
	}
	return s.wholeLine(line), p
}

// firstBadLine is where a parser error first shows when the file is read line by line. The parser
// itself only reports where the broken mapping or list began.
func (s *source) firstBadLine(message string) int {
	low, high := 1, len(s.starts)
	for low < high {
		mid := (low + high) / 2
		_, _, err := yamlread.Decode([]byte(s.text[:s.starts[mid]]))
		if err != nil && strings.HasSuffix(err.Error(), message) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// find is the first place of a word, or the file as a whole.
func (s *source) find(word string) span {
	at := strings.Index(s.text, word)
	if at < 0 {
		return span{}
	}
	line, col := s.place(at)
	return span{line, col, utf8.RuneCountInString(word)}
}
