package definitions

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Bounds of DiffFiles.
const (
	maxFiles     = 200       // that are listed
	maxCompared  = 256 << 10 // bytes of one file whose lines are compared
	maxFileText  = 16 << 10  // bytes that are shown of one file
	maxFilesText = 256 << 10 // of all files
)

// FileChange is one file that two trees hold differently.
type FileChange struct {
	Path   string
	Action Action
	// Added and Removed count lines; they are 0 where Text is empty.
	Added, Removed int
	// Text is a unified diff without its head. Control characters are replaced.
	Text string
	// Note is why there is no Text, or less than all; "" otherwise.
	Note string
}

// DiffFiles compares files as text, by path. At most 200 files are listed; leftOut counts the
// others. The text is bounded: 16 KiB of one file, 256 KiB together.
func DiffFiles(before []Document, after Files) (list []FileChange, leftOut int) {
	was, is := map[string][]byte{}, map[string][]byte{}
	var paths []string
	for _, d := range before {
		was[d.Path] = d.Data
		paths = append(paths, d.Path)
	}
	for _, d := range after.Documents {
		is[d.Path] = d.Data
		paths = append(paths, d.Path)
	}
	paths = append(paths, after.Unread...)
	slices.Sort(paths)
	room := maxFilesText
	for _, p := range slices.Compact(paths) {
		one := FileChange{Path: quotePath(p)}
		old, had := was[p]
		now, has := is[p]
		unread := slices.Contains(after.Unread, p)
		switch {
		case had && has && bytes.Equal(old, now):
			continue
		case !had:
			one.Action = Added
		case !has && !unread:
			one.Action = Removed
		default:
			one.Action = Changed
		}
		if len(list) == maxFiles {
			leftOut++
			continue
		}
		if unread {
			one.Note = "it cannot be read: no regular file, or too large"
		} else {
			one.compare(old, now, room)
		}
		room -= len(one.Text)
		list = append(list, one)
	}
	return list, leftOut
}

// compare fills the text, of at most so many bytes.
func (c *FileChange) compare(old, now []byte, room int) {
	switch {
	case len(old)+len(now) > maxCompared:
		c.Note = fmt.Sprintf("too large to compare: %d bytes, now %d", len(old), len(now))
		return
	case !isText(old) || !isText(now):
		c.Note = fmt.Sprintf("no text: %d bytes, now %d", len(old), len(now))
		return
	case room <= 0:
		c.Note = "left out: the diff is too long"
		return
	}
	_, text, _ := strings.Cut(udiff.Unified("a", "b", string(old), string(now)), "\n+++ b\n")
	for line := range strings.Lines(text) {
		switch line[0] {
		case '+':
			c.Added++
		case '-':
			c.Removed++
		}
	}
	text = clean(text) // before it is cut: it may grow
	if most := min(room, maxFileText); len(text) > most {
		text = text[:most]
		if end := strings.LastIndexByte(text, '\n'); end > 0 {
			text = text[:end+1]
		}
		c.Note = "cut: the diff of this file is longer"
	}
	c.Text = strings.ToValidUTF8(text, "?")
}

// diffSent adds the files beside playbooks that differ. Those of a set without a commit are not
// known.
func diffSent(out []Change, before, after []entry) []Change {
	if before == nil || after == nil {
		return out
	}
	index := func(files []entry) map[string]entry {
		m := make(map[string]entry, len(files))
		for _, e := range files {
			m[e.path] = e
		}
		return m
	}
	was, is := index(before), index(after)
	for _, p := range unionKeys(was, is) {
		old, had := was[p]
		now, has := is[p]
		c := Change{Kind: KindFile, Name: p, Action: Changed, Details: []string{}}
		switch {
		case old == now:
			continue
		case !had:
			c.Action = Added
		case !has:
			c.Action = Removed
		case old.blob != now.blob:
			c.report("its content")
		default:
			c.report("its mode")
		}
		out = append(out, c)
	}
	return out
}

func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }
