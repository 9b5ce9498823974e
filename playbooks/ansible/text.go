package ansible

import (
	"slices"
	"strconv"
	"strings"
)

// part is a piece of a text: literal, or an expression.
type part struct {
	text string
	expr *term
}

// parts splits a text at its {{ }}.
func (s *scope) parts(text string) ([]part, *doubt) {
	var out []part
	for rest := text; ; {
		open := strings.Index(rest, "{{")
		head := rest
		if open >= 0 {
			head = rest[:open]
		}
		if hasJinja(head) {
			return nil, doubtf("the text holds Jinja statements or comments").hint("a Go template: uses: file with template: FILE (docs/job-types.md)")
		}
		if head != "" {
			out = append(out, part{text: head})
		}
		if open < 0 {
			return out, nil
		}
		body, after, ok := cutExpression(rest[open+2:])
		if !ok || strings.HasPrefix(body, "-") || strings.HasSuffix(body, "-") || strings.HasPrefix(body, "+") {
			return nil, doubtf("%s is not understood", clip(rest[open:]))
		}
		more, d := s.expression(body)
		if d != nil {
			return nil, d
		}
		out = append(out, more...)
		rest = after
	}
}

// expression translates what is between {{ and }}. A var that is a text with {{ }} itself is put in
// as its parts.
func (s *scope) expression(body string) ([]part, *doubt) {
	n, d := parse(body)
	if d != nil {
		return nil, d
	}
	t, d := s.value(n)
	if d != nil {
		return nil, d
	}
	if t.parts != nil {
		return t.parts, nil
	}
	if lit, ok := n.val.(string); n.op == "lit" && ok && !hasJinja(lit) {
		return []part{{text: lit}}, nil
	}
	return []part{{expr: &t}}, nil
}

// cutExpression finds the end of an expression, past quotes.
func cutExpression(text string) (body, after string, ok bool) {
	quote := byte(0)
	for i := 0; i+1 < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '}' && text[i+1] == '}':
			return text[:i], text[i+2:], true
		}
	}
	return "", "", false
}

// joined is a text as one expression.
func joined(parts []part) (term, *doubt) {
	if len(parts) == 1 && parts[0].expr != nil {
		return *parts[0].expr, nil
	}
	var words []string
	vals, known := []any{""}, true
	for _, p := range parts {
		if p.expr == nil {
			words = append(words, quoted(p.text))
			for i := range vals {
				vals[i] = vals[i].(string) + p.text
			}
			continue
		}
		word, d := p.expr.asText()
		if d != nil {
			return term{}, d
		}
		words = append(words, word)
		known = known && p.expr.known && len(p.expr.vals) == 1
		if known {
			vals[0] = vals[0].(string) + shown(p.expr.vals[0])
		}
	}
	if !known {
		vals = nil
	}
	return term{text: strings.Join(words, " + "), prec: precLoose, kinds: kindText, vals: vals, known: known, parts: parts}, nil
}

// absolute reports whether a text may be an absolute path: what is known of its begin is a slash,
// and Ansible expands no variable in it.
func (s *scope) absolute(text string) bool {
	parts, d := s.parts(text)
	if d != nil || len(parts) == 0 {
		return false
	}
	for _, p := range parts {
		if environ().MatchString(p.text) || strings.HasSuffix(p.text, "$") || p.expr != nil && slices.ContainsFunc(p.expr.vals, func(v any) bool { return environ().MatchString(shown(v)) }) {
			return false
		}
	}
	if parts[0].expr == nil {
		return strings.HasPrefix(parts[0].text, "/")
	}
	for _, v := range parts[0].expr.vals {
		if !strings.HasPrefix(shown(v), "/") {
			return false
		}
	}
	return true
}

func shown(v any) string {
	if i, ok := v.(int); ok {
		return strconv.Itoa(i)
	}
	text, _ := v.(string)
	return text
}

// asText is the term as an expression that is a text.
func (t term) asText() (string, *doubt) {
	if d := t.printable(); d != nil {
		return "", d
	}
	if t.kinds == kindText {
		return t.in(precTight), nil
	}
	if t.optional { // string(nil) would be a text
		return "", doubtf("%s is not defined everywhere", t.text).hint("default(%s, …)", t.text)
	}
	return "string(" + t.text + ")", nil
}

// printable refuses values that both languages do not write alike.
func (t term) printable() *doubt {
	switch {
	case t.kinds == 0:
		return doubtf("the type of %s is not known", t.text).hint("the inventory, so that the import can look there: turnus import ansible … --inventory FILE")
	case t.kinds&^(kindText|kindInt) != 0:
		return doubtf("%s is not a text or a whole number, and would be written differently", t.text)
	}
	return nil
}

// text translates a text for a param that takes text.
func (s *scope) text(text string) (string, *doubt) {
	parts, d := s.parts(text)
	if d != nil {
		return "", d
	}
	return rendered(parts)
}

func rendered(parts []part) (string, *doubt) {
	if len(parts) == 1 && parts[0].expr != nil {
		t := *parts[0].expr
		word, d := t.asText()
		if t.kinds == kindText {
			word = t.text
		}
		return "${{ " + word + " }}", d
	}
	var b strings.Builder
	for _, p := range parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		if strings.HasSuffix(b.String(), "$") {
			return "", doubtf("$ before {{ has no equivalent")
		}
		if d := p.expr.printable(); d != nil {
			return "", d
		}
		b.WriteString("${{ " + p.expr.text + " }}")
	}
	return b.String(), nil
}

// shellReads reports whether a shell may read a line as more than words and quotes.
func shellReads(line string) bool {
	if !strings.ContainsAny(line, "\"\\") {
		line = literals().ReplaceAllString(line, "")
	}
	return strings.ContainsAny(strings.TrimSpace(line), "$`<>|&;()*?[]{}~#\r\n")
}

// splitWords splits as Python's shlex does: quotes, and \ outside of single quotes.
func splitWords(text string) (words []string, ok bool) {
	var word strings.Builder
	begun, quote := false, rune(0)
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && c == '\\' && i+1 < len(runes) && (runes[i+1] == '"' || runes[i+1] == '\\'):
			i++
			word.WriteRune(runes[i])
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == '\\':
			if i++; i >= len(runes) {
				return nil, false
			}
			word.WriteRune(runes[i])
			begun = true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, quote == 0
}
