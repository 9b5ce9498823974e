package help

import (
	"regexp"
	"strings"
	"sync"
)

// typed are the things that a reader of a hint can type: a command, a flag, a key of a file, a
// variable, a URL, a page of the docs, or the right word in quotes.
var typed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`\bturnus [a-z]`,
		`(?:^|[\s:;,(])(?:apt-get|chmod|date|dmesg|git|go|ip|journalctl|kill|ls|redis-cli|rm|ssh|ssh-keygen|systemctl|timedatectl|ulimit|usermod) [.+~/a-zA-Z0-9-]`,
		`(?:^|[\s(])--?[a-zA-Z]`,
		`\b[a-z_]+: ?(?:[\[{"'$*A-Z0-9|]|true\b|false\b)`,
		`\b(?:` + keys + `):`,
		`\b[A-Z]+_[A-Z_]+\b|\bsshd_config\b`,
		`\b[a-z]+=[a-zA-Z]`,
		`\bdocs/[a-z-]+\.md\b`,
		`\brediss?://`,
		"[\"'`][^\"'`]+[\"'`]",
		`\$\{\{`,
		`\bdid you mean \S`,
	}, "|"))
})

// keys are those of files that hints name without a value.
const keys = "address|addresses|at|connect_timeout|content|credential|credentials|default|every|files|handlers|host_key|hosts|max_age|needs|params|password|pool|port|proxy_jump|recipients|secrets|source|targets|token|user|vars|vault|when|window|with"

// NamesNext reports whether a hint names a thing to type.
func NamesNext(hint string) bool { return typed().MatchString(hint) }

// HasNext reports whether a message names a thing to type next: after "hint: ", or as a usage. A
// hint may have several lines.
func HasNext(text string) bool {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if start := next().FindStringIndex(paragraph); start != nil {
			if what := paragraph[start[0]:]; strings.Contains(what, "usage: ") || NamesNext(what[strings.Index(what, ":")+1:]) {
				return true
			}
		}
	}
	return false
}

var next = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*(?:hint|usage): `) })
