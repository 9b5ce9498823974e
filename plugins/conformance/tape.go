package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/turnus/turnus/core"
)

const (
	maxTape = 4 << 20  // bytes of a stream that are kept
	maxLine = 64 << 10 // go-plugin's scanner stops at a longer one
)

// tape keeps the text of a stream. Safe for concurrent use.
type tape struct {
	mu      sync.Mutex
	kept    []byte
	line    int // bytes of the line under way
	longest int
	said    int
}

// Write never fails.
func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said += len(p)
	for rest := p; len(rest) > 0; {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		t.line += len(line)
		t.longest = max(t.longest, t.line)
		if found {
			t.line = 0
		}
		rest = after
	}
	t.kept = append(t.kept, p[:min(len(p), maxTape-len(t.kept))]...)
	return len(p), nil
}

func (t *tape) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}

// size returns how many bytes were written, kept or not.
func (t *tape) size() int { return core.Locked(&t.mu, &t.said) }

// first is the first line, cut for people.
func (t *tape) first() string {
	line, _, _ := bytes.Cut(t.bytes(), []byte{'\n'})
	return string(line[:min(len(line), 80)])
}

// last is the end of the stream, cut for people.
func (t *tape) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.bytes()), []byte{'\n'})
	line := lines[len(lines)-1]
	return string(line[:min(len(line), 300)])
}

func (t *tape) longestLine() int { return core.Locked(&t.mu, &t.longest) }

// badLog is the first JSON line whose fields are not those of a log record.
func (t *tape) badLog() (line, fault string) {
	for raw := range bytes.Lines(t.bytes()) {
		raw = bytes.TrimSpace(raw)
		var fields map[string]json.RawMessage
		if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &fields) != nil {
			continue
		}
		for _, key := range []string{"@message", "@level", "@timestamp"} {
			var text string
			if value, ok := fields[key]; ok && json.Unmarshal(value, &text) != nil {
				return string(raw[:min(len(raw), 120)]), fmt.Sprintf("%s is %s, not a string", key, value[:min(len(value), 40)])
			}
		}
	}
	return "", ""
}
