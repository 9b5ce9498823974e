package ansible

import (
	"regexp"
	"strings"
	"sync"
)

// lineExpression translates an expression of Python for lines with their ends into one of RE2 for
// lines without. Where the last \s of it may be the end of a line, $ stands beside it.
func lineExpression(text string) (string, *doubt) {
	no := func(what string) (string, *doubt) {
		return "", doubtf("the expression %s has %s, which has no equivalent", clip(text), what).hint("an expression of RE2, which sees a line without its end")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > 126 || r < 32 && r != '\t' }) {
		return no("characters outside of ASCII")
	}
	depth, choice := 0, false
	var ends [][2]int // of each \s that must match, outside of groups
	for i := 0; i < len(text); {
		length, end := 1, false
		switch text[i] {
		case '\\':
			length = min(2, len(text)-i)
			switch next := text[i+length-1]; {
			case strings.IndexByte("AbBdDsSwWtfvx", next) >= 0:
				end = strings.IndexByte("sDW", next) >= 0
			case next >= '0' && next <= '9' || next >= 'a' && next <= 'z' || next >= 'A' && next <= 'Z':
				return no(`\` + string(next))
			}
		case '[':
			length = class(text[i:])
			set := text[i : i+length]
			if strings.Contains(set[1:], "[") || strings.Contains(set, `\n`) || strings.Contains(set, `\r`) {
				return no("a class of classes")
			}
			end = strings.HasPrefix(set, "[^") != (strings.Contains(set, `\s`) || strings.Contains(set, `\W`) || strings.Contains(set, `\D`))
		case '(':
			depth++
			if rest := text[i:]; strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:") && !strings.HasPrefix(rest, "(?P<") && (i > 0 || !strings.HasPrefix(rest, "(?i)")) {
				return no("(" + rest[1:min(3, len(rest))])
			}
		case ')':
			depth--
		case '|':
			choice = choice || depth == 0
		case '{':
			if m := repeat().FindString(text[i:]); m == "" {
				return no("a brace that does not repeat")
			}
		}
		next := byte(0)
		if i+length < len(text) {
			next = text[i+length]
		}
		switch {
		case !end || next == '*' || next == '?':
		case depth > 0 || next == '{' || text[i:i+length] != `\s`:
			return no(text[i:i+length] + " that may match the end of the line")
		default:
			if next == '+' {
				length++
			}
			ends = append(ends, [2]int{i, i + length})
		}
		i += length
	}
	if len(ends) > 0 {
		if choice {
			return no(`| beside \s`)
		}
		last := ends[len(ends)-1]
		text = text[:last[0]] + "(?:" + text[last[0]:last[1]] + "|$)" + text[last[1]:]
	}
	if _, err := regexp.Compile(text); err != nil {
		return no("a part that RE2 does not have")
	}
	return text, nil
}

var repeat = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\d+(,\d*)?\}`) })

// class is the length of a class of characters, as [^a-z].
func class(text string) int {
	at := 1
	for _, prefix := range []string{"^", "]"} {
		if strings.HasPrefix(text[at:], prefix) {
			at++
		}
	}
	for ; at < len(text) && text[at] != ']'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return min(at+1, len(text))
}
