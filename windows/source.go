package windows

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of what is read. They keep a hostile file from costing time or memory.
const (
	MaxFileSize = 1 << 20 // bytes
	MaxProblems = 20      // reported for each load
	maxDates    = 100_000 // of one calendar
	maxDepth    = 16
)

// Problem is one mistake in a definition. Line and Col count from 1; 0 is the file as a whole.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
	Snippet string `json:"snippet,omitempty"` // the line, and a caret below it
	Hint    string `json:"hint,omitempty"`
}

func (p Problem) String() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	}
	s := place + ": " + p.Message
	if p.Snippet != "" {
		s += "\n" + p.Snippet
	}
	if p.Hint != "" {
		s += "\n  hint: " + p.Hint
	}
	return s
}

// Problems is every mistake found, by place. errors.Is(err, ErrInvalid) holds.
type Problems []Problem

func (p Problems) Error() string {
	parts := make([]string, len(p))
	for i, one := range p {
		parts[i] = one.String()
	}
	return strings.Join(parts, "\n\n")
}

// Is makes errors.Is(err, ErrInvalid) hold.
func (p Problems) Is(target error) bool { return target == ErrInvalid }

// source is one file's text, for snippets.
type source struct {
	file  string
	lines []string
}

var lineEnds = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]") }) // YAML ends lines at all of them

func (s *source) problem(line, col int, message, hint string) Problem {
	p := Problem{File: s.file, Message: strings.Map(printable, message), Hint: strings.Map(printable, hint)}
	if line < 1 || line > len(s.lines) {
		return p
	}
	p.Line, p.Col = line, max(col, 1)
	text := []rune(s.lines[line-1])
	const most = 120
	at, from := min(p.Col-1, len(text)), 0
	if len(text) > most && at > most/2 {
		from = min(at-most/2, len(text)-most)
	}
	number := strconv.Itoa(line)
	shown := strings.Map(printable, string(text[from:min(from+most, len(text))]))
	p.Snippet = fmt.Sprintf("  %s | %s\n  %s | %s^", number, strings.TrimRight(shown, " "), strings.Repeat(" ", len(number)), strings.Repeat(" ", at-from))
	return p
}

// printable keeps what is quoted from steering a terminal.
func printable(r rune) rune {
	switch {
	case r == '\t' || r == '\n':
		return ' '
	case !unicode.IsPrint(r):
		return '·'
	}
	return r
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`) })

// readYAML is the root of the only document of a file.
func readYAML(file string, data []byte) (*source, *yaml.Node, *Problem) {
	src := &source{file: file}
	fail := func(line, col int, message, hint string) (*source, *yaml.Node, *Problem) {
		p := src.problem(line, col, message, hint)
		return src, nil, &p
	}
	if len(data) > MaxFileSize {
		return fail(0, 0, "the file is larger than 1 MiB", "split it; several files are read together")
	}
	text := string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	src.lines = lineEnds().Split(text, -1)
	for n, line := range src.lines {
		for i, r := range line {
			if _, size := utf8.DecodeRuneInString(line[i:]); r == utf8.RuneError && size == 1 {
				return fail(n+1, utf8.RuneCountInString(line[:i])+1, fmt.Sprintf("byte 0x%02x is not UTF-8", line[i]), "save the file as UTF-8")
			}
			if r < ' ' && r != '\t' || r == 0x7f {
				return fail(n+1, utf8.RuneCountInString(line[:i])+1, fmt.Sprintf("control character U+%04X", r), "")
			}
		}
	}
	root, second, err := yamlread.Decode([]byte(text))
	switch {
	case err != nil:
		m := yamlLine().FindStringSubmatch(err.Error())
		if m == nil {
			return fail(0, 0, "not YAML: "+err.Error(), "")
		}
		line, _ := strconv.Atoi(m[1])
		return fail(line, 1, "not YAML: "+m[2], `check the indentation, and put quotes around a value that holds ": ", "@" or "*"`)
	case root == nil:
		return fail(0, 0, "the file is empty", "expected window_sets, freezes or holidays")
	case second != nil:
		return fail(second.Line, 1, "a second YAML document begins here", "move it to a file of its own")
	}
	return src, root, nil
}

// quote is text for a message: quoted, and cut when long.
func quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}

func didYouMean(word string, names []string) string {
	return yamlread.DidYouMean(word, slices.Sorted(slices.Values(names)))
}
