package redis

import (
	"cmp"
	"maps"
	"regexp"
	"strings"
)

// A script is made of the text of its own file behind those of its libraries. Each call of a script makes all of its functions anew, and
// that costs more than most calls do: so a script gets only the functions that it uses, and names that stand for something fixed
// are written out, as local variables make functions dearer.

// assemble makes the text of a script: head stays outside of the function that holds the rest.
func assemble(head, text string, names map[string]string) string {
	names = maps.Clone(names)
	text = takeConstants(comment.ReplaceAllString(text, ""), names)
	return head + "return (function()\n" + writeOut(needed(text), names) + "\nend)()"
}

var (
	comment  = regexp.MustCompile(`(?m)--.*$`)
	constant = regexp.MustCompile(`(?m)^local ([A-Z_]{2,}(?:, [A-Z_]{2,})*) = ([\de]+(?:, [\de]+)*) *$\n`)
	function = regexp.MustCompile(`^(?:local )?function (\w+)\(`)
	word     = regexp.MustCompile(`'[^'\n]*'|\b[A-Za-z_]\w*`) // strings too, so that nothing is replaced in them
)

// takeConstants moves the constants, which are numbers with names in capitals, from text to names.
func takeConstants(text string, names map[string]string) string {
	for _, m := range constant.FindAllStringSubmatch(text, -1) {
		values := strings.Split(m[2], ", ")
		for i, name := range strings.Split(m[1], ", ") {
			names[name] = values[i]
		}
	}
	return constant.ReplaceAllString(text, "")
}

func writeOut(text string, names map[string]string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(names[w], w) })
}

// needed leaves out the functions that nothing calls. A function begins and ends at the left margin.
func needed(text string) string {
	type part struct{ name, text string }
	var parts []part
	inside := false
	for line := range strings.Lines(text) {
		m := function.FindStringSubmatch(line)
		if m != nil {
			parts = append(parts, part{name: m[1]})
			inside = true
		} else if !inside {
			parts = append(parts, part{})
		}
		parts[len(parts)-1].text += line
		if line = strings.TrimRight(line, "\n "); line == "end" || m != nil && strings.HasSuffix(line, " end") {
			inside = false
		}
	}
	used := map[string]bool{}
	kept := make([]bool, len(parts))
	for grew := true; grew; {
		grew = false
		for i, p := range parts {
			if kept[i] || p.name != "" && !used[p.name] {
				continue
			}
			kept[i], grew = true, true
			body := p.text
			if p.name != "" {
				_, body, _ = strings.Cut(body, "(") // its own name
			}
			for _, w := range word.FindAllString(body, -1) {
				used[w] = true
			}
		}
	}
	var out strings.Builder
	for i, p := range parts {
		if kept[i] {
			out.WriteString(p.text)
		}
	}
	return out.String()
}
