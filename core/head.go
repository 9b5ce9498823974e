package core

import "bytes"

// Head is a writer that keeps the first Most bytes and drops the others. It is not safe for
// concurrent use. Its buffer is not embedded: io.Copy prefers ReadFrom of a buffer, which has no
// limit.
type Head struct {
	Most int
	Full func() // called at each write beyond Most; may be nil
	kept bytes.Buffer
	over bool
}

// Write keeps as much of p as fits. It never fails.
func (h *Head) Write(p []byte) (int, error) {
	room := h.Most - h.kept.Len()
	h.kept.Write(p[:min(room, len(p))])
	if len(p) > room {
		if h.over = true; h.Full != nil {
			h.Full()
		}
	}
	return len(p), nil
}

// Over reports whether bytes were dropped.
func (h *Head) Over() bool { return h.over }

// Bytes are the bytes that were kept. The next Write may change them.
func (h *Head) Bytes() []byte { return h.kept.Bytes() }

func (h *Head) String() string { return h.kept.String() }
