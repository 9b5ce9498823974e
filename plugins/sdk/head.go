package sdk

import "strings"

// Head is a writer that keeps the first bytes it gets and drops the rest. The zero
// value keeps 1 MiB. For one goroutine at a time.
type Head struct {
	Limit int // 0: 1 MiB
	kept  []byte
	lost  bool
}

// Write never fails.
func (h *Head) Write(b []byte) (int, error) {
	limit := h.Limit
	if limit == 0 {
		limit = maxKept
	}
	room := limit - len(h.kept)
	if len(b) > room {
		h.lost = true
		h.kept = append(h.kept, b[:max(room, 0)]...)
		return len(b), nil
	}
	h.kept = append(h.kept, b...)
	return len(b), nil
}

// String is what was kept, as valid UTF-8.
func (h *Head) String() string { return strings.ToValidUTF8(string(h.kept), "\uFFFD") }

// Bytes is what was kept.
func (h *Head) Bytes() []byte { return h.kept }

// Truncated tells whether something was dropped.
func (h *Head) Truncated() bool { return h.lost }
