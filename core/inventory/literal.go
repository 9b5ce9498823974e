package inventory

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// splitWords splits as a shell does: blanks, quotes, backslashes; with comments,
// # ends the line, also within a word, as Ansible's reader has it.
func splitWords(s string, comments bool) ([]string, error) {
	var out []string
	var b strings.Builder
	open := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			if open {
				out = append(out, b.String())
				b.Reset()
				open = false
			}
			continue
		case comments && c == '#':
			if open {
				out = append(out, b.String())
			}
			return out, nil
		case c == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			b.WriteString(s[i+1 : i+1+end])
			i += end + 1
		case c == '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\') {
					i++
				}
				b.WriteByte(s[i])
			}
			if i >= len(s) {
				return nil, errors.New("a quote is not closed")
			}
		case c == '\\':
			if i+1 >= len(s) {
				return nil, errors.New("a backslash at the end")
			}
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
		open = true
	}
	if open {
		out = append(out, b.String())
	}
	return out, nil
}

// literalOrText reads a value as Ansible does in INI files: a Python literal
// where it is one (numbers, True, None, quoted text, lists, dicts), else text.
func literalOrText(s string) any {
	p := &literalParser{s: s}
	v, ok := p.parse()
	if !ok {
		return s
	}
	return v
}

// literalParser reads Python literals.
type literalParser struct {
	s     string
	i     int
	depth int
}

func (p *literalParser) parse() (any, bool) {
	if p.s == "" {
		return nil, false
	}
	v, ok := p.value()
	if !ok {
		return nil, false
	}
	p.blanks()
	if p.i < len(p.s) && p.s[p.i] == ',' { // 1, 2 is a tuple
		return p.bare(v)
	}
	return v, p.atEnd()
}

func (p *literalParser) bare(first any) (any, bool) {
	list := []any{first}
	for p.take(',') {
		if p.atEnd() {
			break
		}
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, p.atEnd()
}

func (p *literalParser) blanks() {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\t') {
		p.i++
	}
}

// atEnd allows a comment, as Python does.
func (p *literalParser) atEnd() bool {
	p.blanks()
	return p.i >= len(p.s) || p.s[p.i] == '#'
}

func (p *literalParser) take(c byte) bool {
	p.blanks()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *literalParser) value() (any, bool) {
	if p.depth++; p.depth > maxDepth {
		return nil, false
	}
	defer func() { p.depth-- }()
	p.blanks()
	if p.i >= len(p.s) {
		return nil, false
	}
	switch c := p.s[p.i]; {
	case c == '[':
		p.i++
		list, _, ok := p.items(']')
		return list, ok
	case c == '(':
		p.i++
		list, comma, ok := p.items(')')
		if ok && len(list) == 1 && !comma { // only parentheses
			return list[0], true
		}
		return list, ok
	case c == '{':
		p.i++
		return p.dict()
	case c == '\'' || c == '"':
		return p.strings()
	case c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9':
		return p.number()
	}
	for word, v := range map[string]any{"True": true, "False": false, "None": nil} {
		if rest, ok := strings.CutPrefix(p.s[p.i:], word); ok && (rest == "" || !isWordByte(rest[0])) {
			p.i += len(word)
			return v, true
		}
	}
	return nil, false
}

func isWordByte(c byte) bool {
	return c == '_' || c == '.' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func (p *literalParser) items(end byte) (list []any, comma, ok bool) {
	list = []any{}
	for !p.take(end) {
		v, ok := p.value()
		if !ok {
			return nil, false, false
		}
		list = append(list, v)
		comma = p.take(',')
		if !comma {
			return list, false, p.take(end)
		}
	}
	return list, comma, true
}

// dict reads a dict with text keys; a set is read as text.
func (p *literalParser) dict() (any, bool) {
	m := map[string]any{}
	for !p.take('}') {
		k, ok := p.value()
		key, isText := k.(string)
		if !ok || !isText || !p.take(':') {
			return nil, false
		}
		if m[key], ok = p.value(); !ok {
			return nil, false
		}
		if !p.take(',') {
			return m, p.take('}')
		}
	}
	return m, true
}

// strings reads one or more quoted texts that stand beside each other.
func (p *literalParser) strings() (any, bool) {
	var b strings.Builder
	for p.blanks(); p.i < len(p.s) && (p.s[p.i] == '\'' || p.s[p.i] == '"'); p.blanks() {
		quote := p.s[p.i]
		for p.i++; ; p.i++ {
			if p.i >= len(p.s) {
				return nil, false
			}
			c := p.s[p.i]
			if c == quote {
				p.i++
				break
			}
			if c == '\\' {
				if !p.escape(&b) {
					return nil, false
				}
				continue
			}
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func (p *literalParser) escape(b *strings.Builder) bool {
	p.i++
	if p.i >= len(p.s) {
		return false
	}
	digits := 0
	switch c := p.s[p.i]; c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case '0':
		b.WriteByte(0)
	case '\\', '\'', '"':
		b.WriteByte(c)
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default: // kept as it is
		b.WriteByte('\\')
		b.WriteByte(c)
	}
	if digits == 0 {
		return true
	}
	if p.i+digits >= len(p.s) {
		return false
	}
	n, err := strconv.ParseUint(p.s[p.i+1:p.i+1+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(n)) {
		return false
	}
	b.WriteRune(rune(n))
	p.i += digits
	return true
}

func (p *literalParser) number() (any, bool) {
	neg := false
	for p.i < len(p.s) && (p.s[p.i] == '-' || p.s[p.i] == '+' || p.s[p.i] == ' ') {
		neg = neg != (p.s[p.i] == '-')
		p.i++
	}
	start := p.i
	for p.i < len(p.s) && (isWordByte(p.s[p.i]) || (p.s[p.i] == '-' || p.s[p.i] == '+') && p.i > start && p.s[p.i-1]|0x20 == 'e' && !isHex(p.s[start:])) {
		p.i++
	}
	text := p.s[start:p.i]
	if text == "" || strings.HasPrefix(text, "_") || strings.HasSuffix(text, "_") || strings.Contains(text, "__") {
		return nil, false
	}
	if v, ok := pyInt(text, neg); ok {
		return v, true
	}
	if strings.Trim(text, "0123456789._eE+-") != "" {
		return nil, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || !strings.ContainsAny(text, ".eE") {
		return nil, false
	}
	if neg {
		f = -f
	}
	return f, true
}

func isHex(s string) bool { return len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' }

// pyInt reads an integer; leading zeros are no number in Python. One beyond 64
// bits becomes a float.
func pyInt(text string, neg bool) (any, bool) {
	digits := strings.ReplaceAll(text, "_", "")
	if len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0") != "" && '0' <= digits[1] && digits[1] <= '9' {
		return nil, false
	}
	base := 10
	if len(digits) > 1 && digits[0] == '0' && digits[1] > '9' {
		base = 0
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		if f, ferr := strconv.ParseFloat(digits, 64); base == 10 && errors.Is(err, strconv.ErrRange) && ferr == nil {
			if neg {
				f = -f
			}
			return f, true
		}
		return nil, false
	}
	if neg {
		n = -n
	}
	return int(n), true
}
