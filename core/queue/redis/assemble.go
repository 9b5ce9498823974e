package redis

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A script is made of the text of its own file behind those of its libraries. Each call of a script
// makes all of its functions again, and that costs more than most calls do. So a script gets only
// the functions that it uses. Names that stand for something fixed are written out, because local
// variables make functions dearer.

// part is a function of a Lua file, or a stretch between functions, which has no name.
type part struct {
	name, text string
	uses       []string // every word in it, except the name in its own head
}

// assemble makes the text of a script of its own file and its libraries: head stays outside of the
// function that holds the rest. names are those of the libraries.
func assemble(head, text string, names map[string]string, libraries ...[]part) string {
	names = maps.Clone(names)
	own := split(text, names)
	writeOut(own, names)
	return head + "return (function()\n" + needed(append(slices.Concat(libraries...), own...)) + "\nend)()"
}

var (
	comment  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)--.*$`) })
	constant = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^local ([A-Z_]{2,}(?:, [A-Z_]{2,})*) = ([\de]+(?:, [\de]+)*) *$\n`)
	})
	function = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:local )?function (\w+)\(`) })
	word     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'[^'\n]*'|\b[A-Za-z_]\w*`) }) // also strings, so that nothing is replaced in them
)

// takeConstants moves the constants, which are numbers with names in capitals, from text to names.
func takeConstants(text string, names map[string]string) string {
	for _, m := range constant().FindAllStringSubmatch(text, -1) {
		values := strings.Split(m[2], ", ")
		for i, name := range strings.Split(m[1], ", ") {
			names[name] = values[i]
		}
	}
	return constant().ReplaceAllString(text, "")
}

// split cuts a file into parts, and takes its constants out. A function begins and ends at the left
// margin.
func split(text string, names map[string]string) (parts []part) {
	inside := false
	for line := range strings.Lines(takeConstants(comment().ReplaceAllString(text, ""), names)) {
		m := function().FindStringSubmatch(line)
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
	return parts
}

// writeOut notes the words of parts, and puts what they stand for in the place of names.
func writeOut(parts []part, names map[string]string) {
	for i := range parts {
		p := &parts[i]
		body := p.text
		if p.name != "" {
			_, body, _ = strings.Cut(body, "(") // behind its own name
		}
		p.uses = word().FindAllString(body, -1)
		p.text = word().ReplaceAllStringFunc(p.text, func(w string) string { return cmp.Or(names[w], w) })
	}
}

// needed joins the parts, without the functions that nothing calls.
func needed(parts []part) string {
	used, kept := map[string]bool{}, make([]bool, len(parts))
	for grew := true; grew; {
		grew = false
		for i, p := range parts {
			if kept[i] || p.name != "" && !used[p.name] {
				continue
			}
			kept[i], grew = true, true
			for _, w := range p.uses {
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
