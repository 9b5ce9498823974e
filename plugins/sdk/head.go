package sdk

import (
	"cmp"
	"strings"
	"unicode/utf8"
)

// Head is a writer that keeps the first bytes it gets. The zero value keeps 1 MiB. For one
// goroutine at a time.
type Head struct {
	Limit int // 0: 1 MiB
	kept  []byte
	lost  bool
}

// Write never fails.
func (h *Head) Write(b []byte) (int, error) {
	room := max(cmp.Or(h.Limit, maxKept)-len(h.kept), 0)
	h.lost = h.lost || len(b) > room
	h.kept = append(h.kept, b[:min(len(b), room)]...)
	return len(b), nil
}

// String returns the kept text, as valid UTF-8. Where something was dropped, it ends at white
// space: a worker would show a part of a secret, because it knows only the whole.
func (h *Head) String() string {
	kept := string(h.kept)
	if h.lost {
		kept = withoutLast(kept)
	}
	return strings.ToValidUTF8(kept, "\uFFFD")
}

// Text is String without the newlines at its end, as $(…) has it.
func (h *Head) Text() string { return strings.TrimRight(h.String(), "\r\n") }

// Bytes returns the kept bytes.
func (h *Head) Bytes() []byte { return h.kept }

// Truncated reports whether something was dropped.
func (h *Head) Truncated() bool { return h.lost }

// OutputText is the beginning of text that takes at most limit bytes as JSON, as valid UTF-8:
// quotes, newlines and control characters take two to six bytes there. It is cut at white space
// only: a worker would show a part of a secret, because it knows only the whole. A worker keeps 32
// KiB of outputs of one step, as JSON; a step that gives more fails.
func OutputText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	size := 0
	for i, r := range text {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
			size += 2
		case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
			size += 6
		default:
			size += utf8.RuneLen(r)
		}
		if size > limit {
			return wholeWords(text, i)
		}
	}
	return text
}
