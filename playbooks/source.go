package playbooks

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// source is one file's text with its lines found.
type source struct {
	file   string
	text   string
	starts []int // byte offset of each line

	included string // where its file is included, as file:line:col; "" is nowhere
}

// span is a place in a source: line and col from 1, col and width in characters.
// The zero span is the file as a whole.
type span struct{ line, col, width int }

func newSource(file, text string) *source {
	s := &source{file: file, text: text, starts: []int{0}}
	for i, r := range text {
		switch r {
		case '\n', '\u0085', '\u2028', '\u2029': // YAML ends lines at all of them
		case '\r':
			if strings.HasPrefix(text[i+1:], "\n") {
				continue
			}
		default:
			continue
		}
		s.starts = append(s.starts, i+utf8.RuneLen(r))
	}
	return s
}

// line is the text of line n without its end; "" outside the file.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.starts) {
		return ""
	}
	text := s.text[s.starts[n-1]:]
	if n < len(s.starts) {
		text = text[:s.starts[n]-s.starts[n-1]]
	}
	return strings.TrimRight(text, "\r\n\u0085\u2028\u2029")
}

// offset is the byte offset of a line and column.
func (s *source) offset(line, col int) (int, bool) {
	if line < 1 || line > len(s.starts) {
		return 0, false
	}
	at := s.starts[line-1]
	for range col - 1 {
		_, n := utf8.DecodeRuneInString(s.text[at:])
		at += n
	}
	return at, at <= len(s.text)
}

// place is the line and column of a byte offset.
func (s *source) place(at int) (line, col int) {
	lo, hi := 0, len(s.starts)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; s.starts[mid] <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, utf8.RuneCountInString(s.text[s.starts[lo]:at]) + 1
}

// wholeLine underlines what is written on a line.
func (s *source) wholeLine(n int) span {
	text := s.line(n)
	body := strings.TrimLeft(text, " \t")
	return span{n, utf8.RuneCountInString(text) - utf8.RuneCountInString(body) + 1, utf8.RuneCountInString(strings.TrimRight(body, " \t"))}
}

// at is the place of a node: a scalar with its quotes, of a collection the first line.
func (s *source) at(n *yaml.Node) span {
	out := span{line: n.Line, col: n.Column, width: 1}
	from, ok := s.offset(n.Line, n.Column)
	if n.Kind != yaml.ScalarNode || !ok {
		return out
	}
	body := s.text[from:]
	if end := strings.IndexAny(body, "\r\n"); end >= 0 {
		body = body[:end]
	}
	if s := strings.IndexAny(body, "\"'"); s == 0 {
		out.width = quotedWidth(body)
	} else {
		out.width = utf8.RuneCountInString(n.Value)
	}
	out.width = max(1, min(out.width, utf8.RuneCountInString(strings.TrimRight(body, " \t"))))
	return out
}

func quotedWidth(body string) int {
	quote := rune(body[0])
	width, escaped := 0, false
	for i, r := range body {
		width++
		switch {
		case escaped:
			escaped = false
		case quote == '"' && r == '\\':
			escaped = true
		case i > 0 && r == quote:
			if quote == '\'' && strings.HasPrefix(body[i+1:], "'") {
				escaped = true
				continue
			}
			return width
		}
	}
	return width
}

// inside is the place of the characters from … from+width of a scalar's value,
// which may be quoted, folded or a block: value and source are walked side by side.
func (s *source) inside(n *yaml.Node, from, width int) span {
	cur, ok := s.scalarStart(n)
	if !ok {
		return s.at(n)
	}
	i := 0
	for _, v := range n.Value {
		if cur.seek(v); cur.lost {
			return s.at(n)
		}
		if i == from {
			break
		}
		cur.consume(v)
		i++
	}
	if i < from {
		return s.at(n)
	}
	line, col := s.place(cur.at)
	left := utf8.RuneCountInString(strings.TrimRight(s.line(line), " \t")) - col + 1
	return span{line, col, max(1, min(width, left))}
}

// cursor walks the source text of one scalar.
type cursor struct {
	text  string
	at    int
	quote byte // '"', '\'' or 0
	lost  bool // the text differs from the value
}

func (s *source) scalarStart(n *yaml.Node) (*cursor, bool) {
	at, ok := s.offset(n.Line, n.Column)
	if !ok || n.Kind != yaml.ScalarNode {
		return nil, false
	}
	c := &cursor{text: s.text, at: at}
	for c.peek() == '&' || c.peek() == '!' { // anchor and tag stand before the value
		c.at += strings.IndexAny(c.text[c.at:]+" ", " \t\r\n")
		c.skipBlank()
	}
	switch {
	case c.peek() == '"' || c.peek() == '\'':
		c.quote = c.peek()
		c.at++
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		end := strings.IndexByte(c.text[c.at:], '\n')
		if end < 0 {
			return nil, false
		}
		c.at += end + 1
	}
	return c, true
}

func (c *cursor) peek() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

func (c *cursor) skipBlank() {
	for c.at < len(c.text) && strings.IndexByte(" \t\r\n", c.text[c.at]) >= 0 {
		c.at++
	}
}

// seek goes to where the character v of the value begins.
func (c *cursor) seek(v rune) {
	if v == ' ' || v == '\t' || v == '\n' {
		return
	}
	for {
		c.skipBlank()
		if c.quote == '"' && c.peek() == '\\' {
			if next := strings.TrimPrefix(c.text[c.at+1:], "\r"); strings.HasPrefix(next, "\n") {
				c.at++ // an escaped line end is nothing
				continue
			}
			return
		}
		break
	}
	r, _ := utf8.DecodeRuneInString(c.text[c.at:])
	c.lost = r != v
}

// consume goes past the character v.
func (c *cursor) consume(v rune) {
	if c.quote == '"' && c.peek() == '\\' && c.at+1 < len(c.text) {
		width := map[byte]int{'x': 4, 'u': 6, 'U': 10}[c.text[c.at+1]]
		c.at = min(c.at+max(2, width), len(c.text))
		return
	}
	if c.quote == '\'' && strings.HasPrefix(c.text[c.at:], "''") {
		c.at += 2
		return
	}
	r, n := utf8.DecodeRuneInString(c.text[c.at:])
	if r == v || unicode.IsSpace(r) && unicode.IsSpace(v) {
		c.at += n
	}
}

const maxSnippet = 140 // characters of a line that are shown

// snippet is the line with a caret below the span. Long lines are cut around
// it; characters that would steer a terminal are replaced.
func (s *source) snippet(at span) string {
	if at.line == 0 {
		return ""
	}
	line := []rune(s.line(at.line))
	col := min(max(at.col-1, 0), len(line))
	from := 0
	if len(line) > maxSnippet && col > maxSnippet/2 {
		from = min(col-maxSnippet/2, len(line)-maxSnippet)
	}
	to := min(from+maxSnippet, len(line))
	shown := strings.Map(printable, string(line[from:to]))
	pad := col - from
	if from > 0 {
		shown = "…" + shown
		pad++
	}
	width := max(1, min(at.width, to-col))
	if to < len(line) {
		shown += "…"
	}
	number := fmt.Sprint(at.line)
	return fmt.Sprintf("  %s | %s\n  %s | %s%s", number, strings.TrimRight(shown, " "),
		strings.Repeat(" ", len(number)), strings.Repeat(" ", pad), strings.Repeat("^", width))
}

func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case !unicode.IsPrint(r):
		return '·'
	}
	return r
}

// quote is text for a message: quoted, and cut when long.
func quote(text string) string {
	const most = 60
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
