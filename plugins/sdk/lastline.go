package sdk

import (
	"bytes"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// keptLine is how much of a line a LastLine remembers: its beginning. A line that begins somewhere
// within could begin within a secret, and nobody would know the rest of that again.
const keptLine = 512

// LastLine is a writer that keeps the last line it gets that is not blank: where most commands
// print why they failed. For one goroutine at a time.
type LastLine struct {
	line []byte // that is being written
	last []byte // the one before it that is not blank
	full bool   // an earlier line shows a full disk
}

// Write never fails.
func (l *LastLine) Write(b []byte) (int, error) {
	for rest := b; ; {
		end := bytes.IndexAny(rest, "\r\n")
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		if len(l.line) == 0 { // or lastLine would find room for all that is kept, and not cut it at white space
			part = bytes.TrimLeft(part, blank)
		}
		l.line = append(l.line, part[:min(len(part), keptLine-len(l.line))]...)
		if end < 0 {
			return len(b), nil
		}
		if len(bytes.TrimSpace(l.line)) > 0 {
			l.full = l.fullDisk()
			l.line, l.last = l.last, l.line
		}
		l.line, rest = l.line[:0], rest[end+1:]
	}
}

// fullDisk reports whether a line shows that a disk is full: it need not be the last one.
func (l *LastLine) fullDisk() bool { return l.full || shell.FullDisk(string(l.line)) }

// String is the line, in bounds.
func (l *LastLine) String() string {
	if len(bytes.TrimSpace(l.line)) > 0 {
		return lastLine(string(l.line))
	}
	return lastLine(string(l.last))
}
