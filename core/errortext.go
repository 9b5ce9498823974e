package core

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorText returns the text of err for people. It leaves out the texts of the sentinels that only
// choose an exit code or a status: the message already reports what is wrong. more are such
// sentinels of other packages. The text is never empty.
func ErrorText(err error, more ...error) string {
	text := err.Error()
	for _, kind := range append(more, ErrNotFound, ErrConflict, ErrInvalid, ErrQuota, ErrUnavailable) {
		if errors.Is(err, kind) {
			text = withoutKind(text, kind.Error())
		}
	}
	return text
}

// withoutKind removes the word of a sentinel where a colon or a line's end sets it off, and nowhere
// else.
func withoutKind(text, kind string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimSuffix(strings.TrimPrefix(line, kind+": "), ": "+kind)
		line = strings.ReplaceAll(line, ": "+kind+": ", ": ")
		if before, why, ok := strings.Cut(line, ": "+kind+" ("); ok && strings.HasSuffix(why, ")") {
			line = before + ": " + strings.TrimSuffix(why, ")")
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// Few lists the first most names, and how many follow, for a text of many.
func Few(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
