package host

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
)

// Bounds of what a plugin's own output may cost the worker.
const (
	maxLine    = 16 << 10 // longer lines are cut
	lineBurst  = 200      // lines in a burst, then
	lineRate   = 20       // a second; the rest is counted and dropped
	byteBurst  = 4 << 20  // bytes read in a burst, then
	byteRate   = 1 << 20  // a second: the plugin's pipe fills, and it waits
	tailLines  = 5
	tailLength = 300 // bytes of each
)

// lines is a writer that turns what a plugin prints into log records: bounded in
// size and rate, whatever is written. Safe for concurrent use.
type lines struct {
	log    *slog.Logger
	stream string
	gone   <-chan struct{} // the process's end: no more throttling

	mu      sync.Mutex
	clean   *redact.Stream // nil: there is nothing to hide
	partial []byte
	cut     bool // the rest of an overlong line is being skipped
	tokens  float64
	credit  float64 // bytes
	filled  time.Time
	dropped int
	tail    []string
}

func newLines(log *slog.Logger, stream string, gone <-chan struct{}) *lines {
	return &lines{log: log, stream: stream, gone: gone, tokens: lineBurst, credit: byteBurst, filled: time.Now()}
}

// Write never fails. It sleeps when the plugin writes faster than byteRate for long.
func (l *lines) Write(p []byte) (int, error) {
	if wait := l.take(p); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.gone:
		}
	}
	return len(p), nil
}

func (l *lines) take(p []byte) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refill(time.Now())
	l.credit -= float64(len(p))
	if l.clean != nil {
		_, _ = l.clean.Write(p) // never fails
		if bytes.HasSuffix(p, []byte{'\n'}) {
			l.clean.Idle()
		}
	} else {
		l.split(p)
	}
	if l.credit < 0 {
		return time.Duration(-l.credit / byteRate * float64(time.Second))
	}
	return 0
}

// hide takes values out of what is written from now on. It comes before the first Write.
func (l *lines) hide(values *redact.Set) { l.clean = values.Stream(l.split) }

func (l *lines) split(p []byte) {
	for rest := p; len(rest) > 0; {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		rest = after
		l.add(line)
		if found {
			l.emit()
		}
	}
}

func (l *lines) refill(now time.Time) {
	passed := now.Sub(l.filled).Seconds()
	l.filled = now
	l.tokens = min(l.tokens+passed*lineRate, lineBurst)
	l.credit = min(l.credit+passed*byteRate, byteBurst)
}

// add appends to the line being built, up to maxLine.
func (l *lines) add(b []byte) {
	if room := maxLine - len(l.partial); len(b) > room {
		b, l.cut = b[:room], true
	}
	l.partial = append(l.partial, b...)
}

// emit logs the line that was built.
func (l *lines) emit() {
	line, cut := bytes.TrimRight(l.partial, "\r"), l.cut
	l.partial, l.cut = l.partial[:0], false
	if len(line) == 0 {
		return
	}
	if l.tokens < 1 {
		l.dropped++
		return
	}
	l.tokens--
	if l.dropped > 0 {
		l.log.Warn("plugin prints too much", "stream", l.stream, "lines_dropped", l.dropped)
		l.dropped = 0
	}
	level, text, attrs := parseLine(line)
	if cut {
		text += "…"
	}
	if len(l.tail) == tailLines {
		l.tail = l.tail[1:]
	}
	l.tail = append(l.tail, text[:min(len(text), tailLength)])
	l.log.LogAttrs(context.Background(), level, text, append(attrs, slog.String("stream", l.stream))...)
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clean != nil {
		l.clean.Flush()
	}
	l.emit()
	if l.dropped > 0 {
		l.log.Warn("plugin printed too much", "stream", l.stream, "lines_dropped", l.dropped)
		l.dropped = 0
	}
}

// last is the end of what was printed, for error messages.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, " / ")
}

// parseLine reads an hclog JSON line, and takes any other line as it is.
func parseLine(line []byte) (slog.Level, string, []slog.Attr) {
	plain := strings.ToValidUTF8(string(line), "�")
	var fields map[string]json.RawMessage
	if line[0] != '{' || json.Unmarshal(line, &fields) != nil {
		level := slog.LevelInfo
		if strings.HasPrefix(plain, "panic: ") || strings.HasPrefix(plain, "fatal error: ") {
			level = slog.LevelError
		}
		return level, plain, nil
	}
	var text, name string
	if json.Unmarshal(fields["@message"], &text) != nil || json.Unmarshal(fields["@level"], &name) != nil {
		return slog.LevelInfo, plain, nil
	}
	level := slog.LevelInfo
	switch strings.ToLower(name) {
	case "trace", "debug":
		level = slog.LevelDebug
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	}
	keys := make([]string, 0, len(fields))
	for k := range fields {
		if !strings.HasPrefix(k, "@") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	attrs := core.Map(keys, func(k string) slog.Attr { return slog.String(k, string(fields[k])) })
	if len(attrs) == 0 {
		return level, text, nil
	}
	return level, text, []slog.Attr{{Key: "fields", Value: slog.GroupValue(attrs...)}} // apart, so that none reads as the worker's own
}
