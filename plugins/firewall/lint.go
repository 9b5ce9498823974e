package firewall

import (
	"errors"
	"fmt"
	"strings"
)

// lint refuses a ruleset that does anything but declare the table: what a scratch namespace cannot
// show, because it is empty there (flush ruleset, or a command on somebody else's table).
func lint(text, table string) error {
	if len(text) > maxRuleset {
		return fmt.Errorf("%d bytes, expected at most %d", len(text), maxRuleset)
	}
	if strings.ContainsRune(text, 0) {
		return errors.New("it holds a NUL byte")
	}
	found := false
	depth := 0
	for _, s := range statements(text) {
		words := strings.Fields(s.text)
		refuse := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", s.line, fmt.Sprintf(format, args...))
		}
		switch {
		case s.closes:
			if depth--; depth < 0 {
				return refuse("a } without its {")
			}
			continue
		case len(words) == 0 && !s.opens:
			continue
		case len(words) > 0 && words[0] == "include":
			return refuse("include reads a file of the host: put its content here")
		case depth == 0 && len(words) > 0 && words[0] == "table":
			got := words[1:]
			if len(got) == 1 {
				got = []string{"ip", got[0]}
			}
			if name := strings.Join(got, " "); name != table {
				return refuse("table %s: only the table %q is pushed; name another one in table", name, table)
			}
			found = true
		case depth == 0 && len(words) > 0 && (words[0] == "define" || words[0] == "redefine" || words[0] == "undefine"):
		case depth == 0 && len(words) > 1 && words[0] == "flush" && words[1] == "ruleset":
			return refuse("flush ruleset wipes every table of the host, including those of Docker and fail2ban; the table %q is replaced without it", table)
		case depth == 0:
			return refuse("expected define lines and blocks of the table %q; found %.40q", table, s.text)
		}
		if s.opens {
			depth++
		}
	}
	if depth != 0 {
		return errors.New("a { without its }")
	}
	if !found {
		return fmt.Errorf("it does not declare the table %q", table)
	}
	return nil
}

type statement struct {
	text          string
	line          int
	opens, closes bool // a block after it; the end of one
}

// statements cuts nft's text at newlines, semicolons and the braces of blocks. The braces of a set
// stay in its statement.
func statements(text string) []statement {
	var list []statement
	var now strings.Builder
	line, inline := 1, 0 // depth of braces within the statement
	end := func(opens, closes bool) {
		list = append(list, statement{strings.TrimSpace(now.String()), line, opens, closes})
		now.Reset()
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			close := strings.IndexByte(text[i+1:], '"')
			if close < 0 {
				close = len(text) - i - 2
			}
			quoted := text[i : i+close+2]
			now.WriteString(quoted)
			line += strings.Count(quoted, "\n")
			i += len(quoted) - 1
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			line++
			i++
			now.WriteByte(' ')
		case c == '{' && (inline > 0 || !block(now.String())):
			inline++
			now.WriteByte(c)
		case c == '{':
			end(true, false)
		case c == '}' && inline > 0:
			inline--
			now.WriteByte(c)
		case c == '}':
			end(false, false)
			end(false, true)
		case (c == '\n' || c == ';') && inline == 0:
			end(false, false)
		case c == '\n':
			now.WriteByte(' ')
		default:
			now.WriteByte(c)
		}
		if c == '\n' {
			line++
		}
	}
	end(false, false)
	return list
}

// block reports whether a brace after these words begins a block of declarations; anything else is
// a set, a map or a verdict map.
func block(before string) bool {
	words := strings.Fields(before)
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "table", "chain", "set", "map", "flowtable":
		return true
	case "counter", "quota", "limit", "secmark", "synproxy":
		return len(words) == 2
	case "ct":
		return len(words) == 3 && (words[1] == "helper" || words[1] == "timeout" || words[1] == "expectation")
	}
	return false
}
